/** The file of routes that are made while the receiver runs, `<home>/webhook_subscriptions.json`. Touches the machine. */
import { readFile, stat } from "node:fs/promises";
import writeFileAtomic from "write-file-atomic";
import type { WebhookRouteConfig } from "../../generated/config/types.gen.ts";
import { isRecord } from "../base/schema.ts";

/** A route as the file keeps it; what somebody added by hand stays. */
export interface Subscription extends Partial<WebhookRouteConfig> {
  /** ISO 8601, UTC. */
  readonly created_at?: string;
}

export type Subscriptions = Readonly<Record<string, Subscription>>;

export type ReadSubscriptions =
  | { readonly subscriptions: Subscriptions }
  /** What is wrong with the file, for people. */
  | { readonly flaw: string };

/** In the home. */
export const SUBSCRIPTIONS_FILE = "webhook_subscriptions.json";
/** Only the owner may read it: it holds secrets. */
const MODE = 0o600;
const MAX_BYTES = 10_485_760;

/** No file is no subscriptions. */
export async function readSubscriptions(file: string): Promise<ReadSubscriptions> {
  const text = await textOf(file);
  if (text === undefined) return { subscriptions: {} };
  if (text.length > MAX_BYTES) return { flaw: `it has more than ${MAX_BYTES} bytes` };
  try {
    const value = JSON.parse(text.replace(/^\uFEFF/, "")) as unknown;
    if (!isRecord(value)) return { flaw: "it holds no JSON object" };
    const entries = Object.entries(value).filter(([, each]) => isRecord(each));
    return { subscriptions: Object.fromEntries(entries) as Subscriptions };
  } catch {
    return { flaw: "it is no JSON" };
  }
}

/** Writes all of it in one step, for the owner alone. */
export async function writeSubscriptions(file: string, subscriptions: Subscriptions): Promise<void> {
  await writeFileAtomic(file, `${JSON.stringify(subscriptions, null, 2)}\n`, { mode: MODE });
}

/** Tells one state of the file from another, also two within one tick of its clock; undefined: there is none. */
export async function stampOf(file: string): Promise<string | undefined> {
  try {
    const { mtimeNs, size, ino } = await stat(file, { bigint: true });
    return `${mtimeNs}:${size}:${ino}`;
  } catch {
    return undefined;
  }
}

async function textOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if ((error as { readonly code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}
