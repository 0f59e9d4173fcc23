import assert from "node:assert/strict";
import { toTable } from "../../../src/cli/kit/table.ts";
import { describe, it } from "node:test";
import { registerSecret } from "../../../src/base/observe.ts";
import { readDefinition, type Job, type JobDefinition, zonedTime } from "../../../src/cron/job/job.ts";
import { jobEntry, occurrenceEntry, schedulerEntry, type Occurrence } from "../../../src/cron/job/format.ts";
import type { CronStatus } from "../../../src/cron/tick/status.ts";
import type { Job as JobEntry } from "../../../src/client/http.ts";
import {
  endText as textOf,
  runsTable,
  brokenCells,
  createdText,
  jobCells,
  jobText,
} from "../../../src/cli/cron/text.ts";
import { statusText, schedulerWarning } from "../../../src/cli/cron/status.ts";

const endText = (occurrence: Occurrence) => textOf(occurrenceEntry(occurrence));

const AT = Date.UTC(2026, 0, 5, 12);
const SECRET = "canary-of-the-cron-texts";
registerSecret(SECRET);

type Parts = Partial<Omit<Job, "definition">> & { readonly definition?: Partial<JobDefinition> };

function job(parts: Parts = {}): JobEntry {
  return jobEntry(jobOf(parts));
}

function jobOf({ definition = {}, ...parts }: Parts = {}): Job {
  const whole = {
    name: "tea",
    prompt: "make tea",
    schedule: { kind: "interval", minutes: 60 },
    zone: "Europe/Berlin",
    ...definition,
  };
  const read = readDefinition(JSON.stringify(whole));
  assert.ok(read);
  return {
    id: "0123456789ab",
    definition: read,
    revision: 1,
    lockVersion: 1,
    owner: "default",
    state: "scheduled",
    dueAtMs: AT,
    nextRunAtMs: AT,
    manualAtMs: undefined,
    retryAtMs: undefined,
    retries: 0,
    repeatDone: 0,
    failureStreak: 0,
    lastRunAtMs: undefined,
    lastStatus: undefined,
    lastError: undefined,
    lastDeliveryError: undefined,
    pausedAtMs: undefined,
    pausedReason: undefined,
    createdAtMs: AT,
    updatedAtMs: AT,
    ...parts,
  };
}

function runsText(runs: readonly Occurrence[], options: Parameters<typeof runsTable>[1]): string {
  const { head, rows } = runsTable(
    runs.map((each) => occurrenceEntry(each)),
    options,
  );
  return toTable(head, rows);
}

