import assert from "node:assert/strict";
import { test } from "node:test";
import { composer, conversation, send, startConsole } from "../harness/browser.ts";
import { calling, saying, startModelServer, type ModelReply } from "../harness/openai-server.ts";

const hanging: ModelReply = { pieces: [{ text: "I begin" }, { hang: true }] };

test("a turn is stopped, a message waits behind a turn, and another one steers it", async () => {
  const slow = calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: "sleep 30" }) });
  await using models = await startModelServer((_, index) =>
    index === 0 ? slow : saying("Answer", ` ${index}`),
  );
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "start something long");
  await conversation(page).getByText("sleep 30").first().waitFor();
  await send(page, "and then this");
  await page.getByRole("list", { name: "Waiting behind this turn" }).getByText("and then this").waitFor();
  await composer(page).fill("mind the time");
  await page.getByRole("button", { name: "Steer" }).click();
  await conversation(page).getByText("mind the time").waitFor();
  await conversation(page).getByText("Steered").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await conversation(page).getByText("and then this").waitFor();
  await conversation(page)
    .getByText(/^Answer \d$/)
    .last()
    .waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
});

test("Escape in the composer stops the turn", async () => {
  await using models = await startModelServer(() => hanging);
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "say something");
  await conversation(page).getByText("I begin").waitFor();
  await composer(page).press("Escape");
  await conversation(page).getByText("Stopped here.").waitFor();
});

test("a draft survives a reload, a change of session and a crash of the tab", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  const address = page.url();
  await composer(page).fill("half a thought");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "half a thought");
  await page.getByRole("button", { name: "New conversation" }).first().click();
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "");
  await composer(page).fill("another one");
  await page.goBack();
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "half a thought");
  await composer(page).fill("half a thought, and more");
  await page.waitForFunction(() => JSON.stringify(localStorage).includes("and more"));
  // A tab that crashes runs no handler of its own.
  const other = await shown.newPage();
  await page.close({ runBeforeUnload: false });
  await other.goto(address);
  await other.waitForFunction(() => document.querySelector("textarea")?.value === "half a thought, and more");
});

test("reading back is not pulled down while an answer streams in", async () => {
  const words = Array.from({ length: 400 }, (_, index) => `line ${index}\n\n`);
  await using models = await startModelServer(() => saying(...words));
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "a long answer");
  await conversation(page).getByText("line 399").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await conversation(page).evaluate((box) => void (box.scrollTop = 100));
  await page.getByRole("button", { name: "Newest" }).waitFor();
  const place = async () =>
    (await conversation(page).getByText("line 5", { exact: true }).first().boundingBox())?.y;
  const before = await place();
  assert.ok(before);
  await send(page, "and another");
  await conversation(page).getByText("line 399").nth(1).waitFor({ state: "attached" });
  assert.equal(await place(), before);
  await page.getByRole("button", { name: "Newest" }).click();
  await page.getByRole("button", { name: "Newest" }).waitFor({ state: "detached" });
});

test("during its first turn, and until it has a title, a session is called by its first prompt", async () => {
  await using models = await startModelServer(() => hanging);
  await using shown = await startConsole({ models });
  const page = await shown.open();
  const title = (name: string) => page.getByRole("heading", { level: 1, name, exact: true });
  await title("New conversation").waitFor();
  await send(page, "Tell me about lighthouses");
  await conversation(page).getByText("I begin").waitFor();
  await title("Tell me about lighthouses").waitFor();
  const list = page.getByRole("complementary", { name: "Sessions" });
  await list.getByRole("link", { name: /Tell me about lighthouses/ }).waitFor();
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.reload();
  await title("Tell me about lighthouses").waitFor();
  await list.getByRole("button", { name: "New conversation" }).click();
  await title("New conversation").waitFor();
});
