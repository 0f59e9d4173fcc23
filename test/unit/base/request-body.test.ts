/** What a body costs while it arrives. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { readBody } from "../../../src/base/net/request.ts";

const settings = { maxBytes: "some.max_bytes", timeoutMs: "some.timeout" };
const LIMITS = { maxBytes: 300_000, timeoutMs: 10_000, clock: systemClock, settings };

/** A request whose body comes in these pieces, each made when it is asked for. */
function arriving(pieces: Iterable<Uint8Array>) {
  const source = pieces[Symbol.iterator]();
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const { done, value } = source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    },
    { highWaterMark: 0 },
  );
  return { req: new Request("http://localhost/", { method: "POST", body, duplex: "half" } as RequestInit) };
}

test("a body of single bytes is complete, and its pieces are not kept", async () => {
  const given: Uint8Array[] = [];
  function* bytes() {
    for (let n = 0; n < 8_000; n++) {
      given.push(Uint8Array.of(n % 251));
      // Of what came long before there is a copy: whoever still held the piece itself would have this.
      given[n - 500]?.fill(255);
      yield given[n]!;
    }
  }
  const body = await readBody(arriving(bytes()), LIMITS);
  assert.equal(body.length, 8_000);
  assert.ok(body.every((byte, n) => byte === n % 251));
});

test("a body in one piece is that piece, and an empty one is empty", async () => {
  const piece = Uint8Array.of(1, 2, 3);
  assert.deepEqual([...(await readBody(arriving([piece]), LIMITS))], [1, 2, 3]);
  assert.equal((await readBody(arriving([]), LIMITS)).length, 0);
});

test("a body over the limit is refused, in pieces of any size", async () => {
  for (const size of [1, 7, 65_536]) {
    const pieces = Array.from({ length: Math.ceil(1001 / size) }, () => new Uint8Array(Math.min(size, 1001)));
    await assert.rejects(readBody(arriving(pieces), { ...LIMITS, maxBytes: 1000 }), {
      code: "body_too_large",
    });
  }
});