describe("a job as it is listed", () => {
  it("has a row with the state, the next run and the last run of active, paused, completed and broken jobs", () => {
    const format = (atMs: number) => `at ${atMs - AT}`;
    const cells = (parts: Parameters<typeof job>[0]) => jobCells(job(parts), format);
    const [id, , next, , schedule, deliver, name] = cells({});
    assert.deepEqual([id, schedule, deliver, name], ["0123456789ab", "every 1h", "local", "tea"]);
    assert.match(next ?? "", /^at \d+$/);
    const states = (parts: Parameters<typeof job>[0]) => cells(parts).slice(1, 4);
    assert.deepEqual(states({ nextRunAtMs: AT + 5 }), ["active", "at 5", "-"]);
    assert.deepEqual(states({ state: "paused", pausedReason: "holiday" }), ["paused", "-", "-"]);
    const over = { nextRunAtMs: undefined, lastRunAtMs: AT, lastStatus: "ok" } as const;
    assert.deepEqual(states({ ...over, state: "completed" }), ["completed", "-", "at 0, ok"]);
    assert.deepEqual(states({ manualAtMs: AT, lastRunAtMs: AT }), [
      "active",
      "now (requested)",
      "at 0, running",
    ]);
    assert.deepEqual(states({ nextRunAtMs: undefined, state: "missed", lastStatus: "missed" }), [
      "missed",
      "-",
      "missed",
    ]);
    assert.deepEqual(brokenCells({ id: "0123456789ab", name: "odd" }).slice(0, 2), [
      "0123456789ab",
      "broken",
    ]);
  });

  it("shows the repeat count, and why a job does not run next", () => {
    const paused = jobText(
      job({ state: "paused", pausedReason: "holiday", definition: { repeat: 3 }, repeatDone: 1 }),
    );
    assert.match(paused, /^Next run: +paused: holiday$/m);
    assert.match(paused, /^Repeat: +1\/3$/m);
    assert.match(jobText(job({})), /^Repeat: +∞$/m);
    assert.match(jobText(job({ nextRunAtMs: undefined, state: "error" })), /unknown: computing it failed/);
  });

  it("shows the next run in the job's zone with the zone's name, and the schedule as it can be typed again", () => {
    const cron = { kind: "cron", expression: "30 1 * * *" } as const;
    const twice = Date.UTC(2026, 10, 1, 6, 30);
    const block = jobText(
      job({ nextRunAtMs: twice, definition: { zone: "America/Toronto", schedule: cron } }),
    );
    assert.match(block, /Schedule: +30 1 \* \* \* \(America\/Toronto\)/);
    assert.match(block, /Next run: +2026-11-01 01:30:00 -05:00 \(America\/Toronto\)/);
    const once = jobText(job({ definition: { schedule: { kind: "once", atMs: AT } } }));
    assert.match(once, /Schedule: +once, 2026-01-05 13:00:00 \+01:00 \(Europe\/Berlin\)/);
  });

  it("shows the reason of a failed delivery, and the next steps of a run", () => {
    const failed = {
      lastRunAtMs: AT,
      lastStatus: "delivery_failed",
      lastDeliveryError: "telegram: 403",
    } as const;
    assert.match(jobText(job(failed)), /Last run: .*, message failed: telegram: 403$/m);
    assert.match(jobText(job({ manualAtMs: AT })), /Next run: +now \(requested\), then 2026-01-05/);
    assert.match(jobText(job({ retryAtMs: AT + 300_000 })), /retry 2026-01-05 13:05:00/);
    assert.match(jobText(job({ lastRunAtMs: AT })), /Last run: .*, running$/m);
  });

  it("keeps secrets, control characters and invalid dates off the terminal", () => {
    const odd = job({
      nextRunAtMs: 1e300,
      pausedReason: SECRET,
      lastRunAtMs: AT,
      lastStatus: "error",
      lastError: `401 for ${SECRET}\u001b[2J`,
      definition: { name: `a\n${SECRET}`, prompt: `use ${SECRET}\u001b]0;x\u0007`, zone: "Mars/Olympus" },
    });
    for (const text of [
      jobCells(odd, String).join(" "),
      jobText(odd),
      createdText(odd),
      JSON.stringify(odd),
    ]) {
      assert.ok(!text.includes(SECRET), text);
      assert.ok(!text.includes("\u001b"), text);
    }
    assert.equal(odd.next_run_at, null);
    assert.equal(zonedTime(AT, "Mars/Olympus"), "2026-01-05 12:00:00 +00:00 (UTC)");
  });

  it("masks a secret at the cut of a prompt, and shows 0 seconds of inactivity as no limit", () => {
    const prompt = `${"x".repeat(3_996)}${SECRET}`;
    assert.doesNotMatch(
      jobText(job({ definition: { prompt, inactivitySeconds: 0 } })),
      new RegExp(SECRET.slice(0, 4)),
    );
    assert.match(jobText(job({ definition: { inactivitySeconds: 0 } })), /Inactivity: +never stopped$/m);
    assert.match(jobText(job({ definition: { inactivitySeconds: 9 } })), /Inactivity: +stopped after 9 s$/m);
  });

  it("shows every given setting of a job, and no other", () => {
    const plain = jobText(job());
    for (const label of [
      "Failures",
      "Origin",
      "Folder",
      "Model",
      "Effort",
      "Grace",
      "Jitter",
      "Overlap",
      "Script",
    ]) {
      assert.ok(!plain.includes(`${label}:`), label);
    }
    const text = jobText(
      job({
        failureStreak: 3,
        definition: {
          prompt: "one\n  two\n\nthree",
          skills: ["a", "b"],
          script: "x.sh",
          isScriptOnly: true,
          contextFrom: ["ba9876543210"],
          deliver: "telegram:-100:17, local",
          failureDeliver: "email:ops@example.org",
          origin: "telegram:-100",
          workdir: "/srv",
          model: "demo:demo",
          reasoningEffort: "high",
          toolsets: [],
          tokenBudget: 5_000,
          inactivitySeconds: 60,
          catchUp: false,
          misfireGraceSeconds: 30,
          overlap: "allow",
          jitterSeconds: 20,
        },
      }),
    );
    for (const line of [
      "Skills: a, b",
      "Script: x.sh (its output is the message; the agent does not run)",
      "Context of: ba9876543210",
      "Deliver: telegram:-100:17, local",
      "Failures: email:ops@example.org",
      "Origin: telegram:-100",
      "Folder: /srv",
      "Model: demo:demo",
      "Effort: high",
      "Toolsets: none",
      "Tokens: at most 5000 per run",
      "Inactivity: stopped after 60 s",
      "Catch up: no",
      "Grace: late by up to 30 s",
      "Overlap: allowed",
      "Jitter: up to 20 s",
      "In a row: 3 failures",
    ]) {
      assert.ok(text.replace(/: +/g, ": ").split("\n").includes(line), `${line} in ${text}`);
    }
    assert.match(text, /\nPrompt:\n {2}one\n {2}two\n\n {2}three$/);
    assert.match(
      jobText(job({ definition: { prompt: "x".repeat(5_000) } })),
      /\(1000 more characters; see --json\)$/,
    );
  });
});

