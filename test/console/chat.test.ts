import assert from "node:assert/strict";
import { test } from "node:test";
import { composer, conversation, send, startConsole } from "../harness/browser.ts";

test("a streamed answer with a tool call is shown, and the same after a reload", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: echo console-$((40 + 2))");
  const log = conversation(page);
  await log.getByText("console-42").last().waitFor();
  await log
    .getByText("done")
    .or(log.getByText(/^\d+ ms$|^\d+\.\d s$/))
    .first()
    .waitFor();
  await page.waitForURL(/\/chat\/(?!new)/);
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  const before = await log.locator("article").allInnerTexts();
  await page.reload();
  await log.getByText("console-42").last().waitFor();
  assert.deepEqual(await log.locator("article").allInnerTexts(), before);
});

test("an approval is allowed once, and the command runs", async () => {
  await using shown = await startConsole();
  const page = await shown.open();
  await send(page, "run: rm -rf ./build-folder");
  const card = page.getByRole("group", { name: /asks to use terminal/ });
  await card.getByText("rm -rf ./build-folder").waitFor();
  await card.getByRole("button", { name: "Allow once" }).click();
  await card.waitFor({ state: "detached" });
  await conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  assert.equal(await composer(page).inputValue(), "");
});
