import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunAccepted } from "../../generated/http/client/types.gen.ts";
import { startConsole, takeRefusals, type ConsoleTest } from "../harness/browser.ts";
import { startModelServer } from "../harness/openai-server.ts";

/** Each run of this model fails, and the log says so. */
const refusing = () =>
  startModelServer(() => ({ status: 400, body: '{"error":{"message":"no such model"}}' }));

async function failingRun(shown: ConsoleTest): Promise<string> {
  const started = await shown.request("/v1/runs", {
    method: "POST",
    body: JSON.stringify({ input: "fail" }),
  });
  return ((await started.json()) as RunAccepted).id;
}

test("the log is followed live, leads to the run, and shows the lines of one run", async () => {
  await using models = await refusing();
  await using shown = await startConsole({ models });
  const page = await shown.open("/logs");
  const lines = page.getByRole("list", { name: "Lines, newest first" });
  await lines.getByText("listening").waitFor();
  const ids = [await failingRun(shown), await failingRun(shown)];
  for (const id of ids) await lines.getByRole("link", { name: id }).first().waitFor();
  await lines.getByRole("link", { name: ids[0]! }).first().click();
  await page.waitForURL(`**/runs/${ids[0]}`);
  await page.getByRole("link", { name: "Lines of this run" }).click();
  await page.waitForURL(`**/logs?run=${ids[0]}`);
  await lines.getByText(ids[0]!).first().waitFor();
  assert.equal(await lines.getByText(ids[1]!).count(), 0);
  assert.equal(await lines.getByText("listening").count(), 0);
});

test("a paused log stays as it is, and then continues with every line written meanwhile", async () => {
  await using models = await refusing();
  await using shown = await startConsole({ models });
  const page = await shown.open("/logs");
  const lines = page.getByRole("list", { name: "Lines, newest first" });
  await lines.getByText("listening").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused").waitFor();
  const before = await lines.getByRole("listitem").count();
  const other = await shown.newPage();
  await other.goto("/logs");
  const id = await failingRun(shown);
  await other.getByRole("link", { name: id }).first().waitFor();
  assert.equal(await lines.getByRole("listitem").count(), before);
  await page.getByRole("button", { name: "Go on" }).click();
  await lines.getByRole("link", { name: id }).first().waitFor();
  const texts = await lines.getByRole("listitem").allInnerTexts();
  assert.equal(new Set(texts).size, texts.length);
});

test("the log is searched and filtered, and the filters are in the address", async () => {
  await using models = await refusing();
  await using shown = await startConsole({ models });
  const page = await shown.open("/logs?level=warn");
  await page.getByText("No line matches these filters yet.").waitFor();
  const id = await failingRun(shown);
  const lines = page.getByRole("list", { name: "Lines, newest first" });
  await lines.getByRole("link", { name: id }).first().waitFor();
  assert.equal(await lines.getByText("listening").count(), 0);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("no such line");
  await page.waitForURL("**q=no*");
  await page.getByText("No line matches these filters yet.").waitFor();
});

test("the log continues after the gateway was killed and started again", async () => {
  await using models = await refusing();
  await using shown = await startConsole({ models });
  const page = await shown.open("/logs");
  const lines = page.getByRole("list", { name: "Lines, newest first" });
  await lines.getByText("listening").waitFor();
  await shown.kill();
  await page.getByText("cut off").waitFor();
  await shown.restart();
  await page.getByText("live", { exact: true }).waitFor();
  const id = await failingRun(shown);
  await lines.getByRole("link", { name: id }).first().waitFor();
  // The log of the killed process is gone, which the page learns by asking for it.
  takeRefusals(shown, 410);
});
