/** What no honest sender sends: answered in order, and the receiver goes on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openRaw, responseOf } from "../../harness/raw-http.ts";
import { bytesOf, sign, startWebhookService, type WebhookService } from "../../harness/webhook.ts";

async function lastRendered(service: WebhookService): Promise<string> {
  return (await service.deliveries()).at(-1)?.rendered ?? "";
}

test("a payload nested 10,000 levels deep is refused, and 100 levels are accepted", async () => {
  await using service = await startWebhookService();
  const nested = (depth: number, open: string, close: string) => open.repeat(depth) + close.repeat(depth);
  for (const body of [
    nested(10_000, "[", "]"),
    nested(10_000, '{"a":', "}").replace(":}", ":1}"),
    "[".repeat(500_000),
  ]) {
    const { status, body: answer } = await service.post("hook", body);
    assert.deepEqual([status, answer.code], [400, "unparsable_body"]);
  }
  assert.equal((await service.post("hook", nested(100, "[", "]"))).status, 202);
  const brackets = JSON.stringify({ text: `${"[{".repeat(5_000)}\\" ${'"'.repeat(9)}` });
  assert.equal((await service.post("hook", brackets)).status, 202, "brackets in texts are not nesting");
});

test("numbers beyond 2^53, lone surrogates, NULs and reserved names are accepted and recorded as sent", async () => {
  await using service = await startWebhookService({ routes: { hook: { prompt: "got {a}" } } });
  const bodies = [
    '{"a":9007199254740993}',
    '{"a":1e400}',
    '{"a":"\\ud800"}',
    '{"a":"x\\u0000y"}',
    '{"__proto__":{"a":1},"constructor":2,"a":3}',
    '{"event_type":"\\u0000\\ud800","a":1}',
    '{"event_type":{"nested":true},"a":[1]}',
  ];
  for (const body of bodies) {
    const { status } = await service.post("hook", body);
    assert.equal(status, 202, body);
    assert.match(await lastRendered(service), /^got |got/);
  }
  const rows = await service.deliveries();
  assert.deepEqual(
    rows.map(({ payload }) => payload),
    bodies,
  );
});

test("100,000 keys and a body of a megabyte are accepted", async () => {
  await using service = await startWebhookService();
  const many = Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`k${at}`, at]));
  assert.equal((await service.post("hook", many)).status, 202);
  assert.equal(
    (await service.post("hook", Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [at, 1])), {}))
      .status,
    202,
  );
  assert.equal((await service.post("hook", JSON.stringify("x".repeat(1_048_574)))).status, 202);
});

test("header bytes outside ASCII neither pass the signature nor break the server", async () => {
  await using service = await startWebhookService();
  const post = async (...lines: readonly string[]): Promise<Response> => {
    using connection = await openRaw(service.url);
    const head = [
      "POST /webhooks/hook HTTP/1.1",
      "host: x",
      "content-length: 2",
      "content-type: application/json",
    ];
    connection.write(
      Uint8Array.from([...head, ...lines, "", "{}"].join("\r\n"), (character) => character.charCodeAt(0)),
    );
    return responseOf(await connection.until(/\r\n\r\n\{.*\}|HTTP\/1\.1 4\d\d/s));
  };
  const signed = `x-hub-signature-256: ${sign(bytesOf("{}"))}`;
  for (const name of ["x-hub-signature-256", "x-gitlab-token", "authorization", "webhook-signature"]) {
    assert.equal((await post(`${name}: sha256=\xff\xfe\xe9`)).status, 401, name);
  }
  const odd = await service.check(
    "receiveWebhook",
    await post(signed, "x-github-delivery: \xe9\xff", "x-github-event: \xfcber"),
  );
  assert.equal(odd.status, 202);
  const again = await service.check("receiveWebhook", await post(signed, "x-github-delivery: \xe9\xff"));
  assert.equal(again.body.status, "duplicate");
  const id = await service.check("receiveWebhook", await post(signed, "x-request-id: \xe9 two words"));
  assert.equal(id.status, 202);
  assert.match(id.headers.get("x-request-id") ?? "", /^req_/, "what cannot be sent back is not");
  assert.equal((await service.post("hook")).status, 202);
});

test("endless heads and malformed requests are refused, and the server continues", async () => {
  await using service = await startWebhookService();
  const odd = [
    `POST /webhooks/hook HTTP/1.1\r\nx: ${"y".repeat(1_000_000)}\r\n\r\n`,
    "POST /webhooks/hook HTTP/1.1\r\nbad header\r\n\r\n",
    "\u0000\u0001\u0002\r\n\r\n",
    "POST /webhooks/hook HTTP/9.9\r\n\r\n",
  ];
  for (const text of odd) {
    using connection = await openRaw(service.url);
    connection.write(text);
    assert.doesNotMatch(await connection.closed(), /HTTP\/1\.1 [25]/);
  }
  assert.equal((await service.post("hook")).status, 202);
  assert.equal((await service.deliveries()).length, 1);
});
