/** Where messages go: chats, threads, home channels, several targets, over real HTTP to a fake of Telegram. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { error, startTelegram, TELEGRAM_TOKEN } from "../../harness/platforms/telegram.ts";
import type { FakePlatform } from "../../harness/platforms/fake.ts";
import { openReceiver, type Receiver } from "../../harness/receiver.ts";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

const KEY = "k".repeat(24);
const named = (id: string) => ({ headers: { "x-github-delivery": id } });

interface Places {
  readonly telegram: Pick<FakePlatform, "url">;
  readonly receiver?: Pick<Receiver, "url" | "host">;
}

/** Routes that send without the agent, unless they say otherwise. */
function start(
  { telegram, receiver }: Places,
  routes: Readonly<Record<string, Partial<WebhookRouteConfig>>>,
  settings: object = {},
): Promise<WebhookService> {
  const direct = Object.entries(routes).map(([name, route]) => [
    name,
    { deliver_only: true, prompt: "PR {number}", ...route },
  ]);
  return startWebhookService({
    routes: Object.fromEntries(direct) as Readonly<Record<string, WebhookRouteConfig>>,
    config: {
      api_server: {
        webhook_secret: `whsec_${btoa(KEY)}`,
        webhook_allowed_hosts: receiver ? [receiver.host] : [],
      },
      platforms: { telegram: { token: TELEGRAM_TOKEN, base_url: telegram.url, ...settings } },
    },
  });
}

const outbox = ({ test: { service } }: WebhookService) =>
  service.store.read
    .selectFrom("outbox")
    .select(["id", "target", "status", "attempts", "last_error"])
    .orderBy("id")
    .execute();

const placeOf = ({ asked }: FakePlatform) => {
  const { chat_id: chat, message_thread_id: thread } = asked.at(-1)?.body ?? {};
  return [chat, thread];
};

test("a direct delivery goes to the named chat, else to `chat_id` of deliver_extra, else to the home channel, else it fails", async (t) => {
  const telegram = await startTelegram(t);
  const routes = {
    extra: { deliver: "telegram", deliver_extra: { chat_id: "{chat}" } },
    home: { deliver: "telegram" },
    own: { deliver: "telegram:42", deliver_extra: { chat_id: "@news" } },
  };
  await using service = await start({ telegram }, routes, { home_channel: "-100123", home_thread: "17" });
  assert.equal((await service.post("extra", { chat: 42 })).body.target, "telegram:42");
  assert.deepEqual(placeOf(telegram), ["42", undefined], "a chat of one's own has no thread of the home");
  assert.equal((await service.post("home")).body.target, "telegram:-100123:17");
  assert.deepEqual(placeOf(telegram), ["-100123", 17]);
  assert.equal((await service.post("own")).body.target, "telegram:42");
  assert.deepEqual(placeOf(telegram), ["42", undefined]);
  assert.equal(telegram.asked.length, 3);

  await using homeless = await start({ telegram }, routes);
  assert.equal((await homeless.post("home", {}, named("h"))).status, 502);
  assert.equal(telegram.asked.length, 3, "no target was called");
  const [row] = await homeless.deliveries();
  assert.equal(row?.status, "failed");
  assert.match(row?.reason ?? "", /chat/i);
});

test("a chat_id that YAML reads as an inexact number fails, and the reason names the key to quote", async (t) => {
  const telegram = await startTelegram(t);
  const routes = {
    direct: { deliver: "telegram", deliver_extra: { chat_id: Number("1234567890123456789") } },
  };
  await using service = await start({ telegram }, routes, { home_channel: "-100123" });
  assert.equal((await service.post("direct")).status, 502);
  const [row] = await service.deliveries();
  assert.match(row?.reason ?? "", /Quote deliver_extra\.chat_id/);
  assert.equal(telegram.asked.length, 0, "the home channel hears nothing of it");
});

test("`thread_id` or `message_thread_id` selects the thread, and without either the message has none", async (t) => {
  const telegram = await startTelegram(t);
  const to = (extra: object) => ({ deliver: "telegram", deliver_extra: { chat_id: "-100123", ...extra } });
  await using service = await start(
    { telegram },
    {
      thread: to({ thread_id: "{topic}" }),
      message: to({ message_thread_id: 17 }),
      both: to({ message_thread_id: 17, thread_id: 99 }),
      none: to({}),
      address: { deliver: "telegram:-100123:17", deliver_extra: { thread_id: 99 } },
      beside: { deliver: "telegram:-100123", deliver_extra: { thread_id: 17 } },
    },
  );
  for (const route of ["thread", "message", "both", "address", "beside"]) {
    assert.equal((await service.post(route, { topic: 17 })).status, 200, route);
    assert.deepEqual(placeOf(telegram), ["-100123", 17], route);
  }
  assert.equal((await service.post("none")).status, 200);
  assert.ok(!("message_thread_id" in (telegram.asked.at(-1)?.body ?? {})));
  assert.deepEqual(telegram.violations, []);
});

