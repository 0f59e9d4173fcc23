import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunAccepted } from "../../generated/http/client/types.gen.ts";
import { findings, openLoaded, tooWide } from "../harness/accessibility.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";

const PAGES = [
  "/platforms",
  "/usage",
  "/logs",
  "/settings",
  "/settings/model",
  "/settings/keys",
  "/settings/browsers",
  "/settings/check",
  "/settings?q=telegram",
];

/** Runs a command, so that usage and the run have something to show. Returns the pages. */
async function pagesWithContent(shown: ConsoleTest, command: string): Promise<readonly string[]> {
  const body = JSON.stringify({ input: `run: ${command}` });
  const started = await shown.request("/v1/runs", { method: "POST", body });
  const { id } = (await started.json()) as RunAccepted;
  await (await shown.request(`/v1/runs/${id}/events`)).text();
  return [...PAGES, `/runs/${id}`, `/runs/${id}?step=model-1`];
}

for (const width of [1280, 390]) {
  test(`axe finds nothing on runs, usage, logs and settings at ${width} px, in light and dark colours`, async () => {
    await using shown = await startConsole({ width });
    const page = await shown.open("/usage");
    for (const path of await pagesWithContent(shown, "echo seen")) {
      await openLoaded(page, path);
      assert.deepEqual(await findings(page), [], path);
    }
  });
}

test("runs, usage, logs and settings fit a window of 320 px, with content and without", async () => {
  await using shown = await startConsole({ width: 320, height: 256 });
  const page = await shown.open("/usage");
  for (const path of PAGES) {
    await openLoaded(page, path);
    assert.deepEqual(await tooWide(page), [], path);
  }
  for (const path of await pagesWithContent(shown, `echo ${"a-very-long-word-".repeat(20)}`)) {
    await openLoaded(page, path);
    assert.deepEqual(await tooWide(page), [], path);
  }
});
