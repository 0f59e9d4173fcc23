import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import type { RunAccepted } from "../../generated/http/client/types.gen.ts";
import { composer, whenConnected, conversation, send, startConsole } from "../harness/browser.ts";
import { callApi } from "../harness/console-webhooks.ts";

/** Long enough for a poll. After 45 s without a frame the page would give its socket up, and ask for another. */
const POLLS_WITHIN_MS = 31_000;

test("the palette finds a page and a session by a few letters", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "a conversation about lighthouses");
  await page.waitForURL(/\/chat\/(?!new)/);
  const address = page.url();
  await page.goto("/runs");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search pages" }).fill("appr");
  await page.getByRole("option", { name: /^Approvals/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/approvals");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search pages" }).fill("lighthouses");
  await page.getByRole("option", { name: /lighthouses/ }).click();
  await page.waitForURL(address);
  await conversation(page).getByText("a conversation about lighthouses").first().waitFor();
});

test("single keys go to pages and through rows, and not while a person types; they can be switched off", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  await composer(page).pressSequentially("gr");
  assert.equal(await composer(page).inputValue(), "gr");
  await composer(page).blur();
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL("**/runs");
  await page.getByRole("row").nth(1).waitFor();
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.activeElement?.matches(".table-link"));
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByLabel("Single keys act on the page").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  assert.match(page.url(), /\/runs$/);
});

test("runs follow live, without a poll, and Back restores the filter", async () => {
  await using shown = await startConsole();
  await shown.page.clock.install();
  const isConnected = whenConnected(shown);
  const page = await shown.open("/runs");
  await page.getByRole("heading", { name: "No run yet" }).waitFor();
  await isConnected;
  const asked: string[] = [];
  page.on("request", (request) => void asked.push(new URL(request.url()).pathname));
  await page.clock.fastForward(POLLS_WITHIN_MS);
  await page.evaluate(async () => (await fetch("/health")).text());
  // Code that the page loads once it is idle is no poll.
  assert.deepEqual(
    asked.filter((path) => !path.startsWith("/_console/")),
    ["/health"],
  );
  const body = JSON.stringify({ input: "run: echo live" });
  assert.equal((await shown.request("/v1/runs", { method: "POST", body })).status, 202);
  await page.getByRole("row").filter({ hasText: "echo live" }).getByText("completed").waitFor();
  await page.getByLabel("Status").selectOption("failed");
  await page.getByText("Nothing matches these filters.").waitFor();
  assert.match(page.url(), /status=failed/);
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.waitForURL("**/sessions");
  await page.goBack();
  await page.waitForURL(/status=failed/);
  assert.equal(await page.getByLabel("Status").inputValue(), "failed");
});

test("Back restores filter and scroll, also after a reload of the page that was opened", async () => {
  await using shown = await startConsole();
  for (let index = 0; index < 40; index++)
    await callApi(shown, "/v1/outbox", { target: "local", text: `Message ${index}` });
  const page = await shown.open("/outbox");
  // Everything is delivered, and the page has heard of it: nothing moves below the click.
  await page.waitForFunction(() => {
    const counts = [...document.querySelectorAll(".outbox-count")].map((count) => count.textContent);
    return counts.length === 4 && counts.every((count) => count === "0");
  });
  await page.getByRole("button", { name: /^delivered/ }).click();
  await page.waitForURL("**/outbox?state=delivered");
  // A row that came later would move the others.
  await page.waitForFunction(() => document.querySelectorAll("#main tbody tr").length === 40);
  const row = page
    .getByRole("row")
    .filter({ has: page.getByRole("cell", { name: "Message 7", exact: true }) });
  await row.scrollIntoViewIfNeeded();
  const main = page.locator("#main");
  const before = await main.evaluate((element) => element.scrollTop);
  assert.ok(before > 400, `scrolled to ${before}`);
  await row.getByRole("link").first().click();
  await page.waitForURL(/\/outbox\/.+/);
  const isBack = async () => {
    await page.goBack();
    await page.waitForURL("**/outbox?state=delivered");
    await page.waitForFunction((top) => document.querySelector("#main")?.scrollTop === top, before);
    assert.equal(await page.getByRole("button", { name: /^delivered/ }).getAttribute("aria-pressed"), "true");
  };
  await isBack();
  await page.goForward();
  await page.getByLabel("Text").getByText("Message 7").waitFor();
  await page.reload();
  await page.getByLabel("Text").getByText("Message 7").waitFor();
  await isBack();
});

