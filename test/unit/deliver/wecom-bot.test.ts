import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createLog, offTracer } from "../../../src/base/observe.ts";
import type { PlatformParts, Delivery, SendOutcome, Target } from "../../../src/deliver/target.ts";
import { createWecomBot, wecom } from "../../../src/deliver/targets/wecom/wecom.ts";
import type { Store } from "../../../src/store/store.ts";
import { platformParts, sendThrough } from "../../harness/platforms/send.ts";
import { startWecomSocket, WECOM_BOT } from "../../harness/platforms/wecom-socket.ts";
import { openTestStore } from "../../harness/store.ts";

const bot = (url: string) => ({ bot_id: WECOM_BOT.id, secret: WECOM_BOT.secret, websocket_url: url });
const HALF_MINUTE_MS = 30_000;
const FIVE_MINUTES_MS = 300_000;

function deliveryOf(delivery: Partial<Delivery> = {}): Delivery {
  return {
    id: "out_1",
    address: WECOM_BOT.chat,
    payload: { text: "Hello", extra: {} },
    ref: undefined,
    attempt: 1,
    partsSent: 0,
    createdAtMs: 0,
    ...delivery,
  };
}

function optionsOf(signal = new AbortController().signal) {
  return { signal, span: offTracer.start("send", {}), progress: async () => {} };
}

function sendTo(
  target: Target,
  delivery: Partial<Delivery> = {},
  signal?: AbortSignal,
): Promise<SendOutcome> {
  return target.send(deliveryOf(delivery), optionsOf(signal));
}

function said(outcome: SendOutcome): string {
  return "error" in outcome ? outcome.error : "";
}

/** A target as a service of its own has it; closed when the test ends. */
function targetOf(t: TestContext, url: string, parts: Partial<PlatformParts>): Target {
  const target = wecom.create(bot(url), platformParts(parts));
  t.after(() => target.close?.());
  return target;
}

async function leaseOf(store: Store) {
  return store.find("ledger", { scope: "singleton", key: `wecom:${WECOM_BOT.id}` });
}

