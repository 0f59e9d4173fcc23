import { isOwnersAddress, resolveAddresses, type Homes } from "../../deliver/address.ts";
import { parseTarget } from "../../deliver/target.ts";
import type { OccurrenceRow } from "../../store/schema/tables.ts";
import type { Job, JobDefinition } from "../job/job.ts";
import type { Cause, Timing } from "../tick/occurrence.ts";
import { formatSchedule } from "../schedule/schedule.ts";
import type { CronSettings } from "../settings.ts";

/**
 * Where what comes of an occurrence goes, and how it is written: worked out when it fires and kept with its run, so that
 * it holds whatever becomes of the job meanwhile. Kept as JSON in the run's column `delivery`.
 */
export interface DeliveryPlan {
  /** Id of the occurrence, `occ_...`. */
  readonly ref: string;
  readonly jobId: string;
  readonly jobName: string;
  /** As `list` shows it. */
  readonly schedule: string;
  /** True: there is no next time. */
  readonly isOnce: boolean;
  readonly zone: string;
  /** The instant that it is for, and when it was claimed. */
  readonly scheduledAtMs: number;
  readonly atMs: number;
  readonly cause: Cause;
  readonly timing: Timing;
  /** Whole addresses; empty: the folder of outputs is all. */
  readonly targets: readonly string[];
  /** Of failures. */
  readonly failureTargets: readonly string[];
  /** Those of them that get the reason: home channels, and what was named for failures alone. Others may be read by anybody. */
  readonly informedTargets: readonly string[];
  readonly wraps: boolean;
  readonly silentMatch: CronSettings["silentMatch"];
  readonly outputFile: string;
  /** What was asked, for the output. */
  readonly prompt: string;
}

/** What people are told with: the home channels of the platforms, and the manner. */
export interface Telling {
  readonly homes: Homes;
  readonly settings: Pick<CronSettings, "wrapResponse" | "silentMatch">;
}

type Planned = Pick<OccurrenceRow, "id" | "scheduled_at" | "claimed_at" | "cause" | "timing" | "output_file">;

/** Of an occurrence of a job as it is now. */
export function planOccurrence(
  { occurrence, job }: { readonly occurrence: Planned; readonly job: Pick<Job, "id" | "definition"> },
  { homes, settings }: Telling,
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

/** Every output is kept as a file whatever is asked. */
const LOCAL = "local";

/** Whole addresses, each place once. */
function addressesOf(text: string, { origin }: JobDefinition, homes: Homes): readonly string[] {
  const resolved = resolveAddresses(text, { homes, origin: origin ?? firstHome(homes) });
  const completed = resolved.map((address) => inChatOf(origin, address));
  // Once more, since two of them may be one place by now.
  return resolveAddresses(completed.join(","), { homes }).filter((address) => address !== LOCAL);
}

/** A platform without a home channel is the chat in which the job was made, when that is one of the platform's. */
function inChatOf(origin: string | undefined, address: string): string {
  const isBare = !address.includes(":");
  return origin !== undefined && isBare && parseTarget(origin).platform === address ? origin : address;
}

function firstHome(homes: Homes): string | undefined {
  const [first] = homes;
  return first && `${first[0]}:${first[1]}`;
}

/** Undefined: it is the record of another trigger. */
export function readPlan(delivery: string | null): DeliveryPlan | undefined {
  if (delivery === null || !isPlan(delivery)) return undefined;
  return JSON.parse(delivery) as DeliveryPlan;
}

/** Only plans begin like this; a run's end is no place to parse what is another's. */
export function isPlan(delivery: string): boolean {
  return delivery.startsWith('{"ref":"occ_');
}
