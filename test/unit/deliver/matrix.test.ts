import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import { matrix } from "../../../src/deliver/targets/matrix.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import {
  ALIAS,
  ENCRYPTED,
  error,
  FOREIGN,
  MATRIX_TOKEN,
  ROOM,
  ROOT_EVENT,
  startMatrix,
  unencrypted,
} from "../../harness/platforms/matrix.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

const token = MATRIX_TOKEN;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startMatrix(t);
  const settings = { access_token: token, homeserver: fake.url };
  const sent = () => fake.asked.filter(({ method }) => method === "PUT");
  return {
    fake,
    sent,
    send: (request: SendRequest, more = {}) => sendThrough(matrix, { ...settings, ...more }, request),
  };
}

test("a message is one PUT of an m.room.message with its HTML form; no one is mentioned", async (t) => {
  const { fake, sent, send } = await place(t);
  const { outcome } = await send({ address: ROOM, text: "**bold** <b>x</b> @room", id: "out_01" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  const [asked] = sent();
  assert.equal(asked?.path, `/_matrix/client/v3/rooms/${ROOM}/send/m.room.message/out_01.0`);
  const { body, formatted_body: html, ...rest } = asked.body ?? {};
  assert.deepEqual(rest, { msgtype: "m.text", format: "org.matrix.custom.html", "m.mentions": {} });
  assert.match(String(body), /bold .*@room/);
  assert.match(String(html), /<strong>bold<\/strong>/);
  assert.doesNotMatch(String(html), /<b>x/);
});

test("a repeat has the same transaction id, each part its own", async (t) => {
  const { sent, send } = await place(t);
  const text = "One sentence of some length. ".repeat(200);
  const first = await send({ address: ROOM, text });
  await send({ address: ROOM, text, attempt: 2, partsSent: 1 });
  assert.deepEqual(first.progress, [1]);
  assert.deepEqual(
    sent().map(({ path }) => path.split("/").at(-1)),
    ["out_01.0", "out_01.1", "out_01.1"],
  );
  assert.equal(
    matrix.create({ access_token: token, homeserver: "http://127.0.0.1:9" }, platformParts())
      .supportsIdempotency,
    true,
  );
});

test("an alias is looked up, and the room that it stands for gets the message", async (t) => {
  const { fake, sent, send } = await place(t);
  assert.deepEqual((await send({ address: ALIAS })).outcome, { status: "delivered" });
  assert.equal(fake.asked[0]?.path, `/_matrix/client/v3/directory/room/${ALIAS}`);
  assert.match(sent()[0]?.path ?? "", /!room:example\.org/);
  const { outcome } = await send({ address: "#nobody:example.org" });
  assert.equal(outcome.status, "permanent");
  assert.match((outcome as { error: string }).error, /M_NOT_FOUND.*Check that the room exists/);
});

test("a thread is a relation to its root, which replies to the newest of its messages that is known", async (t) => {
  const { fake, sent, send } = await place(t);
  const text = "One sentence of some length. ".repeat(200);
  await send({ address: `${ROOM}:${ROOT_EVENT}`, text });
  await send({ address: ROOM, extra: { thread_id: ROOT_EVENT }, id: "out_02" });
  const relation = (last: string) => ({
    rel_type: "m.thread",
    event_id: ROOT_EVENT,
    is_falling_back: true,
    "m.in_reply_to": { event_id: last },
  });
  assert.deepEqual(
    sent().map(({ body }) => body?.["m.relates_to"]),
    [relation(ROOT_EVENT), relation("$event1"), relation(ROOT_EVENT)],
  );
  assert.deepEqual(fake.violations, []);
});

test("an encrypted room is refused, unless allow_encrypted is set", async (t) => {
  const { sent, send } = await place(t);
  const { outcome } = await send({ address: ENCRYPTED });
  assert.equal(outcome.status, "permanent");
  assert.match((outcome as { error: string }).error, /encrypted.*platforms\.matrix\.allow_encrypted/);
  assert.equal(sent().length, 0);
  assert.equal((await send({ address: ENCRYPTED }, { allow_encrypted: true })).outcome.status, "delivered");
});

test("whether a room is encrypted, and what an alias stands for, is asked again after 10 minutes", async (t) => {
  const fake = await startMatrix(t);
  const clock = new FakeClock();
  const target = matrix.create({ access_token: token, homeserver: fake.url }, platformParts({ clock }));
  const send = (id: string) =>
    target.send(
      {
        id,
        address: ALIAS,
        payload: { text: "Hi" },
        ref: undefined,
        attempt: 1,
        partsSent: 0,
        createdAtMs: 0,
      },
      { signal: new AbortController().signal, span: offTracer.start("send", {}), progress: async () => {} },
    );
  const lookups = () => fake.asked.filter(({ method }) => method === "GET").length;
  await send("out_01");
  await send("out_02");
  assert.equal(lookups(), 2);
  clock.tick(600_000);
  await send("out_03");
  assert.equal(lookups(), 4);
});

test("a look that fails is tried again, and nothing was sent", async (t) => {
  const { fake, sent, send } = await place(t);
  for (const fault of ["close", "truncate", "html"] as const) {
    fake.next(fault);
    assert.equal((await send({ address: ROOM })).outcome.status, "retry", fault);
  }
  fake.next({ status: 404, body: {} });
  assert.equal((await send({ address: ROOM })).outcome.status, "permanent");
  assert.equal(sent().length, 0);
});

test("an event that is too large goes out once more without its HTML form, in a transaction of its own", async (t) => {
  const { fake, sent, send } = await place(t);
  fake.next(unencrypted, error(413, "M_TOO_LARGE", "event too large"));
  const { outcome } = await send({ address: ROOM, text: "**bold**" });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(sent()[1]?.body, { msgtype: "m.text", body: "bold", "m.mentions": {} });
  assert.notEqual(sent()[0]?.path, sent()[1]?.path);
  fake.next(
    unencrypted,
    error(413, "M_TOO_LARGE", "event too large"),
    error(413, "M_TOO_LARGE", "event too large"),
  );
  const again = await send({ address: ROOM, text: "**bold**" });
  assert.match((again.outcome as { error: string }).error, /text_limit/);
});

test("M_LIMIT_EXCEEDED waits as long as Retry-After says, else retry_after_ms", async (t) => {
  const { fake, send } = await place(t);
  const body = { errcode: "M_LIMIT_EXCEEDED", error: "Too many requests", retry_after_ms: 2_300 };
  fake.next(unencrypted, { status: 429, headers: { "retry-after": "4" }, body });
  const first = await send({ address: ROOM });
  fake.next(unencrypted, { status: 429, body });
  const second = await send({ address: ROOM });
  assert.deepEqual(
    [first.outcome, second.outcome].map((outcome) => ({ ...outcome, error: "" })),
    [4_000, 2_300].map((afterMs) => ({ status: "retry", error: "", isThrottled: true, afterMs })),
  );
});

test("errors are given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const said = async (address: string, more = {}) => {
    const { outcome } = await send({ address }, more);
    return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
  };
  assert.match(await said(FOREIGN), /^permanent .*M_FORBIDDEN.*Invite the user/);
  assert.match(await said(FOREIGN, { allow_encrypted: true }), /^permanent .*M_FORBIDDEN.*Invite the user/);
  assert.match(
    await said(ROOM, { access_token: "a-wrong-token" }),
    /^permanent .*M_UNKNOWN_TOKEN.*MATRIX_ACCESS_TOKEN/,
  );
  fake.next(unencrypted, error(403, "M_CONSENT_NOT_GIVEN", "Agree first"));
  assert.match(await said(ROOM), /^permanent .*accept the terms/);
  fake.next(error(404, "M_UNRECOGNIZED", "Unrecognized request"));
  assert.match(await said(ROOM), /^permanent .*platforms\.matrix\.homeserver/);
});

test("no room, or what can be none: given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "@user:example.org", "room", "!a b"]) {
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  }
  const { outcome } = await send({ address: ROOM, extra: { thread_id: "root" } });
  assert.equal(outcome.status, "permanent");
  const none = await send({ address: "" });
  assert.match((none.outcome as { error: string }).error, /MATRIX_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("deliver_extra makes it a notice, which bots do not answer", async (t) => {
  const { sent, send } = await place(t);
  await send({ address: ROOM, extra: { notice: true } });
  assert.equal(sent()[0]?.body?.["msgtype"], "m.notice");
});

test("without a homeserver or a token Matrix is incomplete, and each is named", () => {
  assert.deepEqual(matrix.missing({}), [
    "homeserver (MATRIX_HOMESERVER)",
    "access_token (MATRIX_ACCESS_TOKEN)",
  ]);
  assert.deepEqual(matrix.missing({ homeserver: "https://example.org", access_token: token }), []);
});

testBadPlatform("Matrix", {
  platform: matrix,
  start: startMatrix,
  settings: (url) => ({ access_token: token, homeserver: url }),
  request: { address: ROOM },
  before: [unencrypted],
  secrets: [token],
});