test("`all` sends to every home channel, and fails with a hint when no platform has one", async (t) => {
  const telegram = await startTelegram(t);
  const routes = { direct: { deliver: "all" }, agent: { deliver: "all,local", deliver_only: false } };
  await using service = await start({ telegram }, routes, { home_channel: "42" });
  assert.equal((await service.post("direct")).body.target, "telegram:42");

  await using homeless = await start({ telegram }, routes);
  assert.equal((await homeless.post("direct")).status, 502);
  const [row] = await homeless.deliveries();
  assert.match(row?.reason ?? "", /No platform has a home channel\. Set the home_channel/);
  assert.equal((await homeless.post("agent")).status, 202);
  await homeless.recorded((rows) => rows.every(({ ended_at: at }) => at !== null));
  const targets = (await outbox(homeless)).map(({ target }) => target);
  assert.deepEqual(targets, ["all", "all", "local"]);
  assert.match(
    JSON.stringify(homeless.test.logLines),
    /deliver: all has no targets: no platform has a home_channel/,
  );
});

test("a direct message to several targets: one delivery is enough, and the outbox keeps the others", async (t) => {
  const telegram = await startTelegram(t);
  const receiver = await openReceiver(t, (response) => void response.writeHead(500).end());
  const route = { deliver: "telegram:42, webhook,telegram:42", deliver_extra: { url: receiver.url } };
  await using service = await start({ telegram, receiver }, { direct: route });
  const answer = await service.post("direct", {}, named("d-1"));
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, {
    status: "delivered",
    route: "direct",
    target: "telegram:42,webhook",
    delivery_id: "d-1",
  });
  assert.deepEqual([telegram.asked.length, receiver.received.length], [1, 1]);
  const rows = await outbox(service);
  assert.deepEqual(
    rows.map(({ target, status, attempts }) => [target, status, attempts]),
    [
      ["telegram:42", "delivered", 1],
      ["webhook", "due", 1],
    ],
  );
  assert.match(rows[1]?.last_error ?? "", /answered 500/);
  const [row] = await service.deliveries();
  assert.deepEqual([row?.status, row?.outbox_id], ["delivered", rows[0]?.id]);
  assert.equal((await service.post("direct", {}, named("d-1"))).body.status, "duplicate");
});

test("a direct message that no target accepts: 502, nothing stays pending, and the retry has the same ids", async (t) => {
  const telegram = await startTelegram(t);
  let status = 500;
  const receiver = await openReceiver(t, (response) => void response.writeHead(status).end());
  const route = { deliver: "webhook,telegram:42", deliver_extra: { url: receiver.url } };
  await using service = await start({ telegram, receiver }, { direct: route });
  telegram.next(error(403, "Forbidden: bot was kicked"));
  assert.equal((await service.post("direct", {}, named("d-1"))).status, 502);
  const before = await outbox(service);
  assert.deepEqual(
    before.map((row) => row.status),
    ["dead", "dead"],
  );
  const [failed] = await service.deliveries();
  assert.equal(failed?.status, "failed");
  assert.match(failed?.reason ?? "", /webhook: .*500.* telegram:42: .*kicked/);
  status = 204;
  assert.equal((await service.post("direct", {}, named("d-1"))).status, 200);
  const after = await outbox(service);
  assert.deepEqual(
    after.map((row) => [row.id, row.status, row.last_error]),
    before.map(({ id }) => [id, "delivered", null]),
  );
  const [first, second] = receiver.received;
  assert.equal(first?.headers["webhook-id"], second?.headers["webhook-id"]);
  // Another delivery has ids of its own, also with the same text.
  assert.equal((await service.post("direct", {}, named("d-2"))).status, 200);
  assert.notEqual(receiver.received[2]?.headers["webhook-id"], second?.headers["webhook-id"]);
});

test("a direct message that failed and comes again with another text is another message, under ids of its own", async (t) => {
  let status = 500;
  const receiver = await openReceiver(t, (response) => void response.writeHead(status).end());
  const telegram = await startTelegram(t);
  const route = { deliver: "webhook", deliver_extra: { url: receiver.url } };
  await using service = await start({ telegram, receiver }, { direct: route });
  assert.equal((await service.post("direct", { number: 1 }, named("d-1"))).status, 502);
  status = 204;
  assert.equal((await service.post("direct", { number: 2 }, named("d-1"))).status, 200);
  // Whoever took the first and could not say so would take the second for a repeat.
  const ids = receiver.received.map(({ headers }) => headers["webhook-id"]);
  assert.equal(new Set(ids).size, 2);
  assert.deepEqual(
    (await outbox(service)).map((row) => row.status),
    ["dead", "delivered"],
  );
});

