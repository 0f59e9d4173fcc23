import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { createLog, offTracer } from "../../../src/base/observe.ts";
import type { ExportFailure, OtlpModule, TracingSettings } from "../../../src/telemetry/settings.ts";
import { openTracing } from "../../../src/telemetry/telemetry.ts";
import { watchUnhandled } from "../../harness/unhandled.ts";

const settings: TracingSettings = {
  url: "http://127.0.0.1:9/v1/traces",
  headers: {},
  serviceName: "agentd-test",
  version: "0.0.0-test",
  sampleRatio: 1,
  timeoutMs: 1_000,
  maxQueueSpans: 64,
};

function open(load: () => Promise<OtlpModule>, from: TracingSettings | undefined = settings) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const log = createLog("info", (line) => void lines.push(line));
  return { clock, lines, tracing: openTracing(from, { clock, log, load }) };
}

test("without settings, nothing is loaded and nothing is traced", async () => {
  const clock = new FakeClock();
  const load = () => assert.fail("it was loaded");
  const tracing = await openTracing(undefined, { clock, log: createLog("error"), load });
  assert.equal(tracing.tracer, offTracer);
  await tracing.close();
  assert.equal(clock.pending, 0);
});

test("only one file imports the vendor's packages, and only by a dynamic import", async () => {
  const root = join(import.meta.dirname, "../../../src");
  const files = (await readdir(root, { recursive: true })).filter((name) => name.endsWith(".ts"));
  const vendors: string[] = [];
  for (const name of files) {
    const text = await readFile(join(root, name), "utf8");
    if (/from "@opentelemetry\//.test(text)) vendors.push(name);
    assert.ok(!/from "[^"]*\/otlp\.ts"/.test(text), `${name} imports otlp.ts at once`);
  }
  assert.deepEqual(vendors, [join("telemetry", "otlp.ts")]);
});

test("an exporter that cannot be loaded is logged, and the service runs without it", async () => {
  const { lines, tracing } = open(() => Promise.reject(new Error("no such package")));
  const { tracer, close } = await tracing;
  assert.equal(tracer, offTracer);
  assert.match(lines.join(""), /tracing is off/);
  await close();
});

test("failures are logged at once and then at most once a minute, with the spans lost since", async () => {
  let fail: (failure: ExportFailure) => void = () => {};
  const { clock, lines, tracing } = open(async () => ({
    createOtlpTracer: (_settings, onFailure) => {
      fail = onFailure;
      return { tracer: offTracer, close: async () => {} };
    },
  }));
  await tracing;
  const reason = "The collector answered 503.";
  fail({ reason, spans: 3 });
  for (let index = 0; index < 100; index++) fail({ reason, spans: 2 });
  assert.equal(lines.length, 1);
  clock.tick(60_000);
  fail({ reason, spans: 1 });
  const logged = lines.map((line) => JSON.parse(line) as { readonly lost: number; readonly reason: string });
  assert.deepEqual(
    logged.map(({ lost }) => lost),
    [3, 201],
  );
  assert.equal(logged[0]?.reason, reason);
});

test("a collector that does not answer delays the end by at most three seconds", async () => {
  await using _ = watchUnhandled();
  let cut: AbortSignal | undefined;
  const { clock, tracing } = open(async () => ({
    createOtlpTracer: () => ({
      tracer: offTracer,
      close: (signal) => {
        cut = signal;
        return new Promise(() => {});
      },
    }),
  }));
  const { close } = await tracing;
  const closed = close();
  clock.tick(2_999);
  assert.equal(cut?.aborted, false);
  clock.tick(1);
  await closed;
  assert.equal(cut?.aborted, true);
  assert.equal(clock.pending, 0);
});
