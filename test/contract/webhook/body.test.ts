/** Bodies: how long, how slow, in what form. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openRaw, responseOf } from "../../harness/raw-http.ts";
import {
  bytesOf,
  sign,
  startWebhookService,
  serveChangedDeps,
  webhookScenario,
  type WebhookService,
} from "../../harness/webhook.ts";
import { WatchedClock } from "../../harness/watched-clock.ts";

const LIMIT = { settings: { max_body_bytes: 1000 } };
const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** A JSON text of so many bytes. */
const jsonOf = (bytes: number): string => JSON.stringify("x".repeat(bytes - 2));

/** The head of a signed POST to the route `hook`. */
function head(body: string, ...lines: readonly string[]): string {
  const fixed = ["POST /webhooks/hook HTTP/1.1", "host: localhost", "content-type: application/json"];
  return [...fixed, `x-hub-signature-256: ${sign(bytesOf(body))}`, ...lines, "", ""].join("\r\n");
}

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

async function assertNothingTaken(service: WebhookService): Promise<void> {
  const verified = (await service.deliveries()).filter(({ unverified }) => unverified === null);
  assert.deepEqual(verified, []);
  assert.equal((await service.post("hook")).status, 202, "the receiver still takes webhooks");
}

webhookScenario(
  ["receiveWebhook 413", "receiveWebhook 413 x-request-id"],
  "a content-length over the limit answers 413 before the body is sent",
  async (service) => {
    for (const length of ["1001", "8000000"]) {
      using connection = await openRaw(service.url);
      connection.write(head("", `content-length: ${length}`));
      // Nothing of the body is ever sent.
      const answer = await connection.until(/\r\n\r\n\{.*\}/s);
      assert.match(answer, /^HTTP\/1\.1 413 /);
      assert.match(answer, /"error":"Payload too large","code":"body_too_large"/);
    }
    const { status, body } = await service.post("hook", jsonOf(1001));
    assert.deepEqual([status, body.error], [413, "Payload too large"]);
    await assertNothingTaken(service);
  },
  LIMIT,
);

test("a body of 12 MiB answers 413, and the receiver keeps accepting webhooks", async () => {
  await using service = await startWebhookService();
  const { status } = await service.post("hook", new Uint8Array(12 * 1_048_576));
  assert.equal(status, 413);
  await assertNothingTaken(service);
});

webhookScenario(
  "receiveWebhook 413",
  "a chunked body over the limit answers 413 before it ends",
  async (service) => {
    using connection = await openRaw(service.url);
    connection.write(head("", "transfer-encoding: chunked"));
    connection.write(chunk("x".repeat(900)));
    connection.write(chunk("x".repeat(200)));
    // The body is not at its end, and the answer comes all the same.
    assert.match(await connection.until(/\r\n\r\n\{.*\}/s), /^HTTP\/1\.1 413 /);
    const stream = new Blob([bytesOf(jsonOf(1001))]).stream();
    const init = { method: "POST", body: stream, duplex: "half" };
    const { status } = await service.check(
      "receiveWebhook",
      await fetch(`${service.url}/webhooks/hook`, init),
    );
    assert.equal(status, 413);
    await assertNothingTaken(service);
  },
  LIMIT,
);

test("a body of exactly the size limit is accepted", async () => {
  await using service = await startWebhookService(LIMIT);
  const body = jsonOf(1000);
  assert.equal((await service.post("hook", body)).status, 202);
  using connection = await openRaw(service.url);
  connection.write(head(body, "transfer-encoding: chunked"));
  for (const piece of [body.slice(0, 1), body.slice(1, 500), body.slice(500)]) connection.write(chunk(piece));
  connection.write(chunk(""));
  assert.match(await connection.until(/\r\n\r\n/), /^HTTP\/1\.1 202 /);
});

webhookScenario(
  "receiveWebhook 400",
  "a body that is not valid JSON answers 400 with an error",
  async (service) => {
    for (const bad of ["{bad", '{"a":1', "[1,]", "{'a':1}", '{"a":1} x', "NaN", '"\n"']) {
      const { status, body } = await service.post("hook", bad);
      assert.deepEqual([status, body.error], [400, "Cannot parse body"], bad);
    }
  },
);

test("text that is not JSON answers 400 whatever its content type, and JSON sent as text/plain is accepted", async () => {
  await using service = await startWebhookService();
  for (const type of [
    "application/json",
    "application/json; charset=utf-8",
    "application/vnd.x+json",
    "text/plain",
    "",
  ]) {
    const { status, body } = await service.post("hook", "hello", { headers: { "content-type": type } });
    assert.deepEqual([status, body.code], [400, "unparsable_body"], type);
  }
  const text = { "content-type": "Text/Plain; charset=utf-8" };
  assert.equal((await service.post("hook", '{"a":1}', { headers: text })).status, 202, "text that is JSON");
});

test("an empty body is accepted as `{}`", async () => {
  await using service = await startWebhookService({ routes: { hook: { prompt: "got {__raw__}" } } });
  for (const [body, headers] of [
    ["", {}],
    [" \n", {}],
    ["", FORM],
  ] as const) {
    assert.equal((await service.post("hook", body, { headers })).status, 202, JSON.stringify(body));
  }
  const rows = await service.deliveries();
  assert.deepEqual(
    rows.map(({ rendered }) => /got \{\}|got .*\{\}/s.test(rendered ?? "")),
    [true, true, true],
  );
});