test("a direct message without a confirmation: 202, its id stays taken, and the record shows the uncertainty", async (t) => {
  const telegram = await startTelegram(t);
  await using service = await start({ telegram }, { direct: { deliver: "telegram:42" } });
  telegram.next("close");
  const answer = await service.post("direct", {}, named("d-1"));
  assert.deepEqual([answer.status, answer.body.status], [202, "accepted"]);
  const [row] = await service.deliveries();
  assert.deepEqual([row?.status, row?.ended_at !== null], ["unknown", true]);
  assert.deepEqual(
    (await outbox(service)).map(({ status }) => status),
    ["unknown"],
  );
  assert.equal((await service.post("direct", {}, named("d-1"))).body.status, "duplicate");
  assert.equal(telegram.asked.length, 1, "nothing is sent twice");
});

test("a direct message to several targets: one delivered, one uncertain, one pending; a restart does not repeat them", async (t) => {
  const telegram = await startTelegram(t);
  const receiver = await openReceiver(t);
  const route = { deliver: "telegram:42,webhook,sms:+15550100", deliver_extra: { url: receiver.url } };
  const first = await start({ telegram, receiver }, { direct: route });
  telegram.next("close");
  assert.equal((await first.post("direct", {}, named("d-1"))).status, 200);
  const stand = async (service: WebhookService) =>
    (await outbox(service)).map(({ target, status }) => [target, status]);
  const expected = [
    ["telegram:42", "unknown"],
    ["webhook", "delivered"],
    ["sms:+15550100", "due"],
  ];
  assert.deepEqual(await stand(first), expected);
  const [row] = await first.deliveries();
  assert.equal(row?.status, "delivered");
  const next = await first.restart({ routes: { direct: route } as never });
  await using _ = next;
  assert.equal((await next.post("direct", {}, named("d-1"))).body.status, "duplicate");
  assert.deepEqual(await stand(next), expected);
  assert.deepEqual([telegram.asked.length, receiver.received.length], [1, 1]);
});

test("a platform that is not set up is a warning with what to do; its messages wait", async (t) => {
  const telegram = await startTelegram(t);
  const routes = { hook: { deliver: "slack:C1, sms:+15550100,telegram:42", deliver_only: false } };
  await using service = await start({ telegram }, routes);
  const [warning, ...more] = service.logged("a webhook route delivers to a platform that is not set up");
  assert.deepEqual(more, []);
  assert.equal(warning?.["route"], "hook");
  assert.match(String(warning?.["problems"]), /Slack/);
  assert.doesNotMatch(String(warning?.["problems"]), /Telegram/);
  assert.equal((await service.post("hook")).status, 202);
  await telegram.count(1);
});

test("a route to github_comment without repo or pr_number is logged at the start", async (t) => {
  const telegram = await startTelegram(t);
  const agent = { deliver_only: false, deliver: "github_comment" };
  const whole = { repo: "{repository.full_name}", pr_number: "{number}" };
  await using service = await start(
    { telegram },
    { review: { ...agent, deliver_extra: { repo: "a/b" } }, good: { ...agent, deliver_extra: whole } },
  );
  const logged = service.logged("a webhook route delivers to a platform that is not set up");
  const missing = logged.filter(({ problems }) => String(problems).includes("needs repo and pr_number"));
  assert.deepEqual(
    missing.map(({ route }) => route),
    ["review"],
  );
});

test("what the sender wrote reaches the chat to the letter, and the words of the template are Markdown", async (t) => {
  const telegram = await startTelegram(t);
  await using service = await start(
    { telegram },
    {
      direct: { deliver: "telegram:42", prompt: "**Changed** by {user}:\n\n{text}" },
      raw: { deliver: "telegram:42", prompt: "{__raw__}" },
      plain: { deliver: "telegram:42", prompt: undefined as never },
    },
  );
  const text =
    "changed __init__.py, rm /var/*/log/*.gz, 2*3*4\n# no heading\n1) one\n[safe](https://evil.example)";
  assert.equal((await service.post("direct", { user: "*ann*", text })).status, 200);
  const body = telegram.asked.at(-1)?.body ?? {};
  assert.equal(body["parse_mode"], "HTML");
  assert.equal(visible(String(body["text"])), `Changed by *ann*:\n\n${text}`);
  assert.match(String(body["text"]), /^<b>Changed<\/b> by \*ann\*:/);
  assert.ok(!String(body["text"]).includes("<a "), "no link hides its address");

  const nested = { a: { b: ["_x_"] } };
  assert.equal((await service.post("raw", nested)).status, 200);
  const indented = visible(String(telegram.asked.at(-1)?.body?.["text"])).replaceAll("\u00a0", " ");
  assert.equal(indented, JSON.stringify(nested, undefined, 2));

  assert.equal((await service.post("plain", { fence: "```\n# x" })).status, 200);
  const dump = visible(String(telegram.asked.at(-1)?.body?.["text"]));
  assert.match(dump, /^Webhook event 'unknown' on route 'plain':\n\n/);
  assert.ok(dump.includes('"fence": "```\\n# x"'), dump);
  assert.deepEqual(telegram.violations, []);
});

/** The text of Telegram's HTML as a person reads it. */
function visible(html: string): string {
  const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"' };
  return html
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/&(\w+);/g, (whole, name: string) => entities[name] ?? whole);
}
