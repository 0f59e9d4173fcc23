import { resolveAddresses, type Homes } from "../deliver/address.ts";
import type { Job } from "./job.ts";
import { formatSchedule } from "./schedule.ts";
import type { CronSettings } from "./settings.ts";

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
  readonly zone: string;
  readonly atMs: number;
  /** Whole addresses; empty: the folder of outputs is all. */
  readonly targets: readonly string[];
  /** Of failures. */
  readonly failureTargets: readonly string[];
  readonly wraps: boolean;
  readonly silentMatch: CronSettings["silentMatch"];
  readonly outputFile: string;
  /** What was asked, for the output. */
  readonly prompt: string;
}

export function planDelivery(
  { id, definition }: Pick<Job, "id" | "definition">,
  about: {
    readonly ref: string;
    readonly atMs: number;
    readonly outputFile: string;
    readonly homes: Homes;
    readonly settings: Pick<CronSettings, "wrapResponse" | "silentMatch">;
  },
): DeliveryPlan {
  const { ref, atMs, outputFile, homes, settings } = about;
  const { name, zone, schedule, deliver, failureDeliver = deliver, origin, prompt } = definition;
  const around = { homes, origin: origin ?? firstHome(homes) };
  const addresses = (text: string) => resolveAddresses(text, around).filter((address) => address !== LOCAL);
  return {
    ref,
    jobId: id,
    jobName: name,
    schedule: formatSchedule(schedule),
    zone,
    atMs,
    targets: addresses(deliver),
    failureTargets: addresses(failureDeliver),
    wraps: settings.wrapResponse,
    silentMatch: settings.silentMatch,
    outputFile,
    prompt,
  };
}

/** Every output is kept as a file whatever is asked. */
const LOCAL = "local";

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