test("a session is renamed, found and deleted", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "hello");
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  await page.goto("/sessions");
  await page.getByRole("button", { name: /^Rename/ }).click();
  await page.getByRole("textbox", { name: "Title" }).fill("About the harbour");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await page.getByRole("link", { name: "About the harbour" }).waitFor();
  await page.getByRole("searchbox").fill("nothing like it");
  await page.getByText("Nothing matches these filters.").waitFor();
  await page.getByRole("searchbox").fill("harbour");
  await page.getByRole("link", { name: "About the harbour" }).waitFor();
  await page.getByRole("button", { name: /^Delete/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("Nothing matches these filters.").waitFor();
});

test("a key that may only read sees nothing that it cannot do", async () => {
  await using shown = await startConsole();
  const owner = await shown.open();
  await send(owner, "hello");
  await owner.waitForURL(/\/chat\/(?!new)/);
  const body = JSON.stringify({ name: "reader", owner: "default", scopes: ["read"] });
  const made = await shown.request("/v1/keys", { method: "POST", body });
  assert.equal(made.status, 201, await made.clone().text());
  const { key } = (await made.json()) as { readonly key: string };
  await owner.getByRole("button", { name: "Sign out" }).click();
  await owner.waitForURL(/\/login/);
  await owner.getByLabel("Code or API key").fill(key);
  await owner.getByRole("button", { name: "Sign in" }).click();
  await owner.waitForURL(/\/(chat|runs)/);
  await owner.goto("/chat/new");
  await owner.getByText("This key may read conversations.").waitFor();
  assert.equal(await composer(owner).count(), 0);
  await owner.goto("/sessions");
  await owner.getByRole("row").nth(1).waitFor();
  assert.equal(await owner.getByRole("button", { name: /^(Rename|Delete|Fork)/ }).count(), 0);
});

/** Opens a page and follows the changes. Resolves to what it has read until then, and within the time in which it gathers changes. */
async function readsOf(page: Page, path: string): Promise<readonly string[]> {
  const reads: string[] = [];
  page.on("request", (request) => {
    const { pathname, search } = new URL(request.url());
    if (request.method() === "GET" && /^\/(v1|health)/.test(pathname)) reads.push(pathname + search);
  });
  const opened = page.waitForEvent("websocket");
  await page.goto(path);
  const socket = await opened;
  const isCursor = ({ payload }: { payload: string | Buffer }) => /"cursor":/.test(String(payload));
  await socket.waitForEvent("framereceived", isCursor);
  await page.getByRole("status").filter({ hasText: "Loading" }).first().waitFor({ state: "detached" });
  await page.clock.runFor(2_000);
  // Behind everything that the page has asked for.
  await page.evaluate(async () => (await fetch("/health")).text());
  return reads.filter((read) => read !== "/health");
}

test("a page reads each of its lists and objects once when it opens", async () => {
  await using shown = await startConsole();
  const body = JSON.stringify({ input: "run: echo 1" });
  const started = await shown.request("/v1/runs", { method: "POST", body });
  const { id, session_id: session } = (await started.json()) as RunAccepted;
  await (await shown.request(`/v1/runs/${id}/events`)).text();
  await shown.open("/runs");
  for (const [path, some] of [
    ["/runs", "/v1/runs?limit=50"],
    [`/runs/${id}`, `/v1/runs/${id}`],
    [`/chat/${session}`, "/v1/sessions?limit=50"],
    ["/approvals", "/v1/questions?limit=50&status=open"],
    ["/schedule", "/v1/scheduler"],
    ["/outbox", "/health/detailed"],
    ["/webhooks", "/v1/webhooks/routes?limit=100"],
    ["/settings/keys", "/v1/keys?limit=50"],
  ] as const) {
    const page = await shown.newPage();
    await page.clock.install();
    const reads = await readsOf(page, path);
    assert.ok(reads.includes(some), `${path} has read ${reads.join(", ")}`);
    assert.deepEqual(reads, [...new Set(reads)], path);
    await page.close();
  }
});
