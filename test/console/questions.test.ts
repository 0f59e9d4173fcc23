import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { conversation, send, startConsole, type ConsoleTest } from "../harness/browser.ts";

interface OpenQuestion {
  readonly id: string;
  readonly session_id: string;
}

const card = (page: Page) => page.getByRole("group", { name: /asks to use terminal/ });

async function openQuestions(shown: ConsoleTest): Promise<readonly OpenQuestion[]> {
  const response = await shown.request("/v1/questions?status=open");
  return ((await response.json()) as { readonly data: readonly OpenQuestion[] }).data;
}

async function answer(shown: ConsoleTest, id: string, choice: string): Promise<number> {
  const body = JSON.stringify({ choice });
  const response = await shown.request(`/v1/questions/${id}/answer`, { method: "POST", body });
  return response.status;
}

test("a denied approval reaches the agent, and the command does not run", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./never-removed");
  await card(page).getByRole("button", { name: "Deny" }).click();
  await card(page).waitFor({ state: "detached" });
  await conversation(page)
    .getByText(/denied/i)
    .first()
    .waitFor();
});

test("an approval without an answer expires, and the page says so", async () => {
  await using shown = await startConsole({ config: { approvals: { timeout_seconds: 2 } } });
  const page = await shown.open();
  await send(page, "run: rm -rf ./some-folder");
  await card(page).getByRole("timer").waitFor();
  await card(page).waitFor({ state: "detached" });
  await conversation(page)
    .getByText(/expired without an answer/)
    .waitFor();
});

test("a question that was answered elsewhere closes, and says how", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./some-folder");
  await card(page).waitFor();
  const [question] = await openQuestions(shown);
  assert.equal(await answer(shown, question!.id, "deny"), 200);
  await card(page).waitFor({ state: "detached" });
  await conversation(page)
    .getByText(/answered elsewhere/)
    .waitFor();
});

test("the answer to one question never reaches the next one", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./first-folder");
  await card(page).getByText("./first-folder").waitFor();
  const [first] = await openQuestions(shown);
  await send(page, "run: rm -rf ./second-folder");
  await page.getByRole("list", { name: "Waiting behind this turn" }).getByText("second-folder").waitFor();
  // Answered elsewhere while the button of the first one is on the screen.
  assert.equal(await answer(shown, first!.id, "deny"), 200);
  await card(page).getByText("./second-folder").waitFor();
  const [second] = await openQuestions(shown);
  assert.notEqual(second!.id, first!.id);
  assert.equal(await answer(shown, first!.id, "once"), 409);
  await card(page).getByRole("button", { name: "Deny" }).click();
  await card(page).waitFor({ state: "detached" });
  // The card goes with the click, before the gateway has the answer.
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.deepEqual(await openQuestions(shown), []);
});

test("the inbox shows the questions of all sessions, and an answer there continues the turn in the chat", async () => {
  await using shown = await startConsole();
  const chat = await shown.open();
  await send(chat, "run: rm -rf ./from-the-chat");
  await card(chat).waitFor();
  const body = JSON.stringify({ input: "run: rm -rf ./from-the-api" });
  assert.equal((await shown.request("/v1/runs", { method: "POST", body })).status, 202);
  // The tab of every page says how many wait.
  await chat.waitForFunction(() => document.title === "(2) agentd");
  const inbox = await shown.newPage();
  await inbox.goto("/approvals");
  await inbox.getByText("./from-the-api").waitFor();
  const chatItem = inbox.getByRole("listitem").filter({ hasText: "./from-the-chat" });
  await chatItem.getByRole("button", { name: "Deny" }).click();
  await chatItem.waitFor({ state: "detached" });
  await card(chat).waitFor({ state: "detached" });
  await inbox.getByRole("link", { name: /Approvals.*1 waiting/ }).waitFor();
  await inbox.getByRole("button", { name: "Answered", exact: true }).click();
  await inbox.getByRole("row").filter({ hasText: "./from-the-chat" }).getByText("deny").waitFor();
});

test("a tool call that waits for an answer says so, also after a reload, and continues with the answer", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./some-folder");
  await card(page).waitFor();
  const waiting = conversation(page).getByText("waits for you");
  await waiting.waitFor();
  assert.equal(await conversation(page).getByText("running", { exact: true }).count(), 0);
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.reload();
  await card(page).waitFor();
  await waiting.waitFor();
  await card(page).getByRole("button", { name: "Allow once" }).click();
  await waiting.waitFor({ state: "detached" });
  await conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .waitFor();
});
