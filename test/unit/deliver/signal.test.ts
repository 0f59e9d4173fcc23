import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { signal, styledText } from "../../../src/deliver/targets/signal.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import {
  restError,
  rpcError,
  rpcResult,
  SIGNAL_ACCOUNT,
  SIGNAL_GROUP,
  SIGNAL_UUID,
  startSignal,
} from "../../harness/platforms/signal.ts";
import { lacksVendorSpec, vendorBody } from "../../harness/platforms/vendor-schema.ts";

const account = SIGNAL_ACCOUNT;
const someone = "+15550100123";
const restGroup = `group.${Buffer.from(SIGNAL_GROUP).toString("base64")}`;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup, api?: "rpc" | "rest") {
  const fake = await startSignal(t);
  const settings = { account, base_url: fake.url, ...(api ? { api } : {}) };
  return {
    fake,
    send: async (request: SendRequest, more = {}) => {
      const sent = await sendThrough(signal, { ...settings, ...more }, request);
      const said = "error" in sent.outcome ? sent.outcome.error : "";
      return { ...sent, said, told: `${sent.outcome.status} ${said}` };
    },
  };
}

function paramsOf({ body }: { readonly body: Readonly<Record<string, unknown>> | undefined }) {
  return body?.["params"] as Readonly<Record<string, unknown>> | undefined;
}

