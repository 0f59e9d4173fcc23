import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
import {
  composer,
  whenConnected,
  conversation,
  send,
  startConsole,
  type ConsoleTest,
} from "../harness/browser.ts";

interface Message {
  readonly role: string;
  readonly text: string;
}

async function messagesOf(shown: ConsoleTest, role: string): Promise<readonly string[]> {
  const id = decodeURIComponent(new URL(shown.page.url()).pathname.split("/").at(-1) ?? "");
  const response = await shown.request(`/v1/sessions/${id}/messages?order=asc&limit=100`);
  const { data } = (await response.json()) as { readonly data: readonly Message[] };
  return data.filter((message) => message.role === role).map(({ text }) => text);
}

test("an approval survives a kill of the gateway, and a message written meanwhile is sent once", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./some-folder");
  const card = page.getByRole("group", { name: /asks to use terminal/ });
  await card.waitFor();
  await page.waitForURL(/\/chat\/(?!new)/);
  await shown.kill();
  await page.getByText("The gateway does not answer.").waitFor();
  await page.getByRole("button", { name: "Try now" }).click();
  await page.getByText("The gateway does not answer.").waitFor();
  await send(page, "written while it was away");
  await conversation(page).getByText("Kept here, sent when the gateway answers").waitFor();
  await shown.restart();
  await card.getByRole("button", { name: "Allow once" }).click();
  await conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .waitFor();
  await conversation(page)
    .getByText(/written while it was away/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.deepEqual(await messagesOf(shown, "user"), [
    "run: rm -rf ./some-folder",
    "written while it was away",
  ]);
});

test("a message written offline is sent once by the next page, when the tab was closed before", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await shown.kill();
  await page.getByText("The gateway does not answer.").waitFor();
  await send(page, "kept in the browser");
  await conversation(page).getByText("Kept here").waitFor();
  const address = page.url();
  await page.close();
  await shown.restart();
  const next = await shown.newPage();
  await next.goto(address);
  await conversation(next)
    .getByText(/kept in the browser/)
    .nth(1)
    .waitFor();
  await next.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.deepEqual(await messagesOf(shown, "user"), ["hello", "kept in the browser"]);
  assert.equal(await composer(next).inputValue(), "");
});

test("what could not be read while the gateway was away is read when it is back", async () => {
  await using shown = await startConsole();
  const isConnected = whenConnected(shown);
  const page = await shown.open("/outbox");
  await page.getByRole("heading", { name: "No message yet" }).waitFor();
  await isConnected;
  await shown.kill();
  await page.getByText("The gateway does not answer.").waitFor();
  await page.getByRole("button", { name: /^delivered/ }).click();
  await page.getByRole("alert").getByText("The connection to the server failed.").waitFor();
  await shown.restart();
  await page.getByText("Nothing matches these filters.").waitFor();
});

test("an update reloads once and keeps the draft, even where a proxy keeps the page of before", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/chat/new");
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  // Every page that loads is that of an earlier version, as from a proxy that keeps it.
  await page.addInitScript(() => {
    document.addEventListener("readystatechange", () => {
      const version = document.querySelector('meta[name="agentd-console"]');
      if (document.readyState === "interactive") version?.setAttribute("content", "an earlier version");
    });
  });
  let isUpdated = false;
  let loads = 0;
  const questions = new EventEmitter();
  const isAsked = () => once(questions, "answered");
  // It asks the gateway for the version whenever it is connected.
  await page.route("**/chat", async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    assert.match(text, /name="agentd-console" content="\w+"/);
    const earlier = text.replace(/(name="agentd-console" content=)"\w+"/, '$1"an earlier version"');
    await route.fulfill({ response, body: isUpdated ? text : earlier });
    questions.emit("answered");
  });
  page.on("request", (request) => {
    if (request.isNavigationRequest()) loads += 1;
  });
  const kill = async () => {
    await shown.kill();
    await page.getByText("The gateway does not answer.").waitFor();
  };
  let asked = isAsked();
  await page.reload();
  await asked;
  await composer(page).fill("half a thought");
  await page.waitForFunction(() => JSON.stringify(localStorage).includes("half a thought"));
  assert.equal(loads, 1, "the same version does not reload");
  await kill();
  isUpdated = true;
  // The first question leads to the reload, the second comes from the page after it, which is still the earlier one.
  asked = isAsked().then(isAsked);
  await shown.restart();
  await asked;
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "half a thought");
  await kill();
  asked = isAsked();
  await shown.restart();
  await asked;
  await conversation(page).getByText("hello").first().waitFor();
  assert.equal(await composer(page).inputValue(), "half a thought");
  assert.equal(loads, 2, "once for the update");
});

test("what was pressed while the gateway was away is done before the page of an update loads", async () => {
  await using shown = await startConsole();
  const body = JSON.stringify({ name: "tea", schedule: "every 1d", prompt: "tea" });
  const made = await shown.request("/v1/jobs", { method: "POST", body });
  const { id } = (await made.json()) as { readonly id: string };
  const page = await shown.open(`/schedule/${id}`);
  await page.getByText("It has not run yet.").waitFor();
  let isUpdated = false;
  await page.route("**/chat", async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    const other = text.replace(/(name="agentd-console" content=)"\w+"/, '$1"another version"');
    await route.fulfill({ response, body: isUpdated ? other : text });
  });
  // The answer comes after the page has heard of the update.
  const told = page.waitForResponse("**/chat");
  await page.route("**/run", async (route) => {
    if (isUpdated) await told;
    await route.continue();
  });
  await shown.kill();
  await page.getByText("The gateway does not answer.").waitFor();
  isUpdated = true;
  await page.getByRole("button", { name: "Run now" }).click();
  const loaded = page.waitForEvent("load");
  await shown.restart();
  await loaded;
  await page.getByRole("table", { name: "History" }).getByText("done").waitFor();
  const occurrences = await shown.request(`/v1/occurrences?job_id=${id}`);
  assert.equal(((await occurrences.json()) as { readonly data: readonly object[] }).data.length, 1);
});
