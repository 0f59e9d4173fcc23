import { isOwnersAddress, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { Job, JobDefinition } from "../job/job.ts";
import type { Cause, Timing } from "../tick/occurrence.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import type { CronSettings } from "../settings.ts";

/**
 * Where the result of an occurrence goes, and how it is written. It is fixed when the occurrence fires, so that later
 * changes of the job do not matter, and kept as JSON in the run's column `delivery`.
 */
export interface DeliveryPlan {
  /** Id of the occurrence, `occ_...`. First: {@link isPlan} depends on it. */
  readonly ref: string;
  readonly jobId: string;
  readonly jobName: string;
  /** As `list` shows it. */
  readonly schedule: string;
  /** True: the schedule has one instant. */
  readonly isOnce: boolean;
  readonly zone: string;
  /** The instant of the occurrence, and the time of its claim. */
  readonly scheduledAtMs: number;
  readonly atMs: number;
  readonly cause: Cause;
  readonly timing: Timing;
  /** Complete addresses; empty: only the output file is written. */
  readonly targets: readonly string[];
  /** Targets of failures. */
  readonly failureTargets: readonly string[];
  /** Failure targets that get the reason: home channels, and targets for failures only. Anyone may read the others. */
  readonly informedTargets: readonly string[];
  readonly wraps: boolean;
  readonly silentMatch: CronSettings["silentMatch"];
  readonly outputFile: string;
  /** The prompt of the job, for the output file. */
  readonly prompt: string;
}

export interface PlanOptions {
  /** Home channels of the platforms. */
  readonly homes: Homes;
  readonly settings: Pick<CronSettings, "wrapResponse" | "silentMatch">;
}

type PlannedOccurrence = Pick<
  OccurrenceRow,
  "id" | "scheduled_at" | "claimed_at" | "cause" | "timing" | "output_file"
>;

/** Returns the plan of an occurrence for its job as it is now. */
export function planOccurrence(
  {
    occurrence,
    job,
  }: { readonly occurrence: PlannedOccurrence; readonly job: Pick<Job, "id" | "definition"> },
  { homes, settings }: PlanOptions,
): DeliveryPlan {
  const { id: ref, scheduled_at: scheduledAtMs, claimed_at: atMs, output_file: outputFile } = occurrence;
  const { name, zone, schedule, deliver, failureDeliver, prompt } = job.definition;
  const failureTargets = addressesOf(failureDeliver ?? deliver, job.definition, homes);
  return {
    ref,
    jobId: job.id,
    jobName: name,
    schedule: formatSchedule(schedule),
    isOnce: schedule.kind === "once",
    zone,
    scheduledAtMs,
    atMs,
    cause: occurrence.cause as Cause,
    timing: occurrence.timing as Timing,
    targets: addressesOf(deliver, job.definition, homes),
    failureTargets,
    informedTargets:
      failureDeliver === undefined
        ? failureTargets.filter((address) => isOwnersAddress(address, homes))
        : failureTargets,
    wraps: settings.wrapResponse,
    silentMatch: settings.silentMatch,
    outputFile: outputFile ?? `${ref}.md`,
    prompt,
  };
}

/** The output file is written in any case. */
const LOCAL = "local";

/** Returns complete addresses without duplicates. */
function addressesOf(text: string, { origin }: JobDefinition, homes: Homes): readonly string[] {
  const resolved = resolveAddresses(text, { homes, origin: origin ?? firstHome(homes) });
  const completed = resolved.map((address) => inChatOf(origin, address));
  // Two of them may have become the same address.
  return resolveAddresses(completed.join(","), { homes }).filter((address) => address !== LOCAL);
}

/** Replaces a platform without a home channel by the chat in which the job was created, when that is on the platform. */
function inChatOf(origin: string | undefined, address: string): string {
  const isBare = !address.includes(":");
  return origin !== undefined && isBare && parseTarget(origin).platform === address ? origin : address;
}

function firstHome(homes: Homes): string | undefined {
  const [first] = homes;
  return first && `${first[0]}:${first[1]}`;
}

/** Undefined: the run belongs to another trigger. */
export function readPlan(delivery: string | null): DeliveryPlan | undefined {
  if (delivery === null || !isPlan(delivery)) return undefined;
  return JSON.parse(delivery) as DeliveryPlan;
}

/** Recognizes a plan by its first characters: it must not parse the records of other triggers. */
export function isPlan(delivery: string): boolean {
  return delivery.startsWith('{"ref":"occ_');
}
