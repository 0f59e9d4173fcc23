import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { whatsapp } from "../../../src/deliver/targets/whatsapp.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import {
  error,
  startWhatsapp,
  WHATSAPP_NUMBER_ID,
  WHATSAPP_TOKEN,
} from "../../harness/platforms/whatsapp.ts";

const cloud = { phone_number_id: WHATSAPP_NUMBER_ID, access_token: WHATSAPP_TOKEN };
const someone = "+15550100123";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup, way: "cloud" | "bridge" = "cloud") {
  const fake = await startWhatsapp(t);
  const settings = way === "cloud" ? { ...cloud, base_url: fake.url } : { bridge_url: fake.url };
  return {
    fake,
    send: async (request: SendRequest, more = {}) => {
      const sent = await sendThrough(whatsapp, { ...settings, ...more }, request);
      const said = "error" in sent.outcome ? sent.outcome.error : "";
      return { ...sent, said, told: `${sent.outcome.status} ${said}` };
    },
  };
}

describe("the Cloud API", () => {
  test("a message is one POST of a text to the number's messages, with the token as bearer", async (t) => {
    const { fake, send } = await place(t);
    const { outcome } = await send({ address: someone, text: "Hello" });
    assert.deepEqual(outcome, { status: "delivered" });
    const [asked] = fake.asked;
    assert.equal(asked?.path, `/v20.0/${WHATSAPP_NUMBER_ID}/messages`);
    assert.deepEqual(asked.body, {
      messaging_product: "whatsapp",
      recipient_type: "individual",
      to: "15550100123",
      type: "text",
      text: { body: "Hello" },
    });
    assert.deepEqual(fake.violations, []);
  });

  test("the version of the API is the one that is set", async (t) => {
    const { fake, send } = await place(t);
    await send({ address: someone }, { api_version: "v23.0" });
    assert.equal(fake.asked[0]?.path, `/v23.0/${WHATSAPP_NUMBER_ID}/messages`);
  });

  test("Markdown becomes what WhatsApp renders", async (t) => {
    const { fake, send } = await place(t);
    await send({ address: someone, text: "**bold** and ~~gone~~" });
    assert.deepEqual(fake.asked[0]?.body?.["text"], { body: "*bold* and ~gone~" });
  });

  test("reply_to makes the first part a reply, and preview_url is passed on", async (t) => {
    const { fake, send } = await place(t);
    const { outcome } = await send({
      address: someone,
      text: "Some words here. ".repeat(400),
      extra: { reply_to: "wamid.abc", preview_url: true },
    });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    assert.deepEqual(
      fake.asked.map(({ body }) => body?.["context"]),
      [{ message_id: "wamid.abc" }, undefined],
    );
    for (const { body } of fake.asked) assert.partialDeepStrictEqual(body?.["text"], { preview_url: true });
  });

  test("a number may be written in any way, and as WhatsApp's own id", async (t) => {
    const { fake, send } = await place(t);
    for (const address of ["+1 555 010-0123", "15550100123", "15550100123@s.whatsapp.net"])
      assert.deepEqual((await send({ address })).outcome, { status: "delivered" }, address);
    assert.deepEqual(new Set(fake.asked.map(({ body }) => body?.["to"])), new Set(["15550100123"]));
  });

  test("no number, and a group, are given up before anything is asked", async (t) => {
    const { fake, send } = await place(t);
    for (const address of ["", "maria", "+12", "0123456789", "+1555010012345678"])
      assert.equal((await send({ address })).outcome.status, "permanent", address);
    assert.match((await send({ address: "" })).said, /WHATSAPP_CLOUD_HOME_CHANNEL/);
    assert.match((await send({ address: "1203630@g.us" })).said, /groups.*bridge/);
    assert.equal(fake.asked.length, 0);
  });

  test("long texts go out in parts of at most 4096 characters, each noted before the next", async (t) => {
    const { fake, send } = await place(t);
    const { outcome, progress } = await send({ address: someone, text: "Some words here. ".repeat(800) });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(fake.violations, []);
    assert.ok(fake.asked.length > 2);
    assert.deepEqual(
      progress,
      fake.asked.slice(1).map((_, index) => index + 1),
    );
  });

  test("outside the 24 hours: given up, since only a template would do", async (t) => {
    const { fake, send } = await place(t);
    fake.next(
      error(
        400,
        131_047,
        "(#131047) Re-engagement message",
        "Message failed to send because more than 24 hours have passed since the customer last replied.",
      ),
    );
    const { told } = await send({ address: someone });
    assert.match(told, /^permanent .*more than 24 hours.*\(131047\).*only templates.*write first/);
  });

  test("rate limits, whatever their status, wait and do not count", async (t) => {
    const { fake, send } = await place(t);
    for (const [status, code] of [
      [400, 4],
      [400, 80_007],
      [429, 130_429],
      [400, 131_056],
    ] as const) {
      fake.next(error(status, code, "Rate limit hit"));
      const { outcome } = await send({ address: someone });
      assert.deepEqual({ ...outcome, error: "" }, { status: "retry", error: "", isThrottled: true });
    }
  });

  test("an error is one, whatever its data are", async (t) => {
    const { fake, send } = await place(t);
    for (const data of ["text", {}, [1], null]) {
      fake.next({
        status: 400,
        body: { error: { code: 4, message: "Limit", error_data: data, is_transient: true } },
      });
      const { outcome } = await send({ address: someone });
      assert.equal("isThrottled" in outcome && outcome.isThrottled, true, JSON.stringify(data));
    }
  });

  test("a service that is away is tried again, whatever its status", async (t) => {
    const { fake, send } = await place(t);
    for (const code of [1, 2, 131_000, 131_016, 131_057, 133_004]) {
      fake.next(error(400, code, "Try again later"));
      const { outcome } = await send({ address: someone });
      assert.equal(outcome.status, "retry", String(code));
      assert.equal("isThrottled" in outcome, false);
    }
  });

  test("what no attempt changes is given up, and it is said what to do", async (t) => {
    const { fake, send } = await place(t);
    const cases: readonly (readonly [number, number, RegExp])[] = [
      [401, 0, /WHATSAPP_CLOUD_ACCESS_TOKEN/],
      [401, 190, /WHATSAPP_CLOUD_ACCESS_TOKEN/],
      [403, 10, /whatsapp_business_messaging/],
      [403, 200, /whatsapp_business_messaging/],
      [400, 100, /deliver_extra/],
      [400, 131_030, /App Dashboard/],
      [400, 131_042, /payment/],
      [400, 999_999, /999999/],
    ];
    for (const [status, code, hint] of cases) {
      fake.next(error(status, code, "Refused"));
      assert.match((await send({ address: someone })).told, /^permanent /, String(code));
      fake.next(error(status, code, "Refused"));
      assert.match((await send({ address: someone })).said, hint);
    }
    assert.match((await send({ address: "+15550100199" })).told, /^permanent .*The recipient must use/);
    const wrong = await send({ address: someone }, { access_token: "another-token-of-nobody" });
    assert.match(wrong.told, /^permanent .*190.*WHATSAPP_CLOUD_ACCESS_TOKEN/);
    assert.doesNotMatch(wrong.said, /another-token/);
  });
});

