import assert from "node:assert/strict";
import { test } from "node:test";
import { sms } from "../../../src/deliver/targets/sms.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import {
  error,
  message,
  startTwilio,
  TWILIO_SERVICE,
  TWILIO_SID,
  TWILIO_TOKEN,
} from "../../harness/platforms/sms.ts";
import { lacksVendorSpec, vendorBody } from "../../harness/platforms/vendor-schema.ts";

const account = { account_sid: TWILIO_SID, auth_token: TWILIO_TOKEN, from_number: "+15550100100" };
const someone = "+15550100123";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startTwilio(t);
  return {
    fake,
    send: async (request: SendRequest, more = {}) => {
      const sent = await sendThrough(sms, { ...account, base_url: fake.url, ...more }, request);
      const said = "error" in sent.outcome ? sent.outcome.error : "";
      return { ...sent, said, told: `${sent.outcome.status} ${said}` };
    },
  };
}

test("a message is one POST of To, From and Body as a form, with Basic authentication", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: someone, text: "Hello & good-bye" });
  assert.deepEqual(outcome, { status: "delivered" });
  const [asked] = fake.asked;
  assert.equal(asked?.path, `/2010-04-01/Accounts/${TWILIO_SID}/Messages.json`);
  assert.match(asked.headers["content-type"] ?? "", /^application\/x-www-form-urlencoded\b/);
  assert.deepEqual(asked.body, { To: someone, From: "+15550100100", Body: "Hello & good-bye" });
  assert.deepEqual(fake.violations, []);
});

test("a sender that begins with MG is a messaging service", async (t) => {
  const { fake, send } = await place(t);
  const { outcome } = await send({ address: someone }, { from_number: TWILIO_SERVICE });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.asked[0]?.body, { To: someone, MessagingServiceSid: TWILIO_SERVICE, Body: "Hello" });
});

test("Markdown is stripped", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: someone, text: "# Head\n\n**bold** and [site](https://example.org)" });
  const text = String(fake.asked[0]?.body?.["Body"]);
  assert.doesNotMatch(text, /[*#[\]]/);
  assert.match(text, /bold/);
  assert.match(text, /https:\/\/example\.org/);
});

test("numbers are taken however they are written, and sent in E.164", async (t) => {
  const { fake, send } = await place(t);
  for (const address of ["+1 (555) 010-0123", "+1.555.010.0123", "+15550100123"]) {
    assert.deepEqual((await send({ address })).outcome, { status: "delivered" });
  }
  assert.deepEqual(new Set(fake.asked.map(({ body }) => body?.["To"])), new Set([someone]));
});

test("an address that is not a number with its country code is given up before anything is asked", async (t) => {
  const { fake, send } = await place(t);
  const wrong = [
    "",
    "5550100123",
    "+0155501001",
    "+1555010012345678",
    "+1x5550100",
    "whatsapp:+15550100123",
    "+12",
  ];
  for (const address of wrong) assert.equal((await send({ address })).outcome.status, "permanent", address);
  assert.match((await send({ address: "" })).said, /SMS_HOME_CHANNEL/);
  assert.match((await send({ address: "5550100123" })).said, /country code/);
  assert.match((await send({ extra: { chat_id: 15_550_100_123 } })).said, /quote it/);
  assert.equal(fake.asked.length, 0);
});

test("long texts go out in parts of at most 1600 characters, ten at most, each noted before the next", async (t) => {
  const { fake, send } = await place(t);
  const { outcome, progress } = await send({ address: someone, text: "Some words here. ".repeat(300) });
  assert.deepEqual(outcome, { status: "delivered" });
  assert.deepEqual(fake.violations, []);
  const lengths = fake.asked.map(({ body }) => String(body?.["Body"]).length);
  assert.ok(lengths.length > 3 && lengths.every((length) => length <= 1600), lengths.join());
  assert.deepEqual(
    progress,
    lengths.slice(1).map((_, index) => index + 1),
  );
  const before = fake.asked.length;
  await send({ address: someone, text: "Some words here. ".repeat(30_000) });
  assert.equal(fake.asked.length - before, 10);
});

test("queued, accepted and the states after them are deliveries", async (t) => {
  const { fake, send } = await place(t);
  for (const status of ["queued", "accepted", "scheduled", "sending", "sent", "delivered"]) {
    fake.next(message(status));
    assert.deepEqual((await send({ address: someone })).outcome, { status: "delivered" }, status);
  }
});

