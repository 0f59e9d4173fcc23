/** What must hold of every instant of every job, whatever was killed when: worked out from rows, files and arrivals alone. */
import { Cron } from "croner";
import { toJob, type Job } from "../../src/cron/job/job.ts";
import type { OccurrenceRow, OutboxRow, RunRow } from "../../src/store/schema/tables.ts";
import type { CronContext, Span } from "./cron-place.ts";

const MINUTE_MS = 60_000;
const BEGUN = ["ok", "failed", "unknown"];

/** Everything there is, once no process changes it any more. */
export interface Findings {
  readonly jobs: readonly Job[];
  readonly occurrences: readonly OccurrenceRow[];
  readonly messages: readonly OutboxRow[];
  readonly runs: readonly Pick<RunRow, "id" | "reply_to">[];
  /** Runs whose turns began, each as often as one did. */
  readonly turns: readonly string[];
  readonly arrivals: CronContext["arrivals"];
  /** By job: names of the kept outputs. */
  readonly outputs: ReadonlyMap<string, readonly string[]>;
  /** By job: how often its script began. */
  readonly scripts: ReadonlyMap<string, number>;
  /** Compressed: when processes died, or stood still for so long that they may have lost their leases. */
  readonly cuts: readonly Span[];
  /** What was due before is settled; what came later may be open. */
  readonly settledMs: number;
}

export async function find(place: CronContext, settledMs: number): Promise<Findings> {
  const { read } = place.store;
  const rows = await read.selectFrom("cron_jobs").selectAll().execute();
  const jobs = rows.map((row) => toJob(row)!);
  const outputs = jobs.map(async ({ id }) => [id, await place.outputs(id)] as const);
  const scripts = jobs.map(async ({ id, definition }) => {
    const starts = await place.lines(`scripts/${definition.name}.starts`);
    return [id, starts.length] as const;
  });
  const stalls = await place.stalls();
  return {
    jobs,
    occurrences: await read.selectFrom("occurrences").selectAll().orderBy("scheduled_at").execute(),
    messages: await read.selectFrom("outbox").selectAll().execute(),
    runs: await read.selectFrom("runs").select(["id", "reply_to"]).execute(),
    turns: (await place.lines("turns.jsonl")).map((line) => (JSON.parse(line) as { runId: string }).runId),
    arrivals: place.arrivals,
    outputs: new Map(await Promise.all(outputs)),
    scripts: new Map(await Promise.all(scripts)),
    cuts: [...place.kills, ...stalls].map(({ fromMs, untilMs }) => ({
      fromMs: place.clock.at(fromMs),
      untilMs: place.clock.at(untilMs),
    })),
    settledMs,
  };
}

/** A line for each thing that is wrong; empty when every instant was run once or said to be missed. */
export function findProblems(found: Findings): readonly string[] {
  return [
    ...found.jobs.flatMap((job) => [
      ...instantFlaws(job, found),
      ...repeatFlaws(job, found),
      ...outputFlaws(job, found),
      ...scriptFlaws(job, found),
    ]),
    ...found.occurrences.flatMap((row) => [...endFlaws(row, found), ...deliveryProblems(row, found)]),
    ...runFlaws(found),
    ...arrivalFlaws(found),
  ];
}

const ofJob = ({ id }: Job, { occurrences }: Findings) => occurrences.filter((row) => row.job_id === id);
const ofSchedule = (row: OccurrenceRow) => row.cause === "schedule";
const named = (row: OccurrenceRow) =>
  `${row.job_name} ${new Date(row.scheduled_at).toISOString()} (${row.cause}, ${row.status}, ${row.id})`;

/** Each instant up to the next one stands in one row, and no row stands for anything else. */
function instantFlaws(job: Job, found: Findings): readonly string[] {
  const rows = ofJob(job, found).filter(ofSchedule);
  const untilMs = Math.max(...rows.map(({ scheduled_at: at, covers_until: until }) => until ?? at), 0) + 1;
  const all = instantsOf(job, Math.max(untilMs, job.nextRunAtMs ?? 0));
  const covered = rows.flatMap((row) => {
    const { scheduled_at: from, covers_until: until, status } = row;
    return status === "missed" ? all.filter((at) => at >= from && at <= (until ?? from)) : [from];
  });
  const counts = rows.filter(
    ({ scheduled_at: from, covers_until: until, covers_count: count, status }) =>
      count !== (status === "missed" ? all.filter((at) => at >= from && at <= (until ?? from)).length : 1),
  );
  const { name } = job.definition;
  const at = (ms: number) => `${name} ${new Date(ms).toISOString()}`;
  return [
    ...all.filter((ms) => !covered.includes(ms)).map((ms) => `${at(ms)} was left out`),
    ...covered.filter((ms, index) => covered.indexOf(ms) !== index).map((ms) => `${at(ms)} is there twice`),
    ...covered.filter((ms) => !all.includes(ms)).map((ms) => `${at(ms)} was never due`),
    ...counts.map((row) => `${named(row)} says that it stands for ${row.covers_count}`),
  ];
}

