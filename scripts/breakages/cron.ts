import type { Breakage } from "./breakage.ts";

export const cronBreakages: readonly Breakage[] = [
  {
    name: "cron-instant-once",
    guarantee: "An instant of a schedule that is on record does not run again",
    file: "cron/claim.ts",
    from: `  return taken === undefined;
}`,
    to: `  return taken !== null;
}`,
    tests: ["unit/cron/claim.test.ts"],
  },
  {
    name: "cron-moves-on-first",
    guarantee: "A job moves on to its next instant in the transaction that claims the last one",
    file: "cron/claim.ts",
    from: "next_run_at: after.nextRunAtMs ?? null,",
    to: "next_run_at: row.next_run_at,",
    tests: ["unit/cron/claim.test.ts"],
  },
  {
    name: "cron-reclaim-once",
    guarantee: "An occurrence whose process is gone is taken over by one process only",
    file: "cron/take-over.ts",
    from: "return { id, lease_owner, lease_until, run_id: null, ended_at: null };",
    to: "return { id };",
    tests: ["unit/cron/take-over.test.ts"],
  },
  {
    name: "cron-reclaim-from-the-dead-only",
    guarantee: "An occurrence of a living process is not taken over",
    file: "cron/take-over.ts",
    from: "const isDead = row.lease_owner === null || store.ownerIsDead(row.lease_owner);",
    to: "const isDead = true;",
    tests: ["unit/cron/take-over.test.ts"],
  },
  {
    name: "cron-misfire",
    guarantee: "A run that is later than its grace period is missed, not run",
    file: "cron/due.ts",
    from: "const isInTime = lateMs <= graceMs(definition, lastMs, nextMs);",
    to: "const isInTime = lateMs <= Number.MAX_SAFE_INTEGER;",
    tests: ["unit/cron/due.test.ts"],
  },
  {
    name: "cron-overlap",
    guarantee: "With overlap skip a job does not start while its last run is at work",
    file: "cron/due.ts",
    from: `definition.overlap === "skip"`,
    to: `definition.overlap !== undefined && false`,
    tests: ["unit/cron/due.test.ts"],
  },
  {
    name: "cron-dst-gap",
    guarantee: "A time that clocks skip when they go forward runs once, at the end of the gap",
    file: "cron/instants.ts",
    from: "const nextMs = pattern.cron.nextRun(new Date(baseMs))?.getTime();",
    to: `const first = pattern.cron.nextRun(new Date(baseMs));
  const nextMs = (first && !pattern.cron.match(first) ? pattern.cron.nextRun(first) : first)?.getTime();`,
    tests: ["unit/cron/schedule.test.ts"],
  },
  {
    name: "cron-zone",
    guarantee: "A cron expression is read in the zone of its job",
    file: "cron/instants.ts",
    from: `timezone: zone, mode: "5-part"`,
    to: `timezone: "UTC", mode: "5-part"`,
    tests: ["unit/cron/schedule.test.ts"],
  },
  {
    name: "cron-paused",
    guarantee: "A paused job does not run by its schedule",
    file: "cron/due.ts",
    from: `if (isOver(job.state) || job.state === "paused") return { after: now };`,
    to: "if (isOver(job.state)) return { after: now };",
    tests: ["unit/cron/due.test.ts"],
  },
];