test("a message that has failed in the answer already is given up, and it is said why", async (t) => {
  const { fake, send } = await place(t);
  fake.next(
    message("failed", { error_code: 30_007, error_message: "Message filtered" }),
    message("undelivered"),
    message("canceled"),
  );
  assert.match((await send({ address: someone })).told, /^permanent .*Message filtered \(30007\).*spam/);
  assert.match((await send({ address: someone })).told, /^permanent .*undelivered.*Twilio console/);
  assert.match((await send({ address: someone })).told, /^permanent .*canceled/);
});

test("an unknown state is neither a delivery nor a failure", async (t) => {
  const { fake, send } = await place(t);
  fake.next(message("levitating"));
  assert.equal((await send({ address: someone })).outcome.status, "unknown");
});

test("what no attempt changes is given up, and it is said what to do", async (t) => {
  const { fake, send } = await place(t);
  const cases: readonly (readonly [number, RegExp])[] = [
    [21_211, /Check the address/],
    [21_610, /START/],
    [21_608, /verify/],
    [21_614, /not a mobile number/],
    [21_408, /Geo permissions/],
    [21_606, /TWILIO_PHONE_NUMBER/],
    [21_617, /text_limit/],
    [30_006, /landline/],
    [30_007, /spam/],
    [30_034, /A2P/],
  ];
  for (const [code, hint] of cases) {
    fake.next(error(400, code, "Refused"));
    const { told } = await send({ address: someone });
    assert.match(told, new RegExp(`^permanent .*\\(${code}\\)`));
    assert.match(told, hint);
  }
});

test("wrong credentials are given up, and both settings are named", async (t) => {
  const { send } = await place(t);
  const { told } = await send({ address: someone }, { auth_token: "another-token-of-nobody" });
  assert.match(told, /^permanent .*20003.*TWILIO_ACCOUNT_SID.*TWILIO_AUTH_TOKEN/);
  assert.doesNotMatch(told, /another-token/);
});

test("too many requests and a full queue wait, and do not count", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(429, 20_429, "Too Many Requests"), error(400, 21_611, "This From number has too many"), {
    ...error(429, 63_038, "Account exceeded the daily messages limit"),
    headers: { "retry-after": "600" },
  });
  const outcomes = [];
  for (let index = 0; index < 3; index += 1) outcomes.push((await send({ address: someone })).outcome);
  assert.deepEqual(
    outcomes.map((outcome) => ({ ...outcome, error: "" })),
    [
      { status: "retry", error: "", isThrottled: true },
      { status: "retry", error: "", isThrottled: true },
      { status: "retry", error: "", isThrottled: true, afterMs: 600_000 },
    ],
  );
});

test("a code that is not in the table is given up with Twilio's words, and 5xx is tried again", async (t) => {
  const { fake, send } = await place(t);
  fake.next(error(400, 21_999, "Something else"), error(503, 20_503, "Service Unavailable"));
  assert.match((await send({ address: someone })).told, /^permanent .*Something else \(21999\)/);
  assert.equal((await send({ address: someone })).outcome.status, "retry");
});

test("without account, token or sender SMS is incomplete", () => {
  assert.deepEqual(sms.missing({}), [
    "account_sid (TWILIO_ACCOUNT_SID)",
    "auth_token (TWILIO_AUTH_TOKEN)",
    "from_number (TWILIO_PHONE_NUMBER)",
  ]);
  assert.deepEqual(sms.missing(account), []);
});

test("the home channel is the target's home", () => {
  assert.equal(sms.create(account, platformParts()).home, undefined);
  assert.equal(sms.create({ ...account, home_channel: someone }, platformParts()).home, someone);
});

test(
  "the request fits the description that Twilio publishes",
  { skip: lacksVendorSpec("twilio.json") },
  async (t) => {
    const { fake, send } = await place(t);
    const check = vendorBody("twilio.json", "/2010-04-01/Accounts/{AccountSid}/Messages.json");
    await send({ address: someone });
    await send({ address: someone }, { from_number: TWILIO_SERVICE });
    assert.deepEqual(
      fake.asked.map(({ body }) => check(body)),
      [undefined, undefined],
    );
    assert.match(check({ Body: "x" }) ?? "", /To/);
  },
);

testBadPlatform("SMS", {
  platform: sms,
  start: startTwilio,
  settings: (url) => ({ ...account, base_url: url }),
  request: { address: someone },
  secrets: [TWILIO_TOKEN, btoa(`${TWILIO_SID}:${TWILIO_TOKEN}`)],
});
