/** The checks of message platforms and the outbox. Touches the machine. */
import { stat } from "node:fs/promises";
import type { LoadedConfig } from "../../config/config.ts";
import { isRecord } from "../../base/data.ts";
import { platformKeys } from "../../config/platform-settings.ts";
import { readOutboxStats, type OutboxCounts, type OutboxStats } from "../../deliver/outbox/stats.ts";
import type { CheckResult } from "./finding.ts";
import { statuses, type PlatformStatus } from "../../deliver/platform/status.ts";
import type { CliContext } from "../kit/context.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";

/** A message that waits longer than all retries has no sender. */
const LONG_WAIT_MS = 3_600_000;
const MAX_NAMED = 5;

/** Returns the most severe problem. */
export async function platforms(loaded: LoadedConfig): Promise<CheckResult> {
  const all = await statuses(loaded.config, loaded.env);
  return (await openSecrets(loaded, all)) ?? halfSetUp(all) ?? switchedOff(all) ?? setUp(all);
}

/** Finds secrets in a configuration file that other users can read. `.env` has its own check. */
async function openSecrets(
  { config, path }: LoadedConfig,
  all: readonly PlatformStatus[],
): Promise<CheckResult | undefined> {
  const holders = all.filter(({ name }) => {
    const written = config.platforms[name] as Readonly<Record<string, unknown>>;
    const extra = isRecord(written["extra"]) ? written["extra"] : {};
    return platformKeys(name).some(
      ({ key, isSecret }) => isSecret && [written[key], extra[key]].some(isPlain),
    );
  });
  const found = holders.length === 0 ? undefined : await stat(path).catch(() => undefined);
  if (!found || (found.mode & 0o077) === 0) return undefined;
  const detail = `${path} holds secrets of ${listed(holders.map(({ name }) => name))} and is open to other users`;
  return { status: "fail", detail, fix: `chmod 600 ${path}` };
}

function isPlain(value: unknown): boolean {
  return value !== undefined && !(typeof value === "string" && value.startsWith("env:"));
}

function halfSetUp(all: readonly PlatformStatus[]): CheckResult | undefined {
  const half = all.filter(({ status }) => status === "incomplete");
  const [first] = half;
  if (!first) return undefined;
  const more = half.length > 1 ? ` (and ${half.length - 1} more)` : "";
  return {
    status: "warn",
    detail: `${first.name} is incomplete; missing: ${first.missing.join(" and ")}${more}`,
    fix: `Run \`agentd gateway setup --platform ${first.name}\`, or remove its keys.`,
  };
}

function switchedOff(all: readonly PlatformStatus[]): CheckResult | undefined {
  const off = all.find(({ status, keys }) => status === "off" && keys.length > 0);
  if (!off) return undefined;
  const detail = `${off.name} is disabled, but these keys are set: ${off.keys.join(", ")}`;
  return { status: "warn", detail, fix: `Set platforms.${off.name}.enabled to true, or remove its keys.` };
}

function setUp(all: readonly PlatformStatus[]): CheckResult {
  const ready = all
    .filter(({ status, keys }) => status === "ready" && keys.length > 0)
    .map(({ name }) => name);
  const detail =
    ready.length === 0
      ? "none is set up; run `agentd gateway setup` to add one"
      : `${listed(ready)}; test one with \`agentd platforms test\``;
  return { status: "ok", detail };
}

/** Checks for messages that were given up, are unconfirmed, or wait too long. */
export async function outbox(nowMs: number, context: CliContext): Promise<CheckResult> {
  const database = await findDatabase(context);
  if (!database.exists) return { status: "ok", detail: "the database does not exist yet" };
  const read: OutboxStats[] = [];
  await withDatabase(database, async (store) => void read.push(await readOutboxStats(store)));
  const [stats] = read;
  return stats ? evaluate(stats, nowMs) : { status: "ok", detail: "the database does not exist yet" };
}

function evaluate(stats: OutboxStats, nowMs: number): CheckResult {
  const { all, oldestDueAtMs } = stats;
  const waitedMs = oldestDueAtMs === undefined ? 0 : Math.max(0, nowMs - oldestDueAtMs);
  const problems = [
    ...(all.dead > 0 ? [`${all.dead} given up (${perPlatform(stats, "dead")})`] : []),
    ...(all.unknown > 0 ? [`${all.unknown} may have arrived (${perPlatform(stats, "unknown")})`] : []),
    ...(waitedMs > LONG_WAIT_MS
      ? [`the oldest due message has waited for ${Math.round(waitedMs / 60_000)} minutes`]
      : []),
  ];
  if (problems.length === 0) return { status: "ok", detail: `pending messages: ${all.due + all.sending}` };
  const isStuck = waitedMs > LONG_WAIT_MS ? " Is `agentd gateway` running?" : "";
  const fix = `See \`agentd outbox list\`, and settle them with \`retry\` or \`drop\`.${isStuck}`;
  return { status: "warn", detail: problems.join("; "), fix };
}

function perPlatform({ byPlatform }: OutboxStats, status: keyof OutboxCounts): string {
  return listed(
    [...byPlatform].flatMap(([name, counts]) => (counts[status] > 0 ? [`${name} ${counts[status]}`] : [])),
  );
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