const occurrence: Occurrence = {
  id: "occ_1",
  owner: "default",
  jobId: "0123456789ab",
  jobName: "tea",
  scheduledAtMs: AT,
  cause: "schedule",
  timing: "on_time",
  status: "ok",
  coversCount: 1,
  claimedAtMs: AT,
  startedAtMs: AT,
  endedAtMs: AT + 3_210,
  outputFile: "2026-01-05_12-00-00.md",
  deliveryStatus: "delivered",
};

describe("runs as they are listed", () => {
  it("distinguish the run from the delivery", () => {
    const failed = { ...occurrence, deliveryStatus: "failed", deliveryError: "telegram: 403" } as const;
    const table = runsText([occurrence, failed], { zone: "UTC", isOneJob: true });
    const [head, first, second] = table.split("\n");
    assert.match(head ?? "", /^ID +DUE \(UTC\) +CAUSE +STATUS +TOOK +MESSAGE +OUTPUT +NOTE$/);
    assert.match(
      first ?? "",
      /2026-01-05 12:00:00 \+00:00 +schedule +ok +3\.2 s +delivered +2026-01-05_12-00-00\.md$/,
    );
    assert.match(second ?? "", / ok +3\.2 s +failed +2026-01-05_12-00-00\.md +telegram: 403$/);
    assert.match(runsText([occurrence], { zone: "UTC", isOneJob: false }), /JOB[\s\S]*0123456789ab tea/);
  });

  it("a row for several missed runs shows their number", () => {
    const missed = { ...occurrence, status: "missed", coversCount: 12, reason: "Nobody was there." } as const;
    assert.match(runsText([missed], { zone: "UTC", isOneJob: true }), / missed x12 .*Nobody was there\.$/);
  });

  it("late and catch-up runs are marked; a running run has no output yet", () => {
    const { endedAtMs: _, ...running } = { ...occurrence, status: "running", timing: "catch_up" } as const;
    assert.match(
      runsText([running], { zone: "UTC", isOneJob: true }),
      /schedule, catch-up +running +- +delivered +-/,
    );
    const late = { ...occurrence, cause: "manual", timing: "late" } as const;
    assert.match(runsText([late], { zone: "UTC", isOneJob: true }), /manual, late/);
    assert.equal(endText(occurrence), "ok after 3.2 s");
    const lost = { ...occurrence, deliveryStatus: "failed", deliveryError: `403 ${SECRET}` } as const;
    assert.match(endText(lost), /^ok after 3\.2 s; its message failed: 403 \[redacted\]$/);
    assert.match(
      endText({ ...occurrence, deliveryStatus: "pending" }),
      /; its message is not delivered yet$/,
    );
    assert.match(endText({ ...occurrence, deliveryStatus: "unknown" }), /; its message is unconfirmed$/);
    assert.equal(
      endText({ ...occurrence, status: "failed", reason: `no ${SECRET}` }),
      "failed after 3.2 s: no [redacted]",
    );
    assert.equal(occurrenceEntry(running)["ended_at"], null);
  });
});