describe("signal-cli's JSON-RPC", () => {
  test("a message is one POST of method send to /api/v1/rpc, with account, recipient and message", async (t) => {
    const { fake, send } = await place(t);
    const { outcome } = await send({ id: "out_7", address: someone, text: "Hello" });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(
      fake.asked.map(({ method, path, body }) => ({ method, path, body })),
      [
        {
          method: "POST",
          path: "/api/v1/rpc",
          body: {
            jsonrpc: "2.0",
            method: "send",
            id: "out_7-1",
            params: { account, recipient: [someone], message: "Hello" },
          },
        },
      ],
    );
  });

  test("styles go beside the text, counted in UTF-16 units", async (t) => {
    const { fake, send } = await place(t);
    const { outcome } = await send({ address: someone, text: "😀 **bold** and `code`" });
    assert.deepEqual(outcome, { status: "delivered" });
    const { message, textStyle } = paramsOf(fake.asked[0] ?? { body: undefined }) ?? {};
    assert.equal(message, "😀 bold and code");
    assert.deepEqual(textStyle, ["3:4:BOLD", "12:4:MONOSPACE"]);
  });

  test("a chat is a phone number however it is written, a UUID, a user name or a group", async (t) => {
    const { fake, send } = await place(t);
    const chats = [
      "+1 (555) 010-0123",
      SIGNAL_UUID,
      "maria.42",
      "u:maria.42",
      `group:${SIGNAL_GROUP}`,
      restGroup,
    ];
    for (const address of chats) {
      assert.deepEqual((await send({ address })).outcome, { status: "delivered" }, address);
    }
    assert.deepEqual(
      fake.asked.map((asked) => {
        const { recipient, groupId } = paramsOf(asked) ?? {};
        return recipient ?? groupId;
      }),
      [[someone], [SIGNAL_UUID], ["u:maria.42"], ["u:maria.42"], SIGNAL_GROUP, SIGNAL_GROUP],
    );
    assert.deepEqual(fake.violations, []);
  });

  test("group_id of deliver_extra selects the group", async (t) => {
    const { fake, send } = await place(t);
    await send({ address: someone, extra: { group_id: SIGNAL_GROUP } });
    await send({ extra: { groupId: `group:${SIGNAL_GROUP}` } });
    assert.deepEqual(
      fake.asked.map((asked) => paramsOf(asked)?.["groupId"]),
      [SIGNAL_GROUP, SIGNAL_GROUP],
    );
  });

  test("a chat that can be none is given up before anything is asked", async (t) => {
    const { fake, send } = await place(t);
    for (const address of ["", "5550100123", "+0123", "maria", "group:", "group:x y", "group.!!", "a@b.c"]) {
      assert.equal((await send({ address })).outcome.status, "permanent", address);
    }
    assert.equal((await send({ extra: { group_id: 7 } })).outcome.status, "permanent");
    assert.match((await send({ address: "" })).said, /SIGNAL_HOME_CHANNEL/);
    assert.equal(fake.asked.length, 0);
  });

  test("long texts go out in parts of at most 4000 units, each noted before the next", async (t) => {
    const { fake, send } = await place(t);
    const { outcome, progress } = await send({ address: someone, text: "Some words here. ".repeat(600) });
    assert.deepEqual(outcome, { status: "delivered" });
    const lengths = fake.asked.map((asked) => String(paramsOf(asked)?.["message"]).length);
    assert.ok(lengths.length > 2 && lengths.every((length) => length <= 4_000), lengths.join());
    assert.deepEqual(
      progress,
      lengths.slice(1).map((_, index) => index + 1),
    );
    assert.equal(new Set(fake.asked.map(({ body }) => body?.["id"])).size, lengths.length);
  });

  test("a recipient that is not registered is given up, and so is one whose key is not trusted", async (t) => {
    const { fake, send } = await place(t);
    assert.match((await send({ address: "+15550100199" })).told, /^permanent .*not registered with Signal/);
    fake.next(rpcError(-1, "The user +15550100123 is not registered."));
    assert.match((await send({ address: someone })).told, /^permanent .*not registered with Signal/);
    fake.next(
      rpcError(-4, "Failed to send message due to untrusted identities", [rpcResult("IDENTITY_FAILURE")]),
    );
    assert.match((await send({ address: someone })).told, /^permanent .*safety number.*`trust`/);
  });

  test("a rate limit waits as many seconds as the results say, the longest of them", async (t) => {
    const { fake, send } = await place(t);
    const limited = (retryAfterSeconds: number) => rpcResult("RATE_LIMIT_FAILURE", { retryAfterSeconds });
    fake.next(rpcError(-5, "Failed to send message due to rate limiting", [limited(20), limited(90)]));
    const first = await send({ address: someone });
    assert.deepEqual(
      { ...first.outcome, error: "" },
      { status: "retry", error: "", isThrottled: true, afterMs: 90_000 },
    );
    assert.match(first.said, /captcha/);
    fake.next(
      rpcError(-1, "Failed to send message", [limited(30), rpcResult("UNREGISTERED_FAILURE")]),
      rpcError(-5, "Rate limited, retry after 12 seconds"),
      rpcError(-5, "Failed to send message due to rate limiting"),
    );
    const rest = [
      await send({ address: someone }),
      await send({ address: someone }),
      await send({ address: someone }),
    ];
    assert.deepEqual(
      rest.map(({ outcome }) => "afterMs" in outcome && outcome.afterMs),
      [30_000, 12_000, false],
    );
    assert.ok(rest.every(({ outcome }) => "isThrottled" in outcome && outcome.isThrottled));
  });

  test("a network failure and an error within signal-cli are tried again", async (t) => {
    const { fake, send } = await place(t);
    fake.next(
      rpcError(-1, "Failed to send message", [rpcResult("NETWORK_FAILURE")]),
      rpcError(-3, "I/O error"),
      rpcError(-32_603, "Failed to send message: null (IOException)"),
    );
    for (let index = 0; index < 3; index += 1) {
      assert.equal((await send({ address: someone })).outcome.status, "retry");
    }
  });

  test("an error is one, whatever its data are", async (t) => {
    const { fake, send } = await place(t);
    for (const data of ["text", [1], { response: "text" }, { response: { results: [{ type: 1 }, 7] } }]) {
      fake.next({ status: 200, body: { jsonrpc: "2.0", error: { code: -1, message: null, data }, id: "1" } });
      assert.equal((await send({ address: someone })).outcome.status, "permanent", JSON.stringify(data));
    }
  });

  test("an error at HTTP 201 is not a delivery either", async (t) => {
    const { fake, send } = await place(t);
    fake.next({ ...rpcError(-1, "Group not found"), status: 201 });
    assert.match((await send({ address: `group:${SIGNAL_GROUP}` })).told, /^permanent .*Group not found/);
  });

  test("in a group one recipient is a delivery, and none is a failure", async (t) => {
    const { fake, send } = await place(t);
    const answer = (...types: readonly string[]) => ({
      status: 200,
      body: {
        jsonrpc: "2.0",
        result: { timestamp: 1, results: types.map((type) => rpcResult(type)) },
        id: "1",
      },
    });
    fake.next(
      answer("NETWORK_FAILURE", "SUCCESS"),
      answer("NETWORK_FAILURE", "UNREGISTERED_FAILURE"),
      answer(),
    );
    const outcomes = [];
    for (let index = 0; index < 3; index += 1)
      outcomes.push((await send({ address: `group:${SIGNAL_GROUP}` })).outcome.status);
    assert.deepEqual(outcomes, ["delivered", "retry", "delivered"]);
  });

  test("an account that signal-cli does not have is given up, and the setting is named", async (t) => {
    const { send } = await place(t);
    const { told } = await send({ address: someone }, { account: "+15550100999" });
    assert.match(told, /^permanent .*SIGNAL_ACCOUNT/);
  });

  test("a daemon that knows no send is given up, and an update is advised", async (t) => {
    const { fake, send } = await place(t);
    fake.next(rpcError(-32_601, "Method not implemented"));
    assert.match((await send({ address: someone })).told, /^permanent .*Update signal-cli/);
  });
});

