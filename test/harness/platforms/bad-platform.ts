/** What every platform reached over HTTP owes its users when the other side misbehaves, as tests. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Platform } from "../../../src/deliver/target.ts";
import { startPlatform, type FakePlatform, type Fault, type Reply } from "./fake.ts";
import { sendThrough, type SendRequest } from "./send.ts";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export interface BadPlatformCase<Settings> {
  readonly platform: Platform<Settings>;
  /** A fake that takes what is right. */
  readonly start: (t: Cleanup) => Promise<FakePlatform>;
  readonly settings: (url: string) => Settings;
  /** A message that goes through when all is well, with one request that the faults hit. */
  readonly request: SendRequest;
  /** Requests before the one that the faults hit, such as for a token. */
  readonly before?: readonly (Reply | Fault)[];
  /** Values that may stand in no outcome. */
  readonly secrets: readonly string[];
}

/** Registers the tests. Each outcome is stated, says what to do, and shows no secret. */
export function testBadPlatform<Settings>(name: string, place: BadPlatformCase<Settings>): void {
  const send = async (t: Cleanup, fault: Reply | Fault, more: SendRequest = {}) => {
    const fake = await place.start(t);
    fake.next(...(place.before ?? []), fault);
    const { outcome } = await sendThrough(place.platform, place.settings(fake.url), {
      ...place.request,
      ...more,
    });
    const said = "error" in outcome ? outcome.error : "";
    for (const secret of place.secrets) assert.ok(!said.includes(secret), `a secret is in: ${said}`);
    return { outcome, said, fake };
  };

  describe(`${name}: a platform that misbehaves`, () => {
    test("answers HTML: tried again, and the web page is named", async (t) => {
      const { outcome, said } = await send(t, "html");
      assert.equal(outcome.status, "retry");
      assert.match(said, /web page/);
    });
    test("redirects: given up, and nothing follows", async (t) => {
      const { outcome, said } = await send(t, "redirect");
      assert.equal(outcome.status, "permanent");
      assert.match(said, /redirect/);
    });
    test("truncates its answer: unknown", async (t) => {
      assert.equal((await send(t, "truncate")).outcome.status, "unknown");
    });
    test("closes mid-answer: unknown", async (t) => {
      assert.equal((await send(t, "close")).outcome.status, "unknown");
    });
    test("rate-limits with a header: waited for as asked, and the attempt does not count", async (t) => {
      const { outcome } = await send(t, { status: 429, headers: { "retry-after": "7" }, body: {} });
      assert.deepEqual(
        { ...outcome, error: "" },
        { status: "retry", error: "", isThrottled: true, afterMs: 7_000 },
      );
    });
    test("rate-limits without a header: tried again, and the attempt does not count", async (t) => {
      const { outcome } = await send(t, { status: 429, body: {} });
      assert.equal(outcome.status, "retry");
      assert.equal((outcome as { isThrottled?: boolean }).isThrottled, true);
    });
    test("fails with 500 and 503: tried again", async (t) => {
      for (const status of [500, 503])
        assert.equal((await send(t, { status, body: {} })).outcome.status, "retry");
    });
    test("refuses the credentials: given up, and the settings are named", async (t) => {
      const { outcome, said } = await send(t, { status: 401, body: {} });
      assert.equal(outcome.status, "permanent");
      assert.match(said, new RegExp(`platforms\\.${place.platform.name}`));
    });
    test("hangs: ends soon after the attempt is cut", async (t) => {
      const fake = await place.start(t);
      fake.next(...(place.before ?? []), "hang");
      const cut = new AbortController();
      const sent = sendThrough(place.platform, place.settings(fake.url), {
        ...place.request,
        signal: cut.signal,
      });
      const end = sent.then(
        ({ outcome }) => outcome.status,
        () => "threw",
      );
      await fake.count((place.before ?? []).length + 1);
      cut.abort(new Error("The attempt is over."));
      assert.ok(["threw", "retry", "unknown"].includes(await end));
    });
    test("is not there: tried again", async (t) => {
      const gone = await startPlatform(t, []);
      const { outcome } = await sendThrough(
        place.platform,
        place.settings(gone.url.replace(/:\d+$/, ":9")),
        place.request,
      );
      assert.equal(outcome.status, "retry");
    });
  });

  describe(`${name}: texts that are not texts`, () => {
    test("empty: people are told that there was nothing", async (t) => {
      for (const text of ["", "  \n"]) {
        const fake = await place.start(t);
        const { outcome } = await sendThrough(place.platform, place.settings(fake.url), {
          ...place.request,
          text,
        });
        assert.equal(outcome.status, "delivered");
        assert.deepEqual(fake.violations, []);
      }
    });
    test("control characters, lone surrogates and binary: delivered without them", async (t) => {
      const fake = await place.start(t);
      const text = `a\u0000b\u001b[31mc\ud800d\u0007e\r\nf${"\u0001".repeat(100)}`;
      const { outcome } = await sendThrough(place.platform, place.settings(fake.url), {
        ...place.request,
        text,
      });
      assert.equal(outcome.status, "delivered");
      assert.deepEqual(fake.violations, []);
      for (const { raw } of fake.asked) assert.doesNotMatch(raw, /\\u000[0-8]|\\u001|\\ud800|%0[0-8]/i);
    });
    test("huge: bounded, and every part fits", async (t) => {
      const fake = await place.start(t);
      const text = "One sentence of some length stands here. ".repeat(25_000);
      const { outcome } = await sendThrough(place.platform, place.settings(fake.url), {
        ...place.request,
        text,
      });
      assert.equal(outcome.status, "delivered");
      assert.deepEqual(fake.violations, []);
      assert.ok(fake.asked.length <= 100, `${fake.asked.length} requests`);
    });
    test("no text at all: given up", async (t) => {
      const fake = await place.start(t);
      const { outcome } = await sendThrough(place.platform, place.settings(fake.url), {
        ...place.request,
        payload: { nothing: true },
      });
      assert.equal(outcome.status, "permanent");
    });
  });
}
