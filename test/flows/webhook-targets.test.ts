/** From a signed webhook through a run to several targets, each told by itself; the agent runs once. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { saying, strict } from "../harness/openai-server.ts";
import { startTelegram, TELEGRAM_TOKEN } from "../harness/platforms/telegram.ts";
import { startFlow } from "../harness/provider-flow.ts";
import { openReceiver } from "../harness/receiver.ts";
import { SECRET, startWebhookService, WebhookService } from "../harness/webhook.ts";

const signing = `whsec_${btoa("k".repeat(24))}`;
const pullRequest = { action: "opened", pull_request: { number: 7, title: "Mend it" } };
const named = { headers: { "x-github-event": "pull_request", "x-github-delivery": "d-1" } };

/** Waits between attempts are as short as the configuration lets them be. */
const configOf = (telegram: string, { url, host }: { readonly url: string; readonly host: string }) => ({
  api_server: { webhook_secret: signing, webhook_allowed_hosts: [host] },
  delivery: { retry_seconds: [1, 1, 1] },
  platforms: {
    telegram: { token: TELEGRAM_TOKEN, base_url: telegram, home_channel: "-100123", home_thread: "17" },
    webhook: {
      enabled: true,
      host: "127.0.0.1",
      port: 0,
      secret: SECRET,
      routes: {
        review: {
          events: ["pull_request"],
          prompt: "Review #{pull_request.number}: {pull_request.title}",
          deliver: "telegram,webhook,local",
          deliver_extra: { url },
        },
      },
    },
  },
});

test("a webhook becomes a run whose answer arrives at its targets; at one that was down when it is back", async (t) => {
  const telegram = await startTelegram(t);
  const receiver = await openReceiver(t);
  telegram.next({ status: 502, body: "<html>Bad Gateway</html>" }, { status: 503 });
  await using flow = await startFlow(strict([saying("It is **fine**.")]), {
    config: configOf(telegram.url, receiver),
  });
  const webhooks = new WebhookService(flow.service);
  assert.equal((await webhooks.post("review", pullRequest, named)).status, 202);

  // Who is there does not wait for who is not.
  const [told] = await receiver.count(1);
  assert.deepEqual(JSON.parse(told?.body ?? ""), { text: "It is **fine**." });
  const asked = await telegram.count(3);
  assert.deepEqual(
    asked.map(({ body }) => [body?.["chat_id"], body?.["message_thread_id"]]),
    Array.from({ length: 3 }, () => ["-100123", 17]),
  );
  assert.match(String(asked.at(-1)?.body?.["text"]), /It is <b>fine<\/b>\./);
  assert.deepEqual(telegram.violations, []);

  const { read } = flow.service.service.store;
  const rows = () => read.selectFrom("outbox").selectAll().orderBy("id").execute();
  const patience = AbortSignal.timeout(60_000);
  while ((await rows()).some(({ done_at: at }) => at === null)) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const [record] = await webhooks.deliveries();
  assert.deepEqual([record?.status, record?.delivery_id], ["completed", "d-1"]);
  assert.deepEqual(
    (await rows()).map(({ target, status, attempts, ref }) => [target, status, attempts, ref]),
    [
      ["telegram:-100123:17", "delivered", 3, record?.id],
      ["webhook", "delivered", 1, record?.id],
      ["local", "delivered", 1, record?.id],
    ],
  );
  const folder = join(flow.service.home, "agentd", "deliveries");
  const [day = ""] = await readdir(folder);
  const [file = ""] = await readdir(join(folder, day));
  assert.equal(await readFile(join(folder, day, file), "utf8"), "It is **fine**.\n");

  assert.equal(flow.models.requests.length, 1, "the agent ran once");
  assert.match(JSON.stringify(flow.models.requests[0]?.body.messages), /Review #7/);
  assert.equal((await webhooks.post("review", pullRequest, named)).body.status, "duplicate");
  assert.equal(receiver.received.length, 1);
});

test("messages of a stopped service to a platform that was down are sent by the next one, without another run", async (t) => {
  const telegram = await startTelegram(t);
  const receiver = await openReceiver(t);
  telegram.next(...Array.from({ length: 20 }, () => ({ status: 500 })));
  const { platforms, ...config } = configOf(telegram.url, receiver);
  const options = {
    routes: platforms.webhook.routes as never,
    config: { ...config, delivery: { retry_seconds: Array.from({ length: 10 }, () => 1) }, platforms },
  };
  let runs = 0;
  const script = () => {
    runs += 1;
    return { text: "Only once." };
  };
  const first = await startWebhookService({ ...options, script });
  assert.equal((await first.post("review", pullRequest, named)).status, 202);
  await receiver.count(1);
  await telegram.count(1);

  const back = await startTelegram(t);
  const { platforms: moved } = configOf(back.url, receiver);
  await using next = await first.restart({
    ...options,
    config: { ...options.config, platforms: moved },
    script,
  });
  const [asked] = await back.count(1);
  assert.equal(asked?.body?.["text"], "Only once.");
  assert.equal(runs, 1);
  assert.equal(receiver.received.length, 1);
  assert.equal((await next.post("review", pullRequest, named)).body.status, "duplicate");
});
