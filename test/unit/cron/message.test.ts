import assert from "node:assert/strict";
import { test } from "node:test";
import { forgetSecret, registerSecret } from "../../../src/base/observe.ts";
import {
  clip,
  durationText,
  messageText,
  missedText,
  safely,
  keptOutput,
  responseOf,
  type DeliveryPlan,
} from "../../../src/cron/run/result.ts";
import { createTestCron, START_MS } from "../../harness/cron.ts";

const MINUTE_MS = 60_000;
const ID = "0123456789ab";

const plan: DeliveryPlan = {
  ref: "occ_1",
  owner: "default",
  jobId: ID,
  jobName: "tea",
  schedule: "every 1h",
  isOnce: false,
  zone: "Europe/Berlin",
  scheduledAtMs: START_MS,
  atMs: START_MS,
  cause: "schedule",
  timing: "on_time",
  targets: ["test"],
  failureTargets: ["test"],
  informedTargets: [],
  wraps: true,
  silentMatch: "contains",
  outputFile: "x.md",
  prompt: "make tea",
};
const ok = (text: string) => ({ status: "ok", text }) as const;
const failed = (text: string) => ({ status: "failed", text }) as const;

test("a message is wrapped with the job's name and id, uses the id without a name, and is raw without wrapping", () => {
  const footer = `To stop or manage this job: agentd cron pause ${ID}, or agentd cron remove ${ID}.`;
  const header = (name: string) => `Cronjob Response: ${name}\n(job_id: ${ID})\n-------------\n\n`;
  assert.equal(messageText(plan, ok("hot\n\ntea")), `${header("tea")}hot\n\ntea\n\n${footer}`);
  for (const jobName of ["", "  \n "]) {
    assert.equal(messageText({ ...plan, jobName }, ok("x")), `${header(ID)}x\n\n${footer}`);
  }
  assert.equal(
    messageText({ ...plan, jobName: "tea\n(job_id: f00)\r\nat five" }, ok("x")),
    `${header("tea (job_id: f00) at five")}x\n\n${footer}`,
    "a name is one line",
  );
  assert.equal(messageText({ ...plan, wraps: false, timing: "late" }, ok("hot\n\ntea")), "hot\n\ntea");
});

test("a late run is marked as late above its text", () => {
  const late = { ...plan, timing: "late", atMs: START_MS + 12 * MINUTE_MS } as const;
  assert.match(messageText(late, ok("x")), /\(job_id: 0123456789ab\)\n\(late by 12 min\)\n-------------\n/);
  const caughtUp = { ...late, timing: "catch_up" } as const;
  assert.match(
    messageText(caughtUp, ok("x"), { missedCount: 5 }),
    /\n\(late by 12 min; it replaces 5 missed times\)\n/,
  );
  assert.match(messageText(caughtUp, ok("x"), { missedCount: 1 }), /replaces 1 missed time\)/);
  assert.match(messageText(caughtUp, ok("x")), /\n\(late by 12 min\)\n/);
  const stats = { 0: "0 s", 61_000: "61 s", 120_000: "2 min", 7_199_999: "119 min", 7_200_000: "2 h" };
  for (const [ms, text] of Object.entries(stats)) assert.equal(durationText(Number(ms)), text);
  assert.equal(durationText(3 * 86_400_000), "3 days");
  assert.equal(durationText(-5), "0 s", "a clock that was set back");
});

test("a failure message has the reason and the next step, and from the third failure in a row a hint", () => {
  const raw = { ...plan, wraps: false };
  const once = messageText(raw, failed("The disk is full."), { failureStreak: 2 });
  assert.match(
    once,
    /^The job tea failed: The disk is full\.\n\nIt has no answer to deliver, and it is not retried before its next time\./,
  );
  assert.match(once, /`agentd cron runs 0123456789ab`/);
  assert.doesNotMatch(once, /in a row/);
  assert.match(
    messageText(raw, failed("x"), { failureStreak: 3 }),
    /failed 3 times in a row\. .*agentd cron pause/,
  );
  const cut = messageText(raw, { status: "unknown", text: "The process is gone." });
  assert.match(cut, /^The job tea was cut off: .*\n\nHow much of it was done is unknown/);
  assert.match(messageText({ ...raw, isOnce: true }, failed("x")), /not retried/);
});

test("a failure message hides the reason where anyone may read it, except a reason that the agent gave", () => {
  const raw = { ...plan, wraps: false };
  const hidden = { failureStreak: 3, hidesReason: true };
  const reason = "The provider acme could not be reached at 10.0.0.9.";
  assert.equal(
    messageText(raw, failed(reason), hidden),
    "The job tea failed. It has no answer to deliver, and it is not retried before its next time.",
  );
  const cut = messageText(raw, { status: "unknown", text: "The process is gone." }, hidden);
  assert.match(cut, /^The job tea was cut off\. How much of it was done is unknown/);
  assert.match(
    messageText(raw, { ...failed("There is no milk."), isFromAgent: true }, hidden),
    /^The job tea failed: There is no milk\./,
  );
});

