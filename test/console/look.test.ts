import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { findings, openLoaded, tooWide } from "../harness/accessibility.ts";
import { composer, conversation, send, startConsole } from "../harness/browser.ts";

const PAGES = [
  "/chat",
  "/approvals",
  "/approvals?view=answered",
  "/approvals?view=saved",
  "/runs",
  "/sessions",
];
for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 390]) {
    test(`axe finds nothing on any page in ${colorScheme} colours at ${width} px`, async () => {
      await using shown = await startConsole({ width, colorScheme });
      const page = await shown.open();
      await send(page, "run: rm -rf ./some-folder");
      await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
      await page.waitForURL(/\/chat\/(?!new)/);
      for (const path of PAGES) {
        await openLoaded(page, path);
        assert.deepEqual(await findings(page), [], path);
      }
      await page.getByRole("link", { name: "Chat" }).click();
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
      assert.deepEqual(await findings(page), [], "an answer with a tool call");
    });
  }
}

test("the sign-in page passes axe", async () => {
  await using shown = await startConsole();
  await shown.page.goto("/login");
  await shown.page.getByRole("heading").first().waitFor();
  assert.deepEqual(await findings(shown.page), []);
});

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

test("a message is written, an approval given and a page changed with the keyboard alone", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await composer(page).waitFor();
  await tabTo(page, "textarea");
  await page.keyboard.type("run: rm -rf ./some-folder");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Allow once" }).waitFor();
  await tabTo(page, "button", "Allow once");
  await page.keyboard.press("Enter");
  await conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .waitFor();
  await tabTo(page, "a", "Runs");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/runs");
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Runs");
});

/** Presses Tab until an element has the focus, and fails when a whole round has not reached it. */
async function tabTo(page: Page, tag: string, text = ""): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    const isThere = await page.evaluate(
      ([wantedTag, wantedText]) => {
        const { activeElement: active } = document;
        return active?.matches(wantedTag!) === true && (active.textContent ?? "").includes(wantedText!);
      },
      [tag, text],
    );
    if (isThere) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`the keyboard does not reach ${tag} ${text}`);
}

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
