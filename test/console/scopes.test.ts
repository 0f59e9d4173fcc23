import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import type { RunAccepted } from "../../generated/http/client/types.gen.ts";
import { composer, startConsole, type ConsoleTest } from "../harness/browser.ts";

const PAGES = [
  "/chat",
  "/approvals",
  "/approvals?view=saved",
  "/runs",
  "/sessions",
  "/platforms",
  "/usage",
  "/logs",
  "/settings/models",
  "/settings/keys",
  "/settings/browsers",
  "/settings/log",
  "/settings?q=telegram",
];
/** What works, and would end the test. */
const LEAVES = /^Sign out/;

/** Signs a browser in with a key that may only read. It belongs to the owner of the first key. */
async function openAsReader(shown: ConsoleTest, path: string): Promise<Page> {
  const key = { name: "reader", owner: "default", scopes: ["read"] };
  const made = await shown.request("/v1/keys", { method: "POST", body: JSON.stringify(key) });
  assert.equal(made.status, 201, await made.clone().text());
  const body = JSON.stringify({ kind: "link", key: "reader" });
  const response = await shown.request("/api/console/codes", { method: "POST", body });
  const { code } = (await response.json()) as { readonly code: string };
  await shown.page.goto(`/login?next=${encodeURIComponent(path)}#c=${code}`);
  await shown.page.waitForURL((address) => address.pathname !== "/login");
  return shown.page;
}

async function loaded(page: Page): Promise<void> {
  await page.locator("h1").waitFor();
  await page.getByRole("status").filter({ hasText: "Loading" }).first().waitFor({ state: "detached" });
}

/** Presses each button of the page once. What it opens is closed again. */
async function pressAll(page: Page): Promise<string[]> {
  const pressed: string[] = [];
  const buttons = page.locator("main").getByRole("button");
  for (let index = 0; index < (await buttons.count()); index++) {
    const button: Locator = buttons.nth(index);
    const name = (await button.getAttribute("aria-label")) ?? (await button.innerText());
    if (LEAVES.test(name) || !(await button.isVisible()) || !(await button.isEnabled())) continue;
    await button.click();
    pressed.push(name);
    await page.keyboard.press("Escape");
  }
  return pressed;
}

test("a key that may only read sees every page, and no control that the server would refuse", async () => {
  await using shown = await startConsole();
  const started = await shown.request("/v1/runs", {
    method: "POST",
    body: JSON.stringify({ input: "run: echo 1" }),
  });
  const { id } = (await started.json()) as RunAccepted;
  await (await shown.request(`/v1/runs/${id}/events`)).text();
  await shown.request("/v1/runs", {
    method: "POST",
    body: JSON.stringify({ input: "run: rm -rf ./folder" }),
  });
  const page = await openAsReader(shown, "/usage");
  const refused: string[] = [];
  const writes: string[] = [];
  page.on("response", (response) => {
    const what = `${response.request().method()} ${new URL(response.url()).pathname} ${response.status()}`;
    if (response.status() === 403) refused.push(what);
    if (!what.startsWith("GET ") && !what.includes("ws-ticket")) writes.push(what);
  });
  let count = 0;
  for (const path of [...PAGES, `/runs/${id}`]) {
    await page.goto(path);
    await loaded(page);
    count += (await pressAll(page)).length;
  }
  assert.ok(count > 10, `only ${count} buttons were pressed`);
  assert.deepEqual([refused, writes], [[], []]);
});

test("the first page of a key that may only read shows nothing else, before the server says what it may do", async () => {
  await using shown = await startConsole();
  const answered = Promise.withResolvers<void>();
  await shown.page.route("**/api/console/session", async (route) => {
    if (route.request().method() === "GET") await answered.promise;
    await route.continue();
  });
  const page = await openAsReader(shown, "/chat");
  await page.getByRole("heading", { name: "Choose a session" }).waitFor();
  assert.equal(await composer(page).count(), 0);
  const answer = page.waitForResponse("**/api/console/session");
  answered.resolve();
  await answer;
});

test("a page that needs more than the key has says which scope is missing", async () => {
  await using shown = await startConsole();
  const page = await openAsReader(shown, "/logs");
  await page.getByRole("heading", { name: "This key may not see the log" }).waitFor();
  await page.getByText("reader", { exact: true }).waitFor();
  await page.getByText("admin", { exact: true }).first().waitFor();
});

test("a key that may only read sees conversations with their tool calls, live, and nothing to write with", async () => {
  await using shown = await startConsole();
  const run = async (input: string) => {
    const body = JSON.stringify({ input, session_id: "talk" });
    const started = await shown.request("/v1/runs", { method: "POST", body });
    assert.equal(started.status, 202, await started.clone().text());
    const { id } = (await started.json()) as RunAccepted;
    await (await shown.request(`/v1/runs/${id}/events`)).text();
  };
  await run("run: echo seen-$((40 + 2))");
  const page = await openAsReader(shown, "/chat");
  await page.getByRole("heading", { name: "Choose a session" }).waitFor();
  await page.getByRole("complementary", { name: "Sessions" }).getByRole("link").first().click();
  const log = page.getByRole("log", { name: "Conversation" });
  await log.getByText("run: echo seen-$((40 + 2))").first().waitFor();
  await log.getByText("seen-42").last().waitFor();
  await log.getByText("terminal", { exact: true }).waitFor();
  await run("and now?");
  await log.getByText("and now?", { exact: true }).waitFor();
  await page.getByText("To write, it needs the scope chat.").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Message" }).count(), 0);
  for (const name of ["Send", "New conversation", "Fork here", "Edit"])
    assert.equal(await page.getByRole("button", { name }).count(), 0, name);
});
