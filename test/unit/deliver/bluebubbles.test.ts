import assert from "node:assert/strict";
import { test } from "node:test";
import { bluebubbles } from "../../../src/deliver/targets/bluebubbles.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { BLUEBUBBLES_PASSWORD, error, startBlueBubbles } from "../../harness/platforms/bluebubbles.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

const password = BLUEBUBBLES_PASSWORD;
const someone = "+15550100123";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup, queued: readonly string[] = []) {
  const fake = await startBlueBubbles(t, queued);
  return {
    fake,
    send: async (request: SendRequest, more = {}) => {
      const sent = await sendThrough(bluebubbles, { password, base_url: fake.url, ...more }, request);
      const said = "error" in sent.outcome ? sent.outcome.error : "";
      return { ...sent, said, told: `${sent.outcome.status} ${said}` };
    },
  };
}

test("a message is one POST to /api/v1/message/text, with the password in the query", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ id: "out_7", address: someone, text: "Hello" });
  assert.deepEqual(outcome, { status: "delivered" });
  const [asked] = fake.asked;
  assert.equal(asked?.path, "/api/v1/message/text");
  assert.deepEqual([...asked.query], [["password", password]]);
  assert.deepEqual(asked.body, {
    chatGuid: `any;-;${someone}`,
    tempGuid: "out_7-1",
    message: "Hello",
    method: "apple-script",
  });
  assert.deepEqual(fake.violations, []);
});

test("a chat is a guid, a phone number or an email address", async (t) => {
  const { fake, send } = await place(t);
  const chats = [
    `iMessage;-;${someone}`,
    `any;-;${someone}`,
    "iMessage;+;chat123456",
    "+1 (555) 010-0123",
    "maria@example.org",
  ];
  for (const address of chats)
    assert.deepEqual((await send({ address })).outcome, { status: "delivered" }, address);
  assert.deepEqual(
    fake.asked.map(({ body }) => body?.["chatGuid"]),
    [...chats.slice(0, 3), `any;-;${someone}`, "any;-;maria@example.org"],
  );
});

test("an address that cannot be a chat is given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["", "maria", "5550100123", "iMessage;*;x", "iMessage;-;", "a@b", "x;-;y;z"])
    assert.equal((await send({ address })).outcome.status, "permanent", address);
  assert.match((await send({ address: "" })).said, /BLUEBUBBLES_HOME_CHANNEL/);
  assert.equal(fake.asked.length, 0);
});

test("a reply needs the private API, and is the first part alone", async (t) => {
  const { fake, send } = await place(t);
  const extra = { selectedMessageGuid: "9F3B0C44-7" };
  const text = "Some words here. ".repeat(400);
  await send({ address: someone, text, extra }, { method: "private-api" });
  await send({ address: someone, extra });
  assert.deepEqual(
    fake.asked.map(({ body }) => [body?.["method"], body?.["selectedMessageGuid"]]),
    [
      ["private-api", "9F3B0C44-7"],
      ["private-api", undefined],
      ["apple-script", undefined],
    ],
  );
  assert.deepEqual(fake.violations, []);
});

test("Markdown is stripped", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: someone, text: "**bold** and `code`" });
  assert.equal(fake.asked[0]?.body?.["message"], "bold and code");
});

test("long texts go out in parts, each with its own mark, each noted before the next", async (t) => {
  const { fake, send } = await place(t);
  const { outcome, progress } = await send({
    id: "out_7",
    address: someone,
    text: "Some words here. ".repeat(600),
  });
  assert.deepEqual(outcome, { status: "delivered" });
  const parts = fake.asked.map(({ body }) => ({
    mark: body?.["tempGuid"],
    length: String(body?.["message"]).length,
  }));
  assert.ok(parts.length > 2 && parts.every(({ length }) => length <= 4000));
  assert.deepEqual(
    parts.map(({ mark }) => mark),
    parts.map((_, index) => `out_7-${index + 1}`),
  );
  assert.deepEqual(
    progress,
    parts.slice(1).map((_, index) => index + 1),
  );
});

test("while an earlier attempt is under way, the outcome is not known", async (t) => {
  const { send } = await place(t, ["out_7-1"]);
  assert.match((await send({ id: "out_7", address: someone })).told, /^unknown .*earlier attempt/);
});

test("400 is given up with the server's words, and 500 is tried again", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(400, "Validation Error", "The message is not good"));
  assert.match((await send({ address: someone })).told, /^permanent .*The message is not good/);
  assert.match((await send({ address: "+15550100199" })).told, /^retry .*Chat does not exist/);
});

test("an error is one, whatever its form", async (t) => {
  const { fake, send } = await place(t);
  for (const body of [
    { status: 400, error: "Not good" },
    { status: 400, message: "Not good", error: [7] },
  ]) {
    fake.next({ status: 400, body });
    assert.match((await send({ address: someone })).told, /^permanent .*Not good/);
  }
});

test("a wrong password is given up, the variable is named, and no password is shown", async (t) => {
  const { send } = await place(t);
  const { told } = await send({ address: someone }, { password: "another of nobody" });
  assert.match(told, /^permanent .*platforms\.bluebubbles.*BLUEBUBBLES_PASSWORD/);
  assert.doesNotMatch(told, /another of nobody/);
});

test("a server that repeats the password, however short it is, does not get it shown", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(400, "Validation Error", "no such thing: ?password=kw9"));
  const { said } = await send({ address: someone }, { password: "kw9" });
  assert.doesNotMatch(said, /kw9/);
  assert.match(said, /\[redacted\]/);
});

test("without address or password BlueBubbles is incomplete", () => {
  assert.deepEqual(bluebubbles.missing({}), [
    "base_url (BLUEBUBBLES_SERVER_URL)",
    "password (BLUEBUBBLES_PASSWORD)",
  ]);
  assert.deepEqual(bluebubbles.missing({ password, base_url: "http://127.0.0.1:1234" }), []);
});

test("the home channel is the target's home", () => {
  const settings = { password, base_url: "http://127.0.0.1:1234" };
  assert.equal(bluebubbles.create(settings, platformParts()).home, undefined);
  assert.equal(bluebubbles.create({ ...settings, home_channel: someone }, platformParts()).home, someone);
});

testBadPlatform("BlueBubbles", {
  platform: bluebubbles,
  start: startBlueBubbles,
  settings: (url) => ({ password, base_url: url }),
  request: { address: someone },
  secrets: [password, encodeURIComponent(password)],
});
