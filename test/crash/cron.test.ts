/** Jobs of the clock and SIGKILL: what had not begun is run by who is left, what had begun is told and never run again. */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { JobDefinition } from "../../src/cron/job/job.ts";
import type { OccurrenceRow } from "../../src/store/schema/tables.ts";
import { find, findProblems } from "./cron-check.ts";
import { createCronPlace, type CronContext, type RunningChild } from "./cron-place.ts";
import { until } from "./webhook-place.ts";

/** One minute a second, at which leases of half a minute are kept easily. */
const FACTOR = 60;
const EPOCH_MS = Date.UTC(2026, 0, 5, 12, 0, 0);
/** Kills at random points; a hundred take about a day. More by hand: AGENTD_TEST_KILLS. */
const KILLS = Number(process.env["AGENTD_TEST_KILLS"] ?? 5);
/** Time to each next kill, about, without the starts. */
const BETWEEN_KILLS_MS = 180_000;
/** Two minutes a second: leases of half a minute are kept on a machine that has other things to do. */
const RANDOM_FACTOR = 120;
const every2m = { kind: "interval", minutes: 2 } as const;
/** Two minutes of grace are two seconds here, and a busy machine may need longer. */
const soon = (cron: CronContext) =>
  ({
    schedule: { kind: "once", atMs: cron.clock.now() + 10_000 },
    misfireGraceSeconds: 3_600,
  }) as const;

const place = (options: Partial<Parameters<typeof createCronPlace>[0]> = {}): Promise<CronContext> =>
  createCronPlace({ factor: FACTOR, epochMs: EPOCH_MS, ...options });

for (const [where, hosts] of [
  ["on its machine", [{}, {}]],
  ["on another machine, once its lease ran out", [{ host: "pod-a" }, { host: "pod-b" }]],
] as const) {
  test(`a job whose process is killed between claim and run runs once in another process ${where}`, async () => {
    await using cron = await place();
    const first = await cron.start({ ...hosts[0], stopAt: "claimed" });
    const { id } = await cron.create({ name: "tea", ...soon(cron) });
    await first.says("stopped");
    const [claimed] = await cron.occurrences(id);
    assert.equal(claimed?.status, "claimed");
    assert.equal(claimed.run_id, null);
    await first.kill("SIGKILL");
    await cron.start(hosts[1]);
    const [ended, ...others] = await cron.untilOccurrences(
      id,
      ([row]) => row?.delivery_status === "delivered",
    );
    assert.equal(ended?.id, claimed.id);
    assert.equal(ended.status, "ok");
    assert.deepEqual(others, []);
    await assertKeptAndTold(cron, ended);
    assert.equal((await cron.lines("turns.jsonl")).length, 1);
  });
}

test("a job whose process is killed in its script becomes unknown, is reported and not repeated, and its next slot is normal", async () => {
  const script = "if [ -e seen ]; then echo brewed; else echo $$ > seen; exec sleep 20; fi";
  await using cron = await place({ scripts: { "brew.sh": script } });
  const parts = { script: "brew.sh", isScriptOnly: true, prompt: "" };
  const { id } = await cron.create({ name: "tea", schedule: every2m, ...parts });
  const first = await cron.start();
  await until(
    () => existsSync(join(cron.home, "scripts", "seen")),
    () => "the script did not begin",
  );
  const begun = (await cron.occurrences(id)).find(({ status }) => status === "running");
  assert.ok(begun);
  await first.kill("SIGKILL");
  await cron.start();
  await assertUnknownThenNormal(cron, begun);
});

test("a job whose process is killed in its agent run becomes unknown, is reported and not repeated, and its next slot is normal", async () => {
  await using cron = await place();
  const { id } = await cron.create({ name: "tea", schedule: every2m, prompt: "hangs-once" });
  const first = await cron.start();
  await first.says("answering");
  const begun = (await cron.occurrences(id)).find(({ status }) => status === "running");
  assert.ok(begun);
  await first.kill("SIGKILL");
  await cron.start();
  await assertUnknownThenNormal(cron, begun);
  const runs = (await cron.lines("turns.jsonl")).map((line) => (JSON.parse(line) as { runId: string }).runId);
  assert.equal(runs.filter((run) => run === begun.run_id).length, 1);
});

test("after SIGKILL between a run's end and its output, the next process writes and delivers it once", async () => {
  await using cron = await place();
  const first = await cron.start({ stopAt: "ended" });
  const { id } = await cron.create({ name: "tea", ...soon(cron), prompt: "says=brewed" });
  await first.says("stopped");
  const [ended] = await cron.occurrences(id);
  assert.equal(ended?.status, "ok");
  assert.equal(ended.delivery_status, "pending");
  assert.deepEqual([await cron.outputs(id), cron.arrivals], [[], []]);
  await first.kill("SIGKILL");
  await cron.start();
  const rows = await cron.untilOccurrences(id, ([row]) => row?.delivery_status === "delivered");
  assert.equal(rows.length, 1);
  await assertKeptAndTold(cron, rows[0]!);
  assert.equal((await cron.lines("turns.jsonl")).length, 1);
});

