import assert from "node:assert/strict";
import { test } from "node:test";
import { Metrics } from "../../../src/telemetry/registry.ts";
import { parseExposition, sampleValue } from "../../harness/exposition.ts";

test("counters and gauges follow their help and type", async () => {
  const metrics = new Metrics();
  const answers = metrics.counter("answers_total", { help: "Answers.", labels: ["operation", "status"] });
  answers.add(["getRun", "200"]);
  answers.add(["getRun", "200"], 2);
  answers.add(["getRun", "404"]);
  metrics.gauge("temperature", { help: "How warm." }).set(-1.5);
  assert.equal(
    await metrics.text(),
    [
      "# HELP answers_total Answers.",
      "# TYPE answers_total counter",
      'answers_total{operation="getRun",status="200"} 3',
      'answers_total{operation="getRun",status="404"} 1',
      "# HELP temperature How warm.",
      "# TYPE temperature gauge",
      "temperature -1.5",
      "",
    ].join("\n"),
  );
});

test("label values and help are escaped, and read back as they were", async () => {
  const metrics = new Metrics();
  const odd = 'a"b\\c\nd\\n,}{ ü';
  metrics.gauge("odd", { help: "back\\slash and\nline", labels: ["text"] }).set(1, [odd]);
  const text = await metrics.text();
  assert.ok(text.includes('odd{text="a\\"b\\\\c\\nd\\\\n,}{ ü"} 1\n'));
  const families = parseExposition(text);
  assert.equal(families.get("odd")?.help, "back\\slash and\nline");
  assert.equal(sampleValue(families, "odd", { text: odd }), 1);
});

test("NaN and infinities are written by their names", async () => {
  const metrics = new Metrics();
  const gauge = metrics.gauge("odd", { help: "Odd.", labels: ["is"] });
  for (const value of [Infinity, -Infinity, Number.NaN, 1e21, 1e-9]) gauge.set(value, [String(value)]);
  const families = parseExposition(await metrics.text());
  for (const value of [Infinity, -Infinity, Number.NaN, 1e21, 1e-9]) {
    assert.ok(Object.is(sampleValue(families, "odd", { is: String(value) }), value));
  }
});

test("the buckets of a histogram add up, and its bounds count as inside", async () => {
  const metrics = new Metrics();
  const durations = metrics.histogram("took_seconds", {
    help: "How long.",
    labels: ["operation"],
    buckets: [0.1, 1, 10],
  });
  for (const seconds of [0.05, 0.1, 0.5, 10, 11, 200]) durations.observe(seconds, ["a"]);
  durations.observe(3, ["b"]);
  const families = parseExposition(await metrics.text());
  const bucket = (operation: string, le: string) =>
    sampleValue(families, "took_seconds_bucket", { operation, le });
  assert.deepEqual(
    ["0.1", "1", "10", "+Inf"].map((le) => bucket("a", le)),
    [2, 3, 4, 6],
  );
  assert.deepEqual(
    ["0.1", "1", "10", "+Inf"].map((le) => bucket("b", le)),
    [0, 0, 1, 1],
  );
  assert.equal(sampleValue(families, "took_seconds_count", { operation: "a" }), 6);
  assert.equal(sampleValue(families, "took_seconds_sum", { operation: "b" }), 3);
});

test("label sets are bounded: further ones are counted together", async () => {
  const metrics = new Metrics();
  const counter = metrics.counter("many_total", { help: "Many.", labels: ["a", "b"] });
  for (let index = 0; index < 2_500; index++) counter.add([`a${index}`, "b"]);
  const families = parseExposition(await metrics.text());
  assert.equal(families.get("many_total")?.samples.length, 1_001);
  assert.equal(sampleValue(families, "many_total", { a: "other", b: "other" }), 1_500);
  assert.equal(sampleValue(families, "many_total", { a: "a999", b: "b" }), 1);
});

test("collectors run before each text, and concurrent callers share one run", async () => {
  const metrics = new Metrics();
  const gauge = metrics.gauge("runs", { help: "Runs.", labels: ["status"] });
  let collections = 0;
  metrics.collect(async () => {
    await Promise.resolve();
    gauge.clear();
    gauge.set(++collections, [collections === 1 ? "queued" : "running"]);
  });
  const [first, second] = await Promise.all([metrics.text(), metrics.text()]);
  assert.equal(first, second);
  assert.equal(collections, 1);
  const families = parseExposition(await metrics.text());
  assert.equal(sampleValue(families, "runs", { status: "running" }), 2);
  assert.equal(sampleValue(families, "runs", { status: "queued" }), undefined);
});

test("a failing collector does not hide other metrics", async () => {
  const problems: unknown[] = [];
  const metrics = new Metrics({ onProblem: (error) => void problems.push(error) });
  const gauge = metrics.gauge("fine", { help: "Fine." });
  const broken = new Error("the store is away");
  metrics.collect(() => Promise.reject(broken));
  metrics.collect(() => {
    throw broken;
  });
  metrics.collect(() => gauge.set(1));
  assert.equal(sampleValue(parseExposition(await metrics.text()), "fine"), 1);
  assert.deepEqual(problems, [broken, broken]);
});

test("mistakes are reported when a metric is created", () => {
  const metrics = new Metrics();
  const help = "Help.";
  metrics.gauge("taken", { help });
  assert.throws(() => metrics.gauge("taken", { help }), RangeError);
  assert.throws(() => metrics.counter("count", { help }), /_total/);
  assert.throws(() => metrics.gauge("no-metric", { help }), RangeError);
  assert.throws(() => metrics.gauge("g", { help, labels: ["le"] }), RangeError);
  assert.throws(() => metrics.gauge("g", { help, labels: ["__name"] }), RangeError);
  assert.throws(() => metrics.gauge("g", { help, labels: ["a b"] }), RangeError);
  assert.throws(() => metrics.histogram("h", { help, buckets: [1, 1] }), RangeError);
  assert.throws(() => metrics.histogram("h", { help, buckets: [1, Infinity] }), RangeError);
});
