import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, openLoaded, tooWide } from "../harness/accessibility.ts";
import { composer, send, startConsole } from "../harness/browser.ts";

const PAGES = [
  "/chat",
  "/approvals",
  "/approvals?view=answered",
  "/approvals?view=saved",
  "/runs",
  "/sessions",
  "/logs/no-such-page",
];
const OVERLAYS = [
  ["Control+k", "Go to or do"],
  ["?", "Keys"],
] as const;

for (const width of [1280, 390]) {
  test(`axe finds nothing on any page at ${width} px, in light and dark colours`, async () => {
    await using shown = await startConsole({ width });
    await shown.page.goto("/login");
    await shown.page.getByRole("heading", { name: "Sign in to agentd" }).waitFor();
    assert.deepEqual(await findings(shown.page), [], "the sign-in");
    const page = await shown.open();
    await page.getByRole("button", { name: "run: date" }).waitFor();
    assert.deepEqual(await findings(page), [], "an empty conversation");
    for (const [keys, dialog] of OVERLAYS) {
      await composer(page).blur();
      await page.keyboard.press(keys);
      await page.getByRole("dialog", { name: dialog }).waitFor();
      assert.deepEqual(await findings(page), [], dialog);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    await send(page, "run: rm -rf ./some-folder");
    await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
    await page.waitForURL(/\/chat\/(?!new)/);
    for (const path of PAGES) {
      await openLoaded(page, path);
      assert.deepEqual(await findings(page), [], path);
    }
    await page.getByRole("link", { name: "Chat", exact: true }).click();
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
    assert.deepEqual(await findings(page), [], "an answer with a tool call");
  });
}

test("no page is wider than a window of 320 px, which is also 1280 px at a zoom of 400 %", async () => {
  await using shown = await startConsole({ width: 320, height: 256 });
  const page = await shown.open();
  await send(page, `run: rm -rf ./a-folder-${"with-a-very-long-name-".repeat(10)}`);
  await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
  for (const path of PAGES) {
    await openLoaded(page, path);
    assert.deepEqual(await tooWide(page), [], path);
  }
});

test("on a phone a long title leaves the buttons beside it in their row", async () => {
  await using shown = await startConsole({ width: 390 });
  const page = await shown.open();
  await send(page, `Tell me about ${"the long way home ".repeat(10)}`);
  await page.waitForURL(/\/chat\/(?!new)/);
  const header = page.locator(".page-header");
  await header.getByText(/the long way/).waitFor();
  const add = await header.getByRole("button", { name: "New conversation" }).boundingBox();
  const title = await header.getByRole("heading").boundingBox();
  assert.ok(add && title && add.y < title.y + title.height && add.x > title.x + title.width);
});

test("the colours that a person chooses stay, and the others follow the system", async () => {
  await using shown = await startConsole({ colorScheme: "dark" });
  const page = await shown.open();
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await background();
  await page.getByRole("button", { name: "Light colours" }).click();
  const light = await background();
  assert.notEqual(light, dark);
  await page.reload();
  await composer(page).waitFor();
  assert.equal(await background(), light);
  await page.getByRole("button", { name: "Colours of the system" }).click();
  assert.equal(await background(), dark);
});