describe("wecom: the connection of an intelligent bot", () => {
  test("the first message signs in with bot_id and secret; further ones use the same connection", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    assert.equal(fake.open, 0);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    assert.deepEqual(await sendTo(target, { payload: { text: "**two**", extra: {} } }), {
      status: "delivered",
    });
    assert.deepEqual(fake.taken, ["Hello", "**two**"]);
    assert.equal(fake.signIns, 1);
    assert.deepEqual(fake.violations, []);
  });

  test("several first messages at once open one connection", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => sendTo(target)));
    assert.ok(outcomes.every(({ status }) => status === "delivered"));
    assert.equal(fake.signIns, 1);
  });

  test("long texts go out in parts of at most 20,480 bytes, each noted before the next", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const request = { address: WECOM_BOT.chat, text: "One sentence 漢字 stands here. ".repeat(1500) };
    const { outcome, progress } = await sendThrough(wecom, bot(fake.url), request, { store });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(progress, [1, 2].slice(0, fake.taken.length - 1));
    assert.ok(fake.taken.length > 1);
  });

  test("empty, binary and huge texts: delivered in bounded parts", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    for (const text of [
      "",
      " \n",
      `a\u0000b\u001b[31m\ud800${"\u0001".repeat(99)}`,
      "word ".repeat(200_000),
    ]) {
      assert.deepEqual(await sendTo(target, { payload: { text, extra: {} } }), { status: "delivered" });
    }
    assert.equal(fake.taken.length, 13);
    // eslint-disable-next-line no-control-regex
    for (const text of fake.taken) assert.doesNotMatch(text, /[\u0000-\u0008\u001b]/);
    assert.equal((await sendTo(target, { payload: { nothing: true } })).status, "permanent");
  });

  test("wrong credentials are given up with the keys' names, and the lease goes back", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const wrong = { ...bot(fake.url), secret: "another-secret-of-nobody" };
    const { outcome } = await sendThrough(wecom, wrong, { address: WECOM_BOT.chat }, { store });
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /invalid bot_id or secret \(853000\).*WECOM_BOT_ID.*WECOM_SECRET/);
    assert.ok(!said(outcome).includes("another-secret"));
    assert.equal(fake.signIns, 1);
    assert.equal(await leaseOf(store), undefined);
  });

  test("an unknown chat is given up, and it is said that it must have written to the bot", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    const outcome = await sendTo(target, { address: "nobody" });
    assert.equal(outcome.status, "permanent");
    assert.match(said(outcome), /93006.*must write to the bot/);
    for (const address of ["a b", "x/y", "webhook", ""]) {
      assert.equal((await sendTo(target, { address })).status, "permanent", address);
    }
  });

  test("too fast is waited for; a busy system is tried again", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    fake.nextMessage(
      { errcode: 846607, errmsg: "aibot send msg frequency limit exceeded" },
      { errcode: -1, errmsg: "busy" },
    );
    const limited = await sendTo(target);
    assert.deepEqual(
      { ...limited, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 60_000 },
    );
    assert.deepEqual({ ...(await sendTo(target)), error: "" }, { status: "retry", error: "" });
  });

  test("a connection that ends before the answer leaves the message uncertain; the next message opens another", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    fake.nextMessage("close");
    const outcome = await sendTo(target);
    assert.equal(outcome.status, "unknown");
    assert.match(said(outcome), /may have arrived/);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    assert.equal(fake.signIns, 2);
  });

  test("a missing or empty answer leaves the message uncertain after the SDK's 5 s", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    // The SDK takes no clock.
    t.mock.timers.enable({ apis: ["setTimeout"] });
    fake.nextMessage("silent", "garbage");
    const sent = Promise.all([sendTo(target), sendTo(target)]);
    await fake.until(() => fake.messages === 3);
    t.mock.timers.tick(5_000);
    const outcomes = await sent;
    t.mock.timers.reset();
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["unknown", "unknown"],
    );
  });

  test("an answer that hangs: the attempt ends soon after it is cut, and the connection serves the next one", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const target = targetOf(t, fake.url, { store });
    const cut = new AbortController();
    fake.nextMessage("silent");
    const sent = sendTo(target, {}, cut.signal);
    await fake.until(() => fake.messages === 1);
    cut.abort(new Error("cut"));
    await assert.rejects(sent, /cut/);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    assert.equal(fake.signIns, 1);
  });

  test("a sign-in that hangs: the attempt ends soon after it is cut", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const { store } = await openTestStore(t, { now: () => clock.now() });
    const target = targetOf(t, fake.url, { store, clock });
    const cut = new AbortController();
    fake.nextSignIn("silent");
    const sent = sendTo(target, {}, cut.signal);
    await fake.until(() => fake.signIns === 1);
    cut.abort(new Error("cut"));
    await assert.rejects(sent, /cut/);
    clock.tick(15_000);
    await fake.until(() => fake.open === 0);
  });

  test("a server that is not there, or ends the sign-in: tried again, and the lease goes back", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const nowhere = { ...bot("ws://127.0.0.1:9") };
    const gone = await sendThrough(wecom, nowhere, { address: WECOM_BOT.chat }, { store });
    assert.equal(gone.outcome.status, "retry");
    fake.nextSignIn("close");
    const target = targetOf(t, fake.url, { store });
    assert.equal((await sendTo(target)).status, "retry");
    assert.equal(await leaseOf(store), undefined);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
  });

  test("a sign-in that is not answered is tried again after 15 s", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const { store } = await openTestStore(t, { now: () => clock.now() });
    const target = targetOf(t, fake.url, { store, clock });
    fake.nextSignIn("silent");
    const sent = sendTo(target);
    await fake.until(() => fake.signIns === 1);
    clock.tick(15_000);
    const outcome = await sent;
    assert.equal(outcome.status, "retry");
    assert.match(said(outcome), /within 15 s/);
    await fake.until(() => fake.open === 0);
  });

  test("without the SDK the error says how to install it", async (t) => {
    const { store } = await openTestStore(t);
    const robot = createWecomBot(bot("ws://127.0.0.1:9"), platformParts({ store }), async () => undefined);
    t.after(() => robot.close());
    const message = { text: "x", extra: {}, chat: WECOM_BOT.chat, thread: undefined };
    const outcome = await robot.send(message, deliveryOf(), optionsOf());
    assert.equal(outcome.status, "retry");
    assert.match(said(outcome), /npm install @wecom\/aibot-node-sdk/);
    assert.equal(await leaseOf(store), undefined);
  });

  test("an SDK that is none of ours: the attempt fails, and the lease goes back", async (t) => {
    const { store } = await openTestStore(t);
    const broken = async () => ({}) as never;
    const robot = createWecomBot(bot("ws://127.0.0.1:9"), platformParts({ store }), broken);
    t.after(() => robot.close());
    const message = { text: "x", extra: {}, chat: WECOM_BOT.chat, thread: undefined };
    await assert.rejects(robot.send(message, deliveryOf(), optionsOf()));
    assert.equal(await leaseOf(store), undefined);
  });

  test("after five idle minutes the connection and the lease are given back", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const { store } = await openTestStore(t, { now: () => clock.now() });
    const target = targetOf(t, fake.url, { store, clock });
    await sendTo(target);
    assert.notEqual(await leaseOf(store), undefined);
    clock.tick(FIVE_MINUTES_MS);
    await fake.until(() => fake.open === 0);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    assert.equal(fake.signIns, 2);
  });

  test("close ends the connection and gives the lease back", async (t) => {
    const fake = await startWecomSocket(t);
    const { store } = await openTestStore(t);
    const { outcome } = await sendThrough(wecom, bot(fake.url), { address: WECOM_BOT.chat }, { store });
    assert.deepEqual(outcome, { status: "delivered" });
    await fake.until(() => fake.open === 0);
    assert.equal(await leaseOf(store), undefined);
  });
});