/** The instants of a job before `untilMs`, by arithmetic, or by croner's own walk. */
function instantsOf({ definition, createdAtMs }: Job, untilMs: number): readonly number[] {
  const { schedule, zone } = definition;
  if (schedule.kind === "once") return schedule.atMs < untilMs ? [schedule.atMs] : [];
  const all: number[] = [];
  if (schedule.kind === "interval") {
    const stepMs = schedule.minutes * MINUTE_MS;
    for (let at = createdAtMs + stepMs; at < untilMs; at += stepMs) all.push(at);
    return all;
  }
  const days = Math.ceil((untilMs - createdAtMs) / (24 * 60 * MINUTE_MS)) + 1;
  const walk = new Cron(schedule.expression, { timezone: zone, paused: true, sloppyRanges: true });
  const runs = walk.nextRuns(days * 24 * 60, new Date(createdAtMs)).map((date) => date.getTime());
  return runs.filter((at) => at < untilMs);
}

function repeatFlaws(job: Job, found: Findings): readonly string[] {
  const { name, repeat, schedule } = job.definition;
  const rows = ofJob(job, found);
  const begun = rows.filter(
    (row) => ofSchedule(row) && [...BEGUN, "claimed", "running"].includes(row.status),
  );
  if (schedule.kind === "once") {
    // Its run may have been at work when all was stopped.
    const isOpen = rows.some(
      ({ ended_at: endedMs, scheduled_at: at }) => endedMs === null && at >= found.settledMs,
    );
    if (job.state === "scheduled" && (job.nextRunAtMs !== undefined || isOpen)) return [];
    const isMissed = rows.some(({ status }) => status === "missed");
    const isRight = rows.length === 1 && job.state === (isMissed ? "missed" : "completed");
    return isRight ? [] : [`${name} has ${rows.length} occurrences, and is ${job.state}`];
  }
  if (repeat === null) return job.state === "scheduled" ? [] : [`${name} is ${job.state}`];
  const isOver = begun.length === repeat;
  const hasOpen = rows.some((row) => row.ended_at === null);
  if (begun.length > repeat) return [`${name} ran ${begun.length} times of ${repeat}`];
  if (begun.length !== job.repeatDone) return [`${name} counts ${job.repeatDone} runs of ${begun.length}`];
  if (hasOpen) return [];
  return isOver === (job.state === "completed")
    ? []
    : [`${name} is ${job.state} after ${begun.length} of ${repeat}`];
}

function endFlaws(row: OccurrenceRow, { cuts, settledMs, turns, jobs }: Findings): readonly string[] {
  if (row.scheduled_at >= settledMs) return [];
  if (row.ended_at === null) return [`${named(row)} is open`];
  const job = jobs.find(({ id }) => id === row.job_id);
  const isAgent = job?.definition.isScriptOnly === false;
  const wasCut = cuts.some(({ fromMs, untilMs }) => fromMs <= row.ended_at! && untilMs >= row.claimed_at);
  const count = turns.filter((id) => id === row.run_id).length;
  const mayFail = /^(failing|unreachable)$/.test(row.job_name);
  // Its script had ended, and its agent was not asked any more.
  const isBehindScript = row.job_name === "looking" && wasCut && /shut down/.test(row.reason ?? "");
  return [
    ...(row.status === "unknown" && !wasCut ? [`${named(row)}, but nothing was killed`] : []),
    ...(row.status === "failed" && !mayFail && !isBehindScript ? [`${named(row)}: ${row.reason}`] : []),
    ...(row.status === "ok" && mayFail ? [`${named(row)}, but its model fails`] : []),
    ...(row.status === "ok" && isAgent && count !== 1 ? [`${named(row)} had ${count} turns`] : []),
  ];
}

