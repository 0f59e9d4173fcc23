/** API keys as the HTTP API and the command line show them. Pure. */
import { toUsd } from "./money.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import { configuredKeyId, keyStatus, type KeyStatus } from "./keys.ts";

/** ApiKey of the HTTP API. Times are Unix seconds. */
export interface KeyEntry<Scope extends string = string> {
  readonly object: "agent.key";
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scopes: Scope[];
  readonly source: "config" | "api";
  readonly status: KeyStatus;
  readonly key: string | null;
  readonly redacted_value: string | null;
  readonly rate_limit_rpm: number | null;
  readonly max_concurrent_runs: number | null;
  readonly day_budget_usd: number | null;
  readonly created_by: string | null;
  readonly created_at: number | null;
  readonly expires_at: number | null;
  readonly last_used_at: number | null;
  readonly revoked_at: number | null;
  readonly previous_expires_at: number | null;
}

/** Returns a created key without its value. */
export function keyEntry<Scope extends string>(row: ApiKeyRow, nowMs: number): KeyEntry<Scope> {
  const previous = row.previous_until !== null && row.previous_until > nowMs ? row.previous_until : null;
  return {
    object: "agent.key",
    id: row.id,
    name: row.name,
    owner: row.owner,
    scopes: JSON.parse(row.scopes) as Scope[],
    source: "api",
    status: keyStatus(row, nowMs),
    key: null,
    redacted_value: `agk_...${row.hint}`,
    rate_limit_rpm: row.rate_limit_rpm,
    max_concurrent_runs: row.max_concurrent_runs,
    day_budget_usd: toUsd(row.day_budget_nano),
    created_by: row.created_by,
    created_at: row.created_at / 1000,
    expires_at: toSeconds(row.expires_at),
    last_used_at: toSeconds(row.last_used_at),
    revoked_at: toSeconds(row.revoked_at),
    previous_expires_at: toSeconds(previous),
  };
}

/** Returns a key of the configuration. */
export function configuredKeyEntry<Scope extends string>(key: {
  readonly name: string;
  readonly owner?: string;
  readonly scopes: readonly string[];
  readonly rateLimitRpm?: number;
  readonly maxConcurrentRuns?: number;
  readonly dayBudgetUsd?: number;
}): KeyEntry<Scope> {
  return {
    object: "agent.key",
    id: configuredKeyId(key.name),
    name: key.name,
    owner: key.owner ?? key.name,
    scopes: [...key.scopes] as Scope[],
    source: "config",
    status: "active",
    key: null,
    redacted_value: null,
    rate_limit_rpm: key.rateLimitRpm ?? null,
    max_concurrent_runs: key.maxConcurrentRuns ?? null,
    day_budget_usd: key.dayBudgetUsd ?? null,
    created_by: null,
    created_at: null,
    expires_at: null,
    last_used_at: null,
    revoked_at: null,
    previous_expires_at: null,
  };
}

const toSeconds = (ms: number | null): number | null => (ms === null ? null : ms / 1000);