describe("wecom: one connection per bot", () => {
  test("only the process that has the lease connects; the other one sends nothing and is not ready", async (t) => {
    const fake = await startWecomSocket(t);
    const { store, openAnother } = await openTestStore(t);
    const first = targetOf(t, fake.url, { store });
    const second = targetOf(t, fake.url, { store: await openAnother() });
    assert.deepEqual(await sendTo(first), { status: "delivered" });
    assert.equal(second.isReady?.(), true);
    const outcome = await sendTo(second);
    assert.deepEqual(
      { ...outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 5_000 },
    );
    assert.equal(second.isReady?.(), false);
    assert.equal(first.isReady?.(), true);
    assert.equal(fake.signIns, 1);
  });

  test("the other one takes over once the first has closed", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const now = () => clock.now();
    const { store, openAnother } = await openTestStore(t, { now });
    const first = wecom.create(bot(fake.url), platformParts({ store, clock }));
    const second = targetOf(t, fake.url, { store: await openAnother({ now }), clock });
    await sendTo(first);
    await sendTo(second);
    await first.close?.();
    clock.tick(HALF_MINUTE_MS);
    assert.equal(second.isReady?.(), false, "it looks first");
    await until(() => second.isReady?.() === true);
    assert.deepEqual(await sendTo(second), { status: "delivered" });
    assert.deepEqual(fake.taken, ["Hello", "Hello"]);
  });

  test("after another client takes the connection the message is uncertain, and nothing connects for five minutes", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const now = () => clock.now();
    const { store, openAnother } = await openTestStore(t, { now });
    const lines: string[] = [];
    const log = createLog("warn", (line) => void lines.push(line));
    const target = targetOf(t, fake.url, { store, clock, log });
    const sibling = targetOf(t, fake.url, { store: await openAnother({ now }), clock });
    fake.nextMessage("kick");
    assert.equal((await sendTo(target)).status, "unknown");
    assert.equal(target.isReady?.(), false);
    const waiting = await sendTo(target);
    assert.deepEqual(
      { ...waiting, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: FIVE_MINUTES_MS },
    );
    assert.equal((await sendTo(sibling)).status, "retry", "a sibling does not kick back either");
    assert.equal(fake.signIns, 1);
    assert.match(lines.join(), /only connection of the WeCom bot/);
    assert.ok(!lines.join().includes(WECOM_BOT.secret));
    clock.tick(FIVE_MINUTES_MS);
    assert.equal(target.isReady?.(), true);
    assert.deepEqual(await sendTo(target), { status: "delivered" });
    assert.equal(fake.signIns, 2);
  });

  test("kicked while idle: it is seen at once, and nothing reconnects", async (t) => {
    const fake = await startWecomSocket(t);
    const clock = new FakeClock();
    const { store } = await openTestStore(t, { now: () => clock.now() });
    const target = targetOf(t, fake.url, { store, clock });
    await sendTo(target);
    fake.kick();
    await until(() => target.isReady?.() === false);
    assert.equal(fake.signIns, 1);
  });
});

/** For what happens in the background and tells nobody. */
async function until(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > endMs) throw new Error("it did not come to pass");
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}