/** Each occurrence has one run at most, and each run one turn. */
function runFlaws({ runs, turns, occurrences }: Findings): readonly string[] {
  const refs = runs.map(({ reply_to: replyTo }) => (JSON.parse(replyTo ?? "{}") as { ref?: string }).ref);
  const known = new Set(occurrences.map(({ run_id: id }) => id));
  return [
    ...refs.filter((ref, index) => refs.indexOf(ref) !== index).map((ref) => `${ref} has two runs`),
    ...turns.filter((id, index) => turns.indexOf(id) !== index).map((id) => `${id} began twice`),
    ...turns.filter((id) => !known.has(id)).map((id) => `${id} belongs to no occurrence`),
  ];
}

function scriptFlaws(job: Job, found: Findings): readonly string[] {
  if (job.definition.script === undefined) return [];
  const rows = ofJob(job, found).filter(({ scheduled_at: at }) => at < found.settledMs);
  const later = ofJob(job, found).length - rows.length;
  const ended = rows.filter(({ status }) => status === "ok" || status === "failed").length;
  const unknown = rows.filter(({ status }) => status === "unknown").length;
  const starts = found.scripts.get(job.id) ?? 0;
  const isRight = starts >= ended && starts <= ended + unknown + later;
  return isRight
    ? []
    : [`the script of ${job.definition.name} began ${starts} times, of ${ended} and ${unknown} unknown`];
}

/** What has begun has one file of its own, and there are no others. */
function outputFlaws(job: Job, found: Findings): readonly string[] {
  const rows = ofJob(job, found).filter(({ status }) => BEGUN.includes(status));
  const kept = found.outputs.get(job.id) ?? [];
  const names = rows.map((row) => row.output_file ?? named(row));
  const settled = rows.filter((row) => row.scheduled_at < found.settledMs);
  const { name } = job.definition;
  return [
    ...settled
      .filter((row) => !kept.includes(row.output_file ?? ""))
      .map((row) => `${named(row)} is not kept as ${row.output_file}`),
    ...names.filter((file, index) => names.indexOf(file) !== index).map((file) => `${name}: two are ${file}`),
    ...kept
      .filter((file) => !names.includes(file) && !ofJob(job, found).some((row) => row.output_file === file))
      .map((file) => `${name}: ${file} is of nothing`),
  ];
}

/** What is to be told was owed once to each target, and came. */
function deliveryProblems(row: OccurrenceRow, found: Findings): readonly string[] {
  const job = found.jobs.find(({ id }) => id === row.job_id);
  if (!job || row.scheduled_at >= found.settledMs) return [];
  const owed = found.messages.filter(({ ref, target }) => ref === row.id && target !== "cron_output");
  const isOnce = job.definition.schedule.kind === "once";
  // A failure that is retried is reported when the last retry has failed.
  const isRetried = row.status === "failed" && /It is retried in/.test(row.reason ?? "");
  const isTold = BEGUN.includes(row.status) || (row.status === "missed" && isOnce);
  const isQuiet = row.status === "ok" && row.job_name === "silent";
  const isOwed = isTold && !isQuiet && !isRetried && job.definition.deliver !== "local";
  const count = isOwed ? 1 : 0;
  if (owed.length !== count) return [`${named(row)} was owed to ${owed.length}, not ${count}`];
  const lost = owed.filter(({ status }) => status !== "delivered");
  return [
    ...lost.map(({ id, status, last_error: error }) => `${named(row)}: ${id} is ${status} (${error})`),
    ...(count === 1 && owed.length === 1 && row.delivery_status !== "delivered"
      ? [`${named(row)} says ${row.delivery_status} of its delivery`]
      : []),
  ];
}

/** What came was owed, and came twice only where its sender was lost. */
function arrivalFlaws({ arrivals, messages, cuts }: Findings): readonly string[] {
  const sent = messages.filter(({ target }) => target.startsWith("homeassistant"));
  return [
    ...arrivals.filter(({ id }) => !sent.some((each) => each.id === id)).map(({ id }) => `${id} is not owed`),
    ...sent
      .filter(({ id, status }) => status === "delivered" && !arrivals.some((each) => each.id === id))
      .map(({ id }) => `${id} never came`),
    ...sent.flatMap(({ id, attempts, attempt_log: log }) => {
      const times = arrivals.filter((each) => each.id === id).map(({ atMs }) => atMs);
      const wasCut = (from: number, until: number) =>
        cuts.some(({ fromMs, untilMs }) => untilMs >= from && fromMs <= until);
      return times.slice(1).every((at, index) => wasCut(times[index]!, at))
        ? []
        : [`${id} came at ${times.join()} in ${attempts} attempts, ${log}; cuts ${JSON.stringify(cuts)}`];
    }),
  ];
}