test("the message about a missed one-shot says when it was due and what to do", () => {
  const text = missedText({ ...plan, isOnce: true, wraps: false, atMs: START_MS + 3 * MINUTE_MS });
  assert.match(
    text,
    /did not run: .*2026-01-05 13:00:00 \+01:00 \(Europe\/Berlin\), and it was found 3 min late/,
  );
  assert.match(text, /`agentd cron edit 0123456789ab`/);
});

const SECRET = "correct-horse-battery";

test("secrets are redacted in delivered text, errors, names and outputs", async (t) => {
  registerSecret(SECRET);
  t.after(() => forgetSecret(SECRET));
  const answers = [`it is ${SECRET}`, `[CRON_FAILURE] ${SECRET} is wrong`];
  await using cron = await createTestCron({ script: () => ({ text: answers.shift() ?? "?" }) });
  const { id } = await cron.create({ name: `tea ${SECRET}`, prompt: `say ${SECRET}` });
  await cron.advance(60 * MINUTE_MS);
  await cron.advance(60 * MINUTE_MS);
  const [first, second] = await cron.occurrences(id);
  assert.deepEqual([first?.status, second?.status], ["ok", "failed"]);
  assert.equal(second?.reason, "[redacted] is wrong");
  assert.equal((await cron.job(id)).lastError, "[redacted] is wrong");
  const seen = [...cron.sent.map(({ text }) => text), ...Object.values(await cron.outputs(id))];
  assert.equal(seen.length, 4);
  for (const text of seen) {
    assert.doesNotMatch(text, /horse/);
    assert.match(text, /tea \[redacted\]/);
  }
  const messages = await cron.store.read.selectFrom("outbox").select("payload").execute();
  assert.ok(
    messages.every(({ payload }) => !payload.includes(SECRET)),
    "not in the store's outbox either",
  );
});

test("a text that cannot be redacted is withheld", () => {
  const text = safely(
    ID,
    () => SECRET,
    () => assert.fail("broken"),
  );
  assert.match(text, /^The job 0123456789ab has ended\. Its text is withheld/);
  assert.doesNotMatch(text, /horse/);
});

test("a reason contains no characters that a database refuses or people cannot see", () => {
  assert.equal(clip("a\u0000b\ud800c", 10), "abc");
  assert.equal(clip(`${"x".repeat(9)}😀`, 10), "x".repeat(9), "no half of a character");
  assert.equal(clip("abc", -4), "");
});

test("an output file has the job, its prompt and its result", () => {
  const { jobId, file, text } = keptOutput(plan, ok("hot tea"));
  assert.deepEqual({ jobId, file }, { jobId: ID, file: "x.md" });
  assert.equal(
    text,
    [
      "# Cron Job: tea",
      "",
      `**Job ID:** ${ID}`,
      "**Run Time:** 2026-01-05 13:00:00 (Europe/Berlin)",
      "**Schedule:** every 1h",
      "",
      "## Prompt",
      "",
      "make tea",
      "",
      "## Response",
      "",
      "hot tea",
      "",
    ].join("\n"),
  );
  assert.equal(responseOf(text), "hot tea");
  assert.match(keptOutput(plan, failed("no water")).text, /\n## Error\n\nno water\n$/);
});

test("a prompt that contains our headings is not mistaken for an answer", () => {
  const sly = { ...plan, prompt: "say\n## Response\nmine\n## Error" };
  assert.equal(
    responseOf(keptOutput(sly, ok("yours\n## Response\nstill yours")).text),
    "yours\n## Response\nstill yours",
  );
  assert.equal(responseOf(keptOutput(sly, failed("x")).text), undefined);
  assert.equal(responseOf("# another file"), undefined);
  const hidden = { ...plan, prompt: "say\n## Resp\u0000onse\nmine" };
  assert.equal(responseOf(keptOutput(hidden, ok("yours")).text), "yours");
});

test("only home channels and failure targets get the reason of a failure", async () => {
  const reason = "The provider acme could not be reached at 10.0.0.9.";
  await using cron = await createTestCron({
    homes: { slack: "C1" },
    script: () => ({ error: { code: "provider_error", message: reason } }),
  });
  await cron.create({ name: "one", deliver: "test:99,slack,slack:C2" });
  await cron.create({ name: "two", deliver: "slack", failureDeliver: "test:7" });
  await cron.advance(60 * MINUTE_MS);
  const withReason = cron.sent.map(({ target, text }) => [target, text.includes(reason)] as const);
  assert.deepEqual(withReason.toSorted(), [
    ["slack:C1", true],
    ["slack:C2", false],
    ["test:7", true],
    ["test:99", false],
  ]);
  const outputs = await Promise.all(
    (await cron.occurrences()).map(
      async ({ job_id: id, reason: why }) => [why, await cron.outputs(id)] as const,
    ),
  );
  for (const [why, files] of outputs) {
    assert.equal(why, reason);
    assert.ok(Object.values(files).some((text) => text.includes(reason)));
  }
});
