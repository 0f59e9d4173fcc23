/** The command line beside a running gateway: real processes, one home. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { createId } from "../../../src/base/text.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { Deliveries, insertDelivery } from "../../../src/webhook/deliveries/deliveries.ts";
import type { WebhookRoute } from "../../../src/webhook/routes/route.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { sign } from "../../harness/webhook.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

interface Place extends AsyncDisposable {
  readonly home: string;
  readonly database: string;
  readonly start: Awaited<ReturnType<typeof createGatewayPlace>>["start"];
  webhook(...words: string[]): Promise<Outcome>;
}

async function createPlace(): Promise<Place> {
  const port = await freePort();
  const place = await createGatewayPlace();
  const config = `version: 1\nplatforms:\n  webhook:\n    enabled: true\n    extra: { host: 127.0.0.1, port: ${port} }\n`;
  await writeFile(join(place.home, "config.yaml"), config, { mode: 0o600 });
  const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
  return {
    home: place.home,
    database: place.database,
    start: place.start,
    webhook: (...words) => keptAgentd(["webhook", ...words], env),
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function portOf({ url }: { readonly url: string }): string {
  return new URL(url).port;
}

function post(url: string, body: string, secret: string): Promise<Response> {
  const headers = {
    "content-type": "application/json",
    "x-github-event": "push",
    "x-hub-signature-256": sign(new TextEncoder().encode(body), secret),
  };
  return fetch(url, { method: "POST", body, headers });
}

/** The record once what it owes was sent, or `status` where it owes nothing. */
async function recorded(store: Store, id: string, status: string): Promise<void> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const found = await new Deliveries(store).show(id);
    const message = found?.outboxId && (await store.find("outbox", { id: found.outboxId }));
    if (found?.status === status && (!message || message.status === "delivered")) return;
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a subscription made while the gateway runs works at once, and its removal answers 404", async () => {
  await using place = await createPlace();
  const gateway = await place.start();
  assert.match(gateway.stdout(), /hooks {4}http:\/\/127\.0\.0\.1:\d+\/webhooks\/<route>, routes: none yet/);

  const made = JSON.parse((await place.webhook("subscribe", "ci", "--prompt", "hello {n}", "--json")).stdout);
  const accepted = await post(made.url, '{"n": 1}', made.secret);
  assert.equal(accepted.status, 202);
  assert.equal((await accepted.json()).route, "ci");
  assert.equal((await post(made.url, '{"n": 1}', "another")).status, 401);

  const tested = await place.webhook("test", "ci", "--event", "push");
  assert.equal(tested.code, 0, tested.stdout + tested.stderr);
  assert.match(tested.stdout, /Response \(202\): .*"status":"accepted"/);

  await place.webhook("subscribe", "ci", "--events", "push");
  const first = await place.webhook("test", "ci");
  assert.match(first.stdout, /Response \(202\)/, "it sends an event that the route accepts");
  const ignored = await place.webhook("test", "ci", "--event", "other");
  assert.match(ignored.stdout, /Response \(200\): .*"ignored"[\s\S]*another event type with --event/);

  assert.equal((await place.webhook("remove", "ci")).code, 0);
  assert.equal((await post(made.url, '{"n": 1}', made.secret)).status, 404);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("deliveries are listed, shown and replayed while the gateway runs", async (t) => {
  await using place = await createPlace();
  const early = await place.webhook("deliveries", "list", "--json");
  assert.deepEqual(JSON.parse(early.stdout), { deliveries: [], next_cursor: null });
  const gateway = await place.start();
  const store = await openStore({ url: place.database });
  t.after(() => store.close());
  const made = JSON.parse((await place.webhook("subscribe", "ci", "--prompt", "hello {n}", "--json")).stdout);
  assert.equal((await post(made.url, '{"n": 41}', made.secret)).status, 202);
  const [first] = JSON.parse((await place.webhook("deliveries", "list", "--json")).stdout).deliveries;
  await recorded(store, first.id, "completed");

  const shown = JSON.parse((await place.webhook("deliveries", "show", first.id, "--json")).stdout);
  assert.equal(shown.payload, '{"n": 41}');
  assert.match(shown.rendered, /hello 41/);
  assert.equal(shown.run.status, "completed");
  const [message, ...others] = shown.messages;
  assert.deepEqual([message.target, message.status, message.attempts, others], ["log", "delivered", 1, []]);
  assert.equal(shown.headers["x-hub-signature-256"], "[redacted]");
  assert.ok(shown.stages.length >= 6);

  const text = (await place.webhook("deliveries", "show", first.id)).stdout;
  assert.match(text, new RegExp(`the text: .agentd outbox show ${message.id} --text`));
  assert.match(text, /Answer:\n {2}\[demo model\]/);

  const replayed = await place.webhook("deliveries", "replay", first.id, "--json", "--port", portOf(gateway));
  assert.equal(replayed.code, 0, replayed.stderr);
  const again = JSON.parse(replayed.stdout);
  assert.equal(again.replay_of, first.id);
  await recorded(store, again.id, "completed");
  const second = await new Deliveries(store).show(again.id);
  assert.equal(second?.replayOf, first.id);
  assert.notEqual(second?.deliveryId, first.delivery_id);
  assert.notEqual(second?.runId, shown.run.run_id);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("a route of one sender is tested, shown with its answer, and replayed", async (t) => {
  await using place = await createPlace();
  const gateway = await place.start();
  const store = await openStore({ url: place.database });
  t.after(() => store.close());
  await place.webhook(
    "subscribe",
    "pager",
    "--scheme",
    "pagerduty",
    "--secret",
    "s",
    "--prompt",
    "see {event.id}",
  );
  const payload = JSON.stringify({
    event: { id: "E1", event_type: "incident.triggered" },
    note: "n".repeat(2000),
  });
  const tested = await place.webhook("test", "pager", "--payload", payload, "--json");
  const posted = JSON.parse(tested.stdout);
  assert.equal(posted.status, 202, tested.stdout);
  assert.equal(JSON.parse(posted.body).delivery_id, "E1");
  await recorded(store, "E1", "completed");
  const shown = (await place.webhook("deliveries", "show", "E1")).stdout;
  const titles = [...shown.matchAll(/^([A-Z]\w+):$/gm)].map(([, title]) => title);
  assert.deepEqual(titles, ["Stages", "Headers", "Rendered", "Answer", "Payload"]);
  assert.match(shown, /Answer:\n {2}\S.*see E1/s);
  assert.match(shown, /\(1\d\d\d more characters; see --json\)/);
  const replayed = await place.webhook("deliveries", "replay", "E1", "--port", portOf(gateway));
  assert.match(replayed.stdout, /^ {2}Replayed dlv_\w+ as dlv_\w+: \w+\n$/, replayed.stderr);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("deliveries are listed, shown and replayed as a dry run without a gateway", async (t) => {
  await using place = await createPlace();
  await place.webhook("subscribe", "ci", "--prompt", "hello {n}", "--secret", "s");
  const store = await openStore({ url: place.database });
  t.after(() => store.close());
  const ids = await Promise.all(["push", "push", "ping"].map((event, n) => record(store, { event, n })));

  const page = await place.webhook("deliveries", "list", "--limit", "2", "--event", "push", "--json");
  const { deliveries, next_cursor: none } = JSON.parse(page.stdout);
  assert.deepEqual([deliveries.map(({ id }: { id: string }) => id), none], [[ids[1], ids[0]], null]);
  const some = await place.webhook("deliveries", "list", "--limit", "2", "--since", "1h");
  assert.match(some.stderr, new RegExp(`--cursor ${ids[1]}`));
  assert.match(some.stdout, new RegExp(`^ID .*\\n${ids[2]} .* ci +ping +ignored +not wanted\\n`));
  const late = await place.webhook("deliveries", "list", "--until", "1h");
  assert.match(late.stderr, /No deliveries found/);

  const [id = ""] = ids;
  const text = (await place.webhook("deliveries", "show", id)).stdout;
  assert.match(text, /Stages:\n {2}events +stop {2}not wanted\n[\s\S]*Payload:\n {2}\{"n":0\}/);
  const until = await place.webhook("deliveries", "replay", id, "--until", "events");
  assert.match(until.stdout, /events +pass {2}push$/m);
  assert.ok(!until.stdout.includes("render"));
  const dry = await place.webhook("deliveries", "replay", id, "--dry-run");
  assert.match(dry.stdout, /hello 0/);
  const alone = await place.webhook("deliveries", "replay", id);
  assert.equal(alone.code, 1);
  assert.match(alone.stderr, /No gateway listens at .*Start it with `agentd gateway`/);
  const unknown = await place.webhook("deliveries", "show", "dlv_nothing");
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /Unknown delivery "dlv_nothing"/);
  for (const words of [
    ["list", "--since", "soon"],
    ["replay", id, "--until", "admit"],
  ]) {
    assert.equal((await place.webhook("deliveries", ...words)).code, 2, words.join(" "));
  }
});

/** As the receiver writes one that goes no further. */
async function record(store: Store, { event, n }: { readonly event: string; readonly n: number }) {
  const id = createId("dlv", Date.now() - 1_000 + n);
  const payload = { n };
  const bodyText = JSON.stringify(payload);
  const headers = new Headers({ "content-type": "application/json", "x-github-event": event });
  const route = { name: "ci", owner: "default" } as WebhookRoute;
  const stages = [{ stage: "events", result: "stop", detail: "not wanted" }] as const;
  const request = { route, headers, body: new TextEncoder().encode(bodyText), requestId: `req_${n}` };
  const evaluated = { stages, deliveryId: `req_${n}`, subject: { payload, event, headers }, bodyText };
  const facts = { request, evaluated, stages, id, status: "ignored", endedAtMs: Date.now() } as const;
  await store.write((tx) => insertDelivery(tx, facts));
  return id;
}

test("invalid webhook routes keep `agentd gateway` from starting: it prints why and exits with 1", async () => {
  await using place = await createPlace();
  const config = `version: 1\nplatforms: { webhook: { enabled: true, extra: { port: 0, routes: { a: {}, b: { secret: INSECURE_NO_AUTH } } } } }\n`;
  await writeFile(join(place.home, "config.yaml"), config, { mode: 0o600 });
  const started = await agentd(["gateway", "--port", "0"], { AGENTD_HOME: place.home });
  assert.equal(started.code, 1);
  assert.match(
    started.stderr,
    /The webhook receiver cannot start:\n {2}route a: it has no secret; .*\n {2}route b: INSECURE_NO_AUTH is for loopback/,
  );
  const checked = await keptAgentd(["config", "check"], { AGENTD_HOME: place.home });
  assert.equal(checked.code, 1);
  assert.match(checked.stderr, /route a: it has no secret/);
});