test("form fields become the payload, JSON in a `payload` field is unwrapped, and too many fields answer 400", async () => {
  await using service = await startWebhookService({ routes: { hook: { prompt: "{a}-{b}-{payload}" } } });
  const rendered = async (form: string): Promise<string> => {
    assert.equal((await service.post("hook", form, { headers: FORM })).status, 202, form);
    return (await service.deliveries()).at(-1)?.rendered ?? "";
  };
  assert.equal(await rendered("a=1&b=two%20words&b=last"), "1-last-{payload}");
  assert.equal(await rendered(`payload=${encodeURIComponent('{"a":"x","b":2}')}`), "x-2-{payload}");
  assert.equal(await rendered("payload=plain&a=1"), "1-{b}-plain");
  const many = await service.post("hook", "a&".repeat(20_000), { headers: FORM });
  assert.equal(many.status, 400);
});

test("a JSON array is accepted, and a template reads its items by index as in `{0.x}`", async () => {
  await using service = await startWebhookService({ routes: { hook: { prompt: "first {0.x}" } } });
  assert.equal((await service.post("hook", [{ x: "one" }, { x: "two" }])).status, 202);
  assert.equal((await service.deliveries())[0]?.rendered, "first one");
});

webhookScenario(
  ["receiveWebhook 415", "receiveWebhook 415 x-request-id"],
  "other types, and encoded bodies, are answered 415",
  async (service) => {
    const odd: readonly Record<string, string>[] = [
      { "content-type": "application/xml" },
      { "content-type": "multipart/form-data; boundary=x" },
      { "content-encoding": "gzip" },
      { "content-encoding": "identity, br" },
    ];
    for (const headers of odd) {
      const { status, body } = await service.post("hook", "{}", { headers });
      assert.deepEqual([status, body.code], [415, "unsupported_type"], JSON.stringify(headers));
    }
    const plain = await service.post("hook", "{}", { headers: { "content-encoding": "identity" } });
    assert.equal(plain.status, 202);
  },
);

test("bodies that are not UTF-8 are refused, a byte order mark is not", async () => {
  await using service = await startWebhookService();
  for (const bytes of [
    [0xff, 0xfe],
    [0x22, 0xc3, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
  ]) {
    assert.equal((await service.post("hook", Uint8Array.from(bytes))).status, 400);
  }
  assert.equal((await service.post("hook", Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]))).status, 202);
});

webhookScenario(
  ["receiveWebhook 408", "receiveWebhook 408 x-request-id"],
  "a slow body is answered 408 after ten seconds, and its connection closed",
  async (service) => {
    const clock = new WatchedClock();
    await using slow = await serveChangedDeps(service, () => ({ clock }));
    using connection = await openRaw(slow.url);
    connection.write(`${head("", "content-length: 100")}{"a"`);
    await clock.wait(10_000);
    clock.tick(9_999);
    connection.write(":");
    clock.tick(1);
    const answer = responseOf(await connection.until(/"request_id":"[^"]+"\}/));
    assert.match(answer.headers.get("connection") ?? "", /close/);
    const { status, body } = await service.check("receiveWebhook", answer);
    assert.deepEqual(
      [status, body.error, body.code],
      [408, "The body did not arrive in time", "body_timeout"],
    );
    if ("Deno" in globalThis) {
      // Its server keeps the connection in any case; the rest of the body must not become a request.
      connection.write(`${"x".repeat(95)}GET /health HTTP/1.1\r\nhost: x\r\n\r\n`);
      await connection.until(/\}HTTP\/1\.1 200 /);
    } else await connection.closed();
    await assertNothingTaken(service);
  },
);

test("a body that is cut off is not taken", async () => {
  await using service = await startWebhookService();
  const lengths = ["content-length: 100", "transfer-encoding: chunked"];
  for (const length of lengths) {
    const connection = await openRaw(service.url);
    connection.write(head("{}", length));
    connection.write(length.startsWith("t") ? chunk("{}") : "{}");
    await service.test.request("/health");
    connection.cut();
  }
  const refused = await service.loggedSoon("a webhook was refused", 2);
  assert.deepEqual(
    refused.map(({ code }) => code),
    ["bad_request", "bad_request"],
  );
  await assertNothingTaken(service);
});

test("Expect: 100-continue is answered before the body, and a body too long refused", async () => {
  await using service = await startWebhookService(LIMIT);
  using connection = await openRaw(service.url);
  connection.write(head("{}", "content-length: 2", "expect: 100-continue"));
  await connection.until(/^HTTP\/1\.1 100 /);
  connection.write("{}");
  assert.match(await connection.until(/HTTP\/1\.1 202 /), /"status":"accepted"|202/);
  using tooLong = await openRaw(service.url);
  tooLong.write(head("", "content-length: 1001", "expect: 100-continue"));
  await tooLong.until(/HTTP\/1\.1 413 /);
});

test("Content-Length with Transfer-Encoding, and lengths that are none, are refused", async () => {
  await using service = await startWebhookService();
  const smuggled = "POST /webhooks/hook HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
  const odd: readonly (readonly string[])[] = [
    ["content-length: 2", "transfer-encoding: chunked"],
    ["transfer-encoding: chunked", "content-length: 5"],
    ["content-length: -1"],
    ["content-length: 2", "content-length: 3"],
    ["content-length: 2x"],
    ["transfer-encoding: gzip"],
  ];
  for (const lines of odd) {
    using connection = await openRaw(service.url);
    connection.write(`${head("{}", ...lines)}0\r\n\r\n${smuggled}`);
    const answer = await connection.until(/HTTP\/1\.1 \d{3} /);
    assert.match(answer, /^HTTP\/1\.1 4\d\d /, lines.join(", "));
  }
  await assertNothingTaken(service);
});
