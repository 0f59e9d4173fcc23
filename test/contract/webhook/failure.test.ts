/** What targets hear of a run that did not complete. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { startWebhookService } from "../../harness/webhook.ts";

const REASON = "The provider acme could not be reached at 10.0.0.9:443.";

/** The messages of a run that failed for {@link REASON}: where they go, and what they say. */
async function told(route: Partial<WebhookRouteConfig>) {
  const deliver = "github_comment,telegram,telegram:-100999,local";
  await using service = await startWebhookService({
    script: () => ({ error: { code: "provider_error", message: REASON } }),
    routes: { hook: { deliver, deliver_extra: { repo: "octo/hello", pr_number: 7 }, ...route } },
    config: {
      platforms: {
        github_comment: { program: "/nonexistent/gh" },
        telegram: { token: "1:a", base_url: "http://127.0.0.1:9", home_channel: "42", home_thread: "3" },
      },
    },
  });
  assert.equal((await service.post("hook")).status, 202);
  const [row] = await service.recorded(([first]) => first?.status === "failed");
  const rows = await service.test.service.store.read.selectFrom("outbox").selectAll().orderBy("id").execute();
  const texts = rows.map(({ target, payload }) => [target, (JSON.parse(payload) as { text: string }).text]);
  return { row, texts, logged: await service.loggedSoon("the run of a webhook did not complete") };
}

const notice = "The agent could not finish this.";

test("on a failure chats get a neutral sentence, the home channel and files the reason, and code hosts nothing", async () => {
  const { row, texts, logged } = await told({});
  assert.deepEqual(texts, [
    ["telegram:42:3", `${notice} ${REASON}`],
    ["telegram:-100999", notice],
    ["local", `${notice} ${REASON}`],
  ]);
  assert.equal(row?.reason, REASON);
  assert.deepEqual([logged[0]?.["delivery"], logged[0]?.["reason"]], [row?.id, REASON]);
});

test("with `on_failure: notice` code hosts get the neutral sentence too", async () => {
  const { texts } = await told({ on_failure: "notice" });
  assert.deepEqual(texts[0], ["github_comment", notice]);
  assert.equal(texts.length, 4);
});

test("with `on_failure: silent` a failure is only recorded and logged", async () => {
  const { row, texts, logged } = await told({ on_failure: "silent" });
  assert.deepEqual(texts, []);
  assert.deepEqual([row?.status, row?.reason, row?.outbox_id], ["failed", REASON, null]);
  assert.equal(logged.length, 1);
});