test("a message whose process is killed during delivery is sent again under its id without another agent run", async () => {
  const held: ServerResponse[] = [];
  const answer = (response: ServerResponse, count: number) =>
    count === 1 ? void held.push(response) : void response.end("[]");
  await using cron = await place({ answer });
  const first = await cron.start();
  const { id } = await cron.create({ name: "tea", ...soon(cron), prompt: "says=brewed" });
  await until(
    () => held.length === 1,
    () => "nothing was sent",
  );
  await first.kill("SIGKILL");
  await cron.start();
  const rows = await cron.untilOccurrences(id, ([row]) => row?.delivery_status === "delivered");
  assert.equal(rows.length, 1);
  assert.equal(cron.arrivals.length, 2);
  assert.equal(cron.arrivals[0]?.id, cron.arrivals[1]?.id);
  assert.equal((await cron.lines("turns.jsonl")).length, 1);
});

/** One file, one message, both with what came of it. */
async function assertKeptAndTold(cron: CronContext, { job_id: id, output_file: file }: OccurrenceRow) {
  await until(
    async () => (await cron.outputs(id)).length === 1,
    () => "no output is kept",
  );
  assert.deepEqual(await cron.outputs(id), [file]);
  assert.equal(cron.arrivals.length, 1);
}

async function assertUnknownThenNormal(cron: CronContext, begun: OccurrenceRow): Promise<void> {
  const isLost = ({ id }: OccurrenceRow) => id === begun.id;
  const rows = await cron.untilOccurrences(
    begun.job_id,
    (all) =>
      all.find(isLost)?.delivery_status === "delivered" &&
      all.some(({ id, status }) => id > begun.id && status === "ok"),
  );
  const lost = rows.find(isLost);
  assert.ok(lost);
  assert.equal(lost.status, "unknown");
  assert.match(lost.reason ?? "", /process/);
  const others = rows.filter(({ scheduled_at: at }) => at === lost.scheduled_at);
  assert.deepEqual(others, [lost], "its instant was taken twice");
  assert.match(cron.arrivals[0]?.text ?? "", /tea.*cut off/s);
  const path = lost.output_file ?? "";
  await until(
    async () => (await cron.outputs(lost.job_id)).includes(path),
    () => "its end is not kept",
  );
  assert.match(await cron.output(lost.job_id, path), /## Error/);
}

/** Clocks are put forward or back soon after. */
const DAYS = {
  "New York's clocks go back": Date.UTC(2026, 10, 1, 5, 40),
  "Berlin's clocks go forward": Date.UTC(2026, 2, 29, 0, 40),
  "Lord Howe's clocks go forward": Date.UTC(2026, 9, 3, 15, 10),
  "Lord Howe's clocks go back": Date.UTC(2026, 3, 4, 14, 40),
};

test(`every instant runs once or is recorded as missed under two gateways and ${KILLS} random kills`, async (t) => {
  const days = Object.entries(DAYS);
  const [day, epochMs] = days[Math.floor(Math.random() * days.length)]!;
  await using cron = await createCronPlace({ factor: RANDOM_FACTOR, epochMs, scripts: SCRIPTS });
  // All at once: one after the other they take so long on a busy machine that the first times are past.
  await Promise.all(manyJobs(cron.clock.now()).map((parts) => cron.create(parts)));
  const pair = new Pair(cron);
  await pair.start();
  for (let kills = 0; kills < KILLS; kills++) {
    await cron.clock.sleep(Math.random() * 2 * BETWEEN_KILLS_MS);
    await pair.strike();
  }
  await pair.start();
  const untilMs = cron.clock.now();
  await untilSettled(cron, untilMs);
  await pair.stop();
  const found = await find(cron, untilMs);
  const told = Object.entries(Object.groupBy(found.occurrences, ({ status }) => status));
  t.diagnostic(`${day}; ${told.map(([status, rows = []]) => `${rows.length} ${status}`).join(", ")}`);
  const missed = found.occurrences.reduce((sum, { covers_count: count }) => sum + count - 1, 0);
  const stalls = (await cron.stalls()).length;
  t.diagnostic(`${missed} more instants missed; ${cron.kills.length} processes ended, ${stalls} stalls`);
  t.diagnostic(`${cron.arrivals.length} arrivals of ${new Set(cron.arrivals.map(({ id }) => id)).size}`);
  assert.deepEqual(findProblems(found), []);
});

const mark = (name: string): string => `echo $$ >> ${name}.starts; sleep 0.1; echo ${name} is done`;
const SCRIPTS = { "brew.sh": mark("brewing"), "look.sh": mark("looking") };

/** More than a thousand instants a day: many kinds, some with runs that take longer than their period. */
function manyJobs(nowMs: number): readonly Partial<JobDefinition>[] {
  const every = (minutes: number) => ({ schedule: { kind: "interval", minutes } as const });
  const cron = (expression: string, zone: string) => ({
    schedule: { kind: "cron", expression } as const,
    zone,
  });
  const spanMs = KILLS * BETWEEN_KILLS_MS;
  return [
    { name: "steady", ...every(5), prompt: "takes=100" },
    { name: "jittery", ...every(7), jitterSeconds: 90, prompt: "takes=50" },
    { name: "slow", ...every(4), prompt: "takes=2500" },
    { name: "crowded", ...every(3), prompt: "takes=2500", overlap: "allow" },
    { name: "strict", ...every(3), catchUp: false, misfireGraceSeconds: 30 },
    { name: "silent", ...every(6), prompt: "says=[SILENT]" },
    { name: "local", ...every(6), deliver: "local" },
    { name: "failing", ...every(9), prompt: "says=failure" },
    { name: "unreachable", ...every(20), prompt: "says=nothing" },
    { name: "brewing", ...every(4), script: "brew.sh", isScriptOnly: true, prompt: "" },
    { name: "looking", ...every(5), script: "look.sh" },
    { name: "New York", ...cron("*/15 * * * *", "America/New_York"), prompt: "takes=100" },
    { name: "Berlin", ...cron("10,40 * * * *", "Europe/Berlin") },
    { name: "Lord Howe", ...cron("*/20 * * * *", "Australia/Lord_Howe") },
    { name: "daily", ...cron("30 1,2 * * *", "Europe/Berlin") },
    ...[3, 5, 8].map((repeat) => ({ name: `${repeat} times`, ...every(2), repeat, prompt: "takes=300" })),
    ...Array.from({ length: Math.min(40, KILLS * 4) }, (_, index) => ({
      name: `once ${index}`,
      schedule: { kind: "once", atMs: nowMs + 300_000 + Math.floor(Math.random() * spanMs) } as const,
      prompt: "takes=200",
    })),
  ];
}

/** Two gateways, each on this machine or on one of its own, that are killed and started again. */
class Pair {
  readonly #cron: CronContext;
  #children: readonly Starting[] = [];
  #count = 0;

  constructor(cron: CronContext) {
    this.#cron = cron;
  }

  /** Those that are missing. Resolves once both look after the jobs. */
  async start(): Promise<void> {
    this.#begin();
    for (const { started } of this.#children) await started;
  }

  /** One or both die, most without warning, at times in their start; at times nobody is there for a while. */
  async strike(): Promise<void> {
    const signal = Math.random() < 0.8 ? "SIGKILL" : "SIGTERM";
    const count = Math.random() < 0.8 ? 1 : 2;
    const victims = this.#children.slice(0, count);
    this.#children = this.#children.slice(count);
    await Promise.all(victims.map(({ child }) => child.kill(signal)));
    if (Math.random() < 0.2) await this.#cron.clock.sleep(Math.random() * BETWEEN_KILLS_MS);
    if (Math.random() < 0.6) await this.start();
    else this.#begin();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(({ child }) => child.kill("SIGTERM")));
    this.#children = [];
  }

  #begin(): void {
    const missing = Array.from({ length: 2 - this.#children.length }, () => {
      const child = this.#cron.spawn(Math.random() < 0.5 ? {} : { host: `pod-${(this.#count += 1)}` });
      // One that is killed before it has started never says so.
      return { child, started: child.says("started").catch(() => {}) };
    });
    this.#children = [...this.#children, ...missing];
  }
}

interface Starting {
  readonly child: RunningChild;
  readonly started: Promise<void>;
}

/** Until what was due before is claimed, has ended and been sent, and every job looks ahead. */
async function untilSettled({ store, clock }: CronContext, untilMs: number): Promise<void> {
  const { read } = store;
  const open = read.selectFrom("occurrences").select("id").where("ended_at", "is", null);
  const behind = read.selectFrom("cron_jobs").select("name").where("state", "=", "scheduled");
  // Only what is claimed can be open: gateways that have only just started have claimed nothing.
  await until(
    async () => (await behind.where("next_run_at", "<", untilMs).execute()).length === 0,
    () => "a job does not look ahead",
  );
  await until(
    async () => (await open.where("scheduled_at", "<", untilMs).execute()).length === 0,
    () => "an occurrence stays open",
  );
  const endMs = clock.now();
  const columns = [
    "id",
    "target",
    "status",
    "attempts",
    "available_at",
    "last_error",
    "attempt_log",
  ] as const;
  const owed = read.selectFrom("outbox").select(columns).where("status", "in", ["due", "leased"]);
  const unsent = () => owed.where("created_at", "<=", endMs).execute();
  // A target gets its messages one after the other, so a busy machine may need long for all, but not for one.
  for (let left = await unsent(), before = left.length; before > 0; before = left.length) {
    await until(
      async () => (left = await unsent()).length < before,
      () => `at ${clock.now()} messages are not sent: ${JSON.stringify(left)}`,
    );
  }
  await until(
    async () => (await behind.where("next_run_at", "<", endMs).execute()).length === 0,
    () => "a job does not look ahead",
  );
}