describe("signal-cli-rest-api", () => {
  test("a message is one POST of number, recipients and message to /v2/send", async (t) => {
    const { fake, send } = await place(t, "rest");
    const { outcome } = await send({ address: someone, text: "Hello" });
    assert.deepEqual(outcome, { status: "delivered" });
    assert.deepEqual(
      fake.asked.map(({ method, path, body }) => ({ method, path, body })),
      [
        {
          method: "POST",
          path: "/v2/send",
          body: { message: "Hello", number: account, recipients: [someone], text_mode: "normal" },
        },
      ],
    );
  });

  test("styles become marks, unless the text has signs that would be taken for some", async (t) => {
    const { fake, send } = await place(t, "rest");
    await send({ address: someone, text: "**bold** and *it*" });
    await send({ address: someone, text: "**bold** is 2 \\* 3" });
    assert.deepEqual(
      fake.asked.map(({ body }) => [body?.["text_mode"], body?.["message"]]),
      [
        ["styled", "**bold** and *it*"],
        ["normal", "bold is 2 * 3"],
      ],
    );
  });

  test("spans that overlap, or of an unknown style, go out plain", () => {
    assert.equal(styledText({ text: "abcdef", styles: ["0:4:BOLD", "2:4:ITALIC"] }), undefined);
    assert.equal(styledText({ text: "abcdef", styles: ["0:4:GLOW"] }), undefined);
    assert.equal(
      styledText({ text: "abcdef", styles: ["3:3:SPOILER", "0:3:STRIKETHROUGH"] }),
      "~abc~||def||",
    );
  });

  test("a group bears the prefix of the service, whichever form it is given in", async (t) => {
    const { fake, send } = await place(t, "rest");
    for (const address of [`group:${SIGNAL_GROUP}`, restGroup])
      assert.deepEqual((await send({ address })).outcome, { status: "delivered" });
    assert.deepEqual(
      fake.asked.map(({ body }) => body?.["recipients"]),
      [[restGroup], [restGroup]],
    );
  });

  test("429 with challenge tokens waits, reports the captcha, and hides the tokens", async (t) => {
    const { fake, send } = await place(t, "rest");
    fake.next(restError(429, "Rate limited", ["a-challenge-token"]), {
      ...restError(429, "Rate limited"),
      headers: { "retry-after": "40" },
    });
    const first = await send({ address: someone });
    assert.deepEqual({ ...first.outcome, error: "" }, { status: "retry", error: "", isThrottled: true });
    assert.match(first.said, /rate-limit-challenge/);
    assert.doesNotMatch(first.said, /a-challenge-token/);
    const { outcome } = await send({ address: someone });
    assert.equal("afterMs" in outcome && outcome.afterMs, 40_000);
  });

  test("400 is given up with what to do, but for failures of the network", async (t) => {
    const { fake, send } = await place(t, "rest");
    assert.match((await send({ address: "+15550100199" })).told, /^permanent .*SIGNAL_ACCOUNT/);
    fake.next(
      restError(400, 'Untrusted Identity for "+15550100123"'),
      restError(400, 'Network failure for "+15550100123"'),
      restError(400, "Invalid group id"),
    );
    assert.match((await send({ address: someone })).told, /^permanent .*safety number/);
    assert.match((await send({ address: someone })).told, /^retry /);
    assert.match((await send({ address: someone })).told, /^permanent .*Invalid group id/);
  });

  test(
    "the request fits the description that signal-cli-rest-api publishes",
    { skip: lacksVendorSpec("signal-cli-rest-api.json") },
    async (t) => {
      const { fake, send } = await place(t, "rest");
      const check = vendorBody("signal-cli-rest-api.json", "/v2/send");
      for (const text of ["plain", "**bold**"]) await send({ address: someone, text });
      assert.deepEqual(
        fake.asked.map(({ body }) => check(body)),
        [undefined, undefined],
      );
      assert.match(check({ message: "x" }) ?? "", /number/);
    },
  );
});

test("without the daemon's address or the account Signal is incomplete", () => {
  assert.deepEqual(signal.missing({}), ["base_url (SIGNAL_HTTP_URL)", "account (SIGNAL_ACCOUNT)"]);
  assert.deepEqual(signal.missing({ base_url: "http://127.0.0.1:8080", account }), []);
});

test("the home channel is the target's home", () => {
  const settings = { base_url: "http://127.0.0.1:8080", account };
  assert.equal(signal.create(settings, platformParts()).home, undefined);
  assert.equal(signal.create({ ...settings, home_channel: someone }, platformParts()).home, someone);
});

for (const api of ["rpc", "rest"] as const) {
  testBadPlatform(`Signal (${api})`, {
    platform: signal,
    start: startSignal,
    settings: (url) => ({ account, base_url: url, api }),
    request: { address: someone },
    secrets: [],
  });
}
