import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { openStore } from "../../src/store/open.ts";
import { composer, signInLink, startConsole } from "../harness/browser.ts";

test("a link signs in once and leaves no code in the address or the history", async () => {
  await using shown = await startConsole();
  const link = await signInLink(shown.request, "/runs");
  const code = link.split("#c=")[1] ?? "";
  const { page } = shown;
  await page.goto(link);
  await page.waitForURL("**/runs");
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  assert.ok(!page.url().includes(code));
  await page.goBack();
  assert.ok(!page.url().includes(code), "the history does not have it either");
});

test("a link that was used is refused with the reason", async () => {
  await using shown = await startConsole();
  const link = await signInLink(shown.request, "/chat");
  await shown.page.goto(link);
  await composer(shown.page).waitFor();
  const other = await shown.context.browser()!.newContext({ baseURL: shown.url });
  const page = await other.newPage();
  await page.goto(link);
  await page.getByRole("alert").waitFor();
  assert.match(page.url(), /\/login/);
  assert.match(await page.getByRole("alert").innerText(), /code/i);
  await other.close();
});

test("a code too old is refused", async (t) => {
  await using shown = await startConsole();
  const { page } = shown;
  const link = await signInLink(shown.request, "/chat");
  const store = await openStore({ url: shown.place.database });
  t.after(() => store.close());
  await store.write(async (tx) => {
    const sha256 = hash("sha256", link.split("#c=")[1] ?? "");
    assert.equal(await tx.update("console_codes", { sha256 }, { expires_at: Date.now() - 1 }), 1);
  });
  shown.allow(/status of 401/);
  await page.goto(link);
  await page.getByRole("alert").getByText("has expired").waitFor();
  assert.deepEqual(await shown.context.cookies(), []);
  // The page says what to do next, and a new link works in the same tab.
  await page.getByText("agentd open", { exact: true }).waitFor();
  await shown.open("/chat");
  await composer(page).waitFor();
});

test("a phone code locks after five tries", async () => {
  await using shown = await startConsole();
  const { page } = shown;
  const made = await shown.request("/api/console/codes", {
    method: "POST",
    body: JSON.stringify({ kind: "phone" }),
  });
  const { code } = (await made.json()) as { readonly code: string };
  assert.match(code, /^[0-9A-Z]{4}-[0-9A-Z]{4}$/);
  shown.allow(/status of 401/);
  await page.goto("/login");
  const attempt = async (typed: string) => {
    const answer = page.waitForResponse((response) => response.request().method() === "POST");
    await page.getByLabel("Code or API key").fill(typed);
    await page.getByRole("button", { name: "Sign in" }).click();
    const status = (await answer).status();
    await page.getByRole("button", { name: "Sign in", exact: true }).waitFor();
    return status;
  };
  for (let index = 0; index < 5; index++) assert.equal(await attempt(`0000-000${index}`), 401);
  assert.equal(await attempt(code), 401, "the code itself is no longer valid");
  await page.getByRole("alert").getByText("agentd open").waitFor();
  assert.match(page.url(), /\/login/);
});

test("a browser without a session is sent to the sign-in page, which leads back to where it wanted to go", async () => {
  await using shown = await startConsole();
  const { page } = shown;
  await page.goto("/approvals?view=saved");
  await page.waitForURL(/\/login\?next=/);
  await page.getByText("agentd open", { exact: true }).waitFor();
  await page.getByLabel("Code or API key").fill(await shown.place.key());
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/approvals?view=saved");
  await page.getByRole("heading", { name: "Approvals" }).waitFor();
});

test("a key that was typed is found nowhere in the browser afterwards", async () => {
  await using shown = await startConsole();
  const { page, context } = shown;
  const key = await shown.place.key();
  const addresses: string[] = [];
  page.on("request", (request) => void addresses.push(request.url()));
  await page.goto("/login");
  await page.getByLabel("Code or API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await composer(page).waitFor();
  const kept = await page.evaluate(() =>
    JSON.stringify([
      { ...localStorage },
      { ...sessionStorage },
      document.cookie,
      location.href,
      document.documentElement.outerHTML,
    ]),
  );
  assert.ok(!kept.includes(key));
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts see no cookie");
  assert.ok(!JSON.stringify(await context.cookies()).includes(key));
  assert.ok(!addresses.some((address) => address.includes(key)));
});

test("a wrong key is refused in words", async () => {
  await using shown = await startConsole();
  const { page } = shown;
  // The browser logs the refusal of its own accord.
  shown.allow(/status of 401/);
  await page.goto("/login");
  await page.getByLabel("Code or API key").fill("not-a-key-of-this-gateway");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  assert.match(page.url(), /\/login/);
});

test("after signing out the socket is closed and the page asks for a sign-in", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await composer(page).waitFor();
  // The page may be asking who is signed in at this moment.
  shown.allow(/status of 401/);
  const closed = page.waitForEvent("framenavigated");
  await page.getByRole("button", { name: "Sign out" }).click();
  await closed;
  await page.waitForURL(/\/login/);
  await page.goto("/chat");
  await page.waitForURL(/\/login/);
});

for (const next of ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]) {
  test(`the sign-in does not lead to ${next}`, async () => {
    await using shown = await startConsole();
    const link = await signInLink(shown.request, next);
    await shown.page.goto(link);
    await shown.page.waitForURL((address) => address.pathname.startsWith("/chat"));
    assert.equal(new URL(shown.page.url()).origin, shown.url);
  });
}