const quiet: CronStatus = {
  state: "ticking",
  tickers: [
    {
      owner: "host:12:ab",
      host: "host",
      pid: 12,
      startedAtMs: AT,
      tickedAtMs: AT,
      succeededAtMs: AT,
      lastError: undefined,
      corrected: undefined,
      state: "ticking",
    },
  ],
  lastTickAtMs: AT,
  corrected: undefined,
  jobs: { scheduled: 2, paused: 1, completed: 0, missed: 0, error: 0, all: 3 },
  broken: 0,
  late: { count: 0, oldestDueAtMs: undefined, named: [] },
  next: { id: "0123456789ab", name: "tea", dueAtMs: AT },
  open: 1,
  failures: { count: 0, named: [] },
};
const around = { nowMs: AT + 3_000, zone: "UTC", isEnabled: true };

function textOfStatus(status: CronStatus, at: typeof around): string {
  return statusText(schedulerEntry(status, at), at.nowMs);
}

describe("the scheduler's status", () => {
  it("shows the last tick, the next job and late jobs", () => {
    assert.equal(
      textOfStatus(quiet, around),
      [
        "Scheduler: running, process 12 on host",
        "Last tick: 2026-01-05 12:00:00 +00:00 (UTC), 3 s ago",
        "Jobs:      2 active, 1 paused",
        "Running:   1",
        "Next due:  tea (0123456789ab), 2026-01-05 12:00:00 +00:00 (UTC)",
        "Late:      nothing",
        "Failed:    nothing",
      ].join("\n"),
    );
    const named = [{ id: "0123456789ab", name: "tea", dueAtMs: AT }];
    const bad = textOfStatus(
      {
        ...quiet,
        broken: 1,
        late: { count: 7, oldestDueAtMs: AT, named },
        failures: { count: 1, named: [{ id: "0123456789ab", name: SECRET, lastStatus: "error" }] },
      },
      around,
    );
    assert.match(bad, /Broken: +1 unreadable, which do not run/);
    assert.match(bad, /Late: +7 overdue by more than a minute/);
    assert.match(bad, /\nLate:\n {2}tea \(0123456789ab\), 2026-01-05.*\n {2}\.\.\. and 6 more\n/);
    assert.match(bad, /Failed:\n {2}\[redacted\] \(0123456789ab\): error$/);
  });

  it("reports a scheduler without a tick for over 200 s as stalled, with a hint", () => {
    const [ticker] = quiet.tickers;
    assert.ok(ticker);
    const stalled = {
      ...quiet,
      state: "stalled",
      tickers: [{ ...ticker, state: "stalled", lastError: "disk full" }],
    } as const;
    const text = textOfStatus(stalled, { ...around, nowMs: AT + 240_000 });
    assert.match(text, /^Scheduler: stalled: .*200 s\nLast tick: .*, 4 min ago\nError: +disk full\n/);
    assert.match(
      schedulerWarning({ state: "stalled", enabled: true }) ?? "",
      /^Warning: the scheduler has stalled.*restart `agentd gateway`/,
    );
    assert.match(
      schedulerWarning({ state: "none", enabled: true }) ?? "",
      /^Warning: no gateway is running.*`agentd cron tick`/,
    );
    assert.match(schedulerWarning({ state: "none", enabled: false }) ?? "", /cron\.enabled is off/);
    assert.equal(schedulerWarning({ state: "ticking", enabled: true }), undefined);
  });

  it("has the same content as JSON, in snake case and in Unix seconds", () => {
    assert.deepEqual(schedulerEntry(quiet, around), {
      enabled: true,
      time_zone: "UTC",
      object: "agent.scheduler",
      state: "ticking",
      last_tick_at: Date.UTC(2026, 0, 5, 12) / 1000,
      tickers: [
        {
          host: "host",
          pid: 12,
          state: "ticking",
          started_at: Date.UTC(2026, 0, 5, 12) / 1000,
          ticked_at: Date.UTC(2026, 0, 5, 12) / 1000,
          succeeded_at: Date.UTC(2026, 0, 5, 12) / 1000,
          last_error: null,
        },
      ],
      jobs: quiet.jobs,
      broken: 0,
      running: 1,
      next: { id: "0123456789ab", name: "tea", due_at: Date.UTC(2026, 0, 5, 12) / 1000 },
      corrected: null,
      late: { count: 0, oldest_due_at: null, jobs: [] },
      failing: { count: 0, jobs: [] },
    });
  });
});