describe("a bridge", () => {
  test("a message is one POST of chatId and message to /send", async (t) => {
    const { fake, send } = await place(t, "bridge");
    const { outcome } = await send({ address: someone, text: "Hello", extra: { reply_to: "3EB0AA" } });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(
      fake.asked.map(({ method, path, body }) => ({ method, path, body })),
      [
        {
          method: "POST",
          path: "/send",
          body: { chatId: "15550100123@s.whatsapp.net", message: "Hello", replyTo: "3EB0AA" },
        },
      ],
    );
  });

  test("it is used in place of the Cloud API where both are set, and writes to groups", async (t) => {
    const { fake, send } = await place(t, "bridge");
    const { outcome } = await send({ address: "120363041234567890@g.us" }, cloud);
    assert.deepEqual(outcome, { status: "delivered" });
    assert.equal(fake.asked[0]?.body?.["chatId"], "120363041234567890@g.us");
  });

  test("while it is not signed in, and when it fails, it is tried again", async (t) => {
    const { fake, send } = await place(t, "bridge");
    fake.next(
      { status: 503, body: { error: "Not connected to WhatsApp" } },
      { status: 500, body: { error: "Timed out" } },
      { status: 200, body: { success: false, error: "Timed out" } },
    );
    assert.match((await send({ address: someone })).told, /^retry .*signed in to WhatsApp/);
    assert.match((await send({ address: someone })).told, /^retry .*Timed out/);
    assert.match((await send({ address: someone })).told, /^retry .*Timed out/);
  });

  test("a redirect names the bridge's own setting", async (t) => {
    const { fake, send } = await place(t, "bridge");
    fake.next("redirect");
    assert.match((await send({ address: someone })).told, /^permanent .*platforms\.whatsapp\.bridge_url/);
  });

  test("an address that cannot be a chat is given up before anything is asked", async (t) => {
    const { fake, send } = await place(t, "bridge");
    for (const address of ["", "maria", "a b@s.whatsapp.net", "@g.us"])
      assert.equal((await send({ address })).outcome.status, "permanent", address);
    assert.equal(fake.asked.length, 0);
  });
});

test("WhatsApp lacks number and token, or a bridge", () => {
  assert.deepEqual(whatsapp.missing({}), [
    "phone_number_id (WHATSAPP_CLOUD_PHONE_NUMBER_ID)",
    "access_token (WHATSAPP_CLOUD_ACCESS_TOKEN)",
  ]);
  assert.deepEqual(whatsapp.missing(cloud), []);
  assert.deepEqual(whatsapp.missing({ bridge_url: "http://127.0.0.1:3000" }), []);
});

test("the home channel is the target's home", () => {
  assert.equal(whatsapp.create(cloud, platformParts()).home, undefined);
  assert.equal(whatsapp.create({ ...cloud, home_channel: someone }, platformParts()).home, someone);
});

testBadPlatform("WhatsApp (Cloud API)", {
  platform: whatsapp,
  start: startWhatsapp,
  settings: (url) => ({ ...cloud, base_url: url }),
  request: { address: someone },
  secrets: [WHATSAPP_TOKEN],
});

testBadPlatform("WhatsApp (bridge)", {
  platform: whatsapp,
  start: startWhatsapp,
  settings: (url) => ({ bridge_url: url }),
  request: { address: someone },
  secrets: [],
});
