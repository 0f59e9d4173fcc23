import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job, Message } from "../../generated/http/client/types.gen.ts";
import { findings, openLoaded, tooWide } from "../harness/accessibility.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import {
  callApi,
  createIssuesRoute,
  deliveriesOf,
  RECEIVER,
  sendIssue,
} from "../harness/console-webhooks.ts";

/** Fills the pages of webhooks, the schedule and the outbox. Resolves to their addresses. */
async function fill(shown: ConsoleTest): Promise<readonly string[]> {
  const route = await createIssuesRoute(shown);
  await sendIssue(route, "opened");
  await sendIssue(route, "labeled");
  const [delivery] = await deliveriesOf(shown);
  const name = "A job with a name that is too long for a phone, and a-word-without-any-end-".padEnd(99, "x");
  const job = await callApi<Job>(shown, "/v1/jobs", { name, schedule: "every 5m", prompt: "tea" });
  await callApi(shown, `/v1/jobs/${job.id}/run?wait=30`, {});
  await callApi(shown, "/v1/jobs", { name: "other", schedule: "0 9 * * 1-5", prompt: "tea", paused: true });
  const message = await callApi<Message>(shown, "/v1/outbox", { target: "local", text: "word".repeat(200) });
  return [
    "/webhooks",
    "/webhooks/issues",
    "/webhooks/deliveries",
    `/webhooks/deliveries/${delivery!.id}`,
    `/webhooks/deliveries/${delivery!.id}?part=headers`,
    `/webhooks/dry-run?from=${delivery!.id}`,
    `/webhooks/dry-run?from=${delivery!.id}&change=route`,
    "/schedule",
    "/schedule?view=timeline",
    `/schedule/${job.id}`,
    "/schedule/new",
    "/outbox",
    `/outbox/${message.id}`,
  ];
}

for (const width of [1280, 390]) {
  test(`axe finds nothing on webhooks, schedule and outbox at ${width} px, in light and dark colours`, async () => {
    await using shown = await startConsole({ width, config: RECEIVER });
    const page = await shown.open("/outbox");
    await page.getByRole("heading", { name: "No message yet" }).waitFor();
    assert.deepEqual(await findings(page), [], "an empty outbox");
    for (const path of await fill(shown)) {
      await openLoaded(page, path);
      assert.deepEqual(await findings(page), [], path);
      assert.deepEqual(await tooWide(page), [], path);
    }
    await openLoaded(page, "/webhooks");
    await page.getByRole("button", { name: "New route" }).click();
    await page.getByText("Filters, signature and more").click();
    assert.deepEqual(await findings(page), [], "a new route");
  });
}

test("webhooks, schedule and outbox fit a window of 320 px", async () => {
  await using shown = await startConsole({ width: 320, height: 256, config: RECEIVER });
  const page = await shown.open("/outbox");
  for (const path of await fill(shown)) {
    await openLoaded(page, path);
    assert.deepEqual(await tooWide(page), [], path);
  }
});
