import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { redact, offTracer } from "../../../src/base/observe.ts";
import {
  AccessTokens,
  type RequestToken,
  type IssuedToken,
} from "../../../src/deliver/platform/access-token.ts";
import type { NoAnswer, SendFailure } from "../../../src/deliver/platform/call.ts";

const HOUR_MS = 3_600_000;

function asking(signal = new AbortController().signal) {
  return { signal, span: offTracer.start("send", {}) };
}

function given(value: string, lifeMs = 2 * HOUR_MS): IssuedToken {
  return { kind: "issued", value, lifeMs };
}

function refused(outcome: SendFailure): NoAnswer {
  return { kind: "none", outcome };
}

/** Tokens that answer with what `next` has been given, one each. */
function tokens(clock: FakeClock, ...answers: (IssuedToken | NoAnswer)[]) {
  const asked = { count: 0 };
  const ask: RequestToken = async () => {
    asked.count += 1;
    const answer = answers.shift();
    assert.ok(answer, "a token too many was asked for");
    return answer;
  };
  return { tokens: new AccessTokens(clock, ask), asked };
}

describe("access tokens", () => {
  test("are requested once and cached until shortly before they expire", async () => {
    const clock = new FakeClock();
    const { tokens: kept, asked } = tokens(clock, given("first-token"), given("second-token"));
    assert.deepEqual(await kept.get(asking()), { kind: "token", value: "first-token", isReused: false });
    clock.tick(2 * HOUR_MS - 121_000);
    assert.deepEqual(await kept.get(asking()), { kind: "token", value: "first-token", isReused: true });
    assert.equal(asked.count, 1);
    clock.tick(1_000);
    assert.deepEqual(await kept.get(asking()), { kind: "token", value: "second-token", isReused: false });
  });

  test("are requested once for concurrent callers", async () => {
    const { tokens: kept, asked } = tokens(new FakeClock(), given("one-for-all"));
    const all = await Promise.all(Array.from({ length: 20 }, () => kept.get(asking())));
    assert.equal(asked.count, 1);
    assert.ok(all.every((one) => one.kind === "token" && one.value === "one-for-all"));
  });

  test("are not used again after a refusal", async () => {
    const { tokens: kept } = tokens(new FakeClock(), given("first-token"), given("second-token"));
    await kept.get(asking());
    kept.drop("another-token");
    assert.equal(((await kept.get(asking())) as { value: string }).value, "first-token");
    kept.drop("first-token");
    assert.equal(((await kept.get(asking())) as { value: string }).value, "second-token");
  });

  test("with a very short lifetime are not requested for every message", async () => {
    const clock = new FakeClock();
    const { tokens: kept, asked } = tokens(clock, given("short-token", 60_000));
    await kept.get(asking());
    clock.tick(29_000);
    await kept.get(asking());
    assert.equal(asked.count, 1);
  });

  test("are requested again after a failed request", async () => {
    const no = refused({ status: "permanent", error: "No." });
    const { tokens: kept } = tokens(new FakeClock(), no, given("later-token"));
    assert.deepEqual(await kept.get(asking()), no);
    assert.equal((await kept.get(asking())).kind, "token");
  });

  test("with a lost response make the message a retry, because nothing was sent", async () => {
    const lost = refused({
      status: "unknown",
      error: "X: There was no answer. The message may have arrived, in whatever words.",
      baseError: "X: There was no answer.",
    });
    const { tokens: kept } = tokens(new FakeClock(), lost);
    assert.deepEqual(
      await kept.get(asking()),
      refused({ status: "retry", error: "X: There was no answer." }),
    );
  });

  test("are requested by the next caller when the requesting attempt is cut", async () => {
    const cut = new AbortController();
    let count = 0;
    const kept = new AccessTokens(new FakeClock(), ({ signal }) => {
      count += 1;
      if (count > 1) return Promise.resolve(given("second-token"));
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const first = kept.get(asking(cut.signal));
    const second = kept.get(asking());
    cut.abort(new Error("cut"));
    await assert.rejects(first, /cut/);
    assert.deepEqual(await second, { kind: "token", value: "second-token", isReused: false });
  });

  test("are not awaited by an attempt that is cut", async () => {
    const cut = new AbortController();
    const kept = new AccessTokens(new FakeClock(), () => new Promise(() => {}));
    void kept.get(asking());
    const waiting = kept.get(asking(cut.signal));
    cut.abort(new Error("cut"));
    await assert.rejects(waiting, /cut/);
  });

  test("are redacted while cached and until the next token is refused", async () => {
    const { tokens: kept } = tokens(new FakeClock(), given("hidden-token-1"), given("hidden-token-2"));
    const shown = () => ["1", "2"].filter((end) => redact(`It says hidden-token-${end}.`).includes("token"));
    await kept.get(asking());
    assert.deepEqual(shown(), ["2"]);
    kept.drop("hidden-token-1");
    assert.deepEqual(shown(), ["2"]);
    await kept.get(asking());
    assert.deepEqual(shown(), []);
    kept.drop("hidden-token-2");
    assert.deepEqual(shown(), ["1"]);
  });
});
