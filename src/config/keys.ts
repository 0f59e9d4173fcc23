/** API keys and one-time tickets. Touches the machine (random numbers, hashes). */
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Config } from "../../generated/config/types.gen.ts";
import { LruMap } from "../base/data.ts";
import { ServiceError } from "../base/errors.ts";
import type { Clock } from "../base/time.ts";
import { MIN_KEY_LENGTH, NO_AUTH } from "./check.ts";
import type { LoadedConfig } from "./config.ts";
import { ensureEnvVariable, type Environment, envPath, resolveSecret } from "./home.ts";

/** A permission of a key. */
type KeyScope = Config["api_server"]["keys"][number]["scopes"][number];

interface KeyIdentity {
  readonly name: string;
  /** Whose data the key reaches. */
  readonly owner: string;
  readonly scopes: readonly KeyScope[];
  /** Requests a minute; undefined: no limit. */
  readonly rateLimitRpm?: number;
  /** Concurrent runs of the name; undefined: no limit of its own. */
  readonly maxConcurrentRuns?: number;
  /** US dollars that runs of the name may cost on a day; undefined: no limit of its own. */
  readonly dayBudgetUsd?: number;
}

/** The accepted keys. */
export interface KeyRing {
  /** Finds the presented key, in constant time. */
  find(presented: string): KeyIdentity | undefined;
  /** The identities of all keys. */
  readonly holders: readonly KeyIdentity[];
  /** Returns the SHA-256 of a key's value, in hex. */
  digestOf(name: string): string | undefined;
  /** False: no key is required, on a loopback address only. */
  readonly required: boolean;
}

/** Name of the owner behind `api_server.key`. */
const MAIN_KEY_NAME = "default";
const KEY_BYTES = 32;
const KEY_VARIABLE = "API_SERVER_KEY";

/**
 * Returns the key ring of a valid configuration that has a key (see {@link ensureApiKey}). ServiceError
 * `invalid_config` for keys under 16 characters, for a key given twice, and for INSECURE_NO_AUTH on an address that
 * others, or any web page, can reach.
 */
export function createKeyRing(config: Config, { env }: { readonly env: Environment }): KeyRing {
  const { host, key, keys, cors_origins: origins } = config.api_server;
  const main = key === undefined ? undefined : resolveSecret(key, env, "api_server.key");
  if (main === NO_AUTH) return openRing(host, origins);
  const entries = keys.map((each, index) => toEntry(each, env, `api_server.keys[${index}]`));
  if (main !== undefined)
    entries.unshift(
      entry(main, { name: MAIN_KEY_NAME, owner: MAIN_KEY_NAME, scopes: ["admin"] }, "api_server.key"),
    );
  if (entries.length === 0) throw invalid("api_server.key", "No API key is configured. Set api_server.key.");
  refuseTwins(entries);
  return {
    required: true,
    find: (presented) => findEntry(entries, presented)?.identity,
    holders: entries.map(({ identity }) => identity),
    digestOf: (name) => {
      const found = entries.find(({ identity }) => identity.name === name);
      return found && Buffer.from(found.digest).toString("hex");
    },
  };
}

/**
 * Returns the configuration with a key. Without a configured one it creates 32 random bytes as base64url, as
 * API_SERVER_KEY in `<home>/.env` (mode 0600). Services that start together get the same key. `created`: this call
 * created it; `path`: its file.
 */
export async function ensureApiKey(
  loaded: Pick<LoadedConfig, "config" | "home">,
): Promise<{ readonly config: Config; readonly created: boolean; readonly path: string }> {
  const { config, home } = loaded;
  const path = envPath(home);
  const { key, keys } = config.api_server;
  if (key !== undefined || keys.length > 0) return { config, created: false, path };
  const { value, created } = await ensureEnvVariable(path, KEY_VARIABLE, () =>
    randomBytes(KEY_BYTES).toString("base64url"),
  );
  const server = Object.freeze({ ...config.api_server, key: value });
  return { config: Object.freeze({ ...config, api_server: server }), created, path };
}

/** Returns whether only this machine can reach `host`. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[?::1\]?)$/i.test(host);
}

interface Entry {
  readonly digest: Uint8Array;
  readonly identity: KeyIdentity;
  readonly path: string;
}

function openRing(host: string, origins: readonly string[]): KeyRing {
  if (isLoopback(host) && !origins.includes("*"))
    return { required: false, find: () => undefined, holders: [], digestOf: () => undefined };
  if (isLoopback(host)) {
    const what = `${NO_AUTH} would let any web page run commands here. Name the origins instead of "*".`;
    throw invalid("api_server.cors_origins", what);
  }
  throw invalid(
    "api_server.key",
    `${NO_AUTH} would let anyone who reaches ${host} run commands here. Set a real api_server.key, or api_server.host to 127.0.0.1.`,
  );
}

function toEntry(from: Config["api_server"]["keys"][number], env: Environment, path: string): Entry {
  const { rate_limit_rpm: rateLimitRpm, max_concurrent_runs: maxConcurrentRuns } = from;
  const { day_budget_usd: dayBudgetUsd } = from;
  const identity: KeyIdentity = {
    name: from.name,
    owner: from.owner ?? from.name,
    scopes: from.scopes,
    ...(rateLimitRpm === undefined ? {} : { rateLimitRpm }),
    ...(maxConcurrentRuns === undefined ? {} : { maxConcurrentRuns }),
    ...(dayBudgetUsd === undefined ? {} : { dayBudgetUsd }),
  };
  if (from.key_sha256 !== undefined && from.key === undefined) {
    return { digest: Buffer.from(from.key_sha256, "hex"), identity, path };
  }
  if (from.key === undefined) throw invalid(path, `${path} must have either key or key_sha256.`);
  return entry(resolveSecret(from.key, env, `${path}.key`), identity, `${path}.key`);
}

function entry(key: string, identity: KeyIdentity, path: string): Entry {
  if (key.length < MIN_KEY_LENGTH || key === NO_AUTH) {
    throw invalid(path, `${path} must be a key of at least ${MIN_KEY_LENGTH} characters.`);
  }
  return { digest: sha256(key), identity: Object.freeze({ ...identity }), path };
}

/** Compares all keys, as digests of one length: the time reveals neither which key matches nor how much of it. */
function findEntry(entries: readonly Entry[], presented: string): Entry | undefined {
  const digest = sha256(presented);
  return entries.reduce<Entry | undefined>(
    (found, each) => (timingSafeEqual(each.digest, digest) ? each : found),
    undefined,
  );
}

function refuseTwins(entries: readonly Entry[]): void {
  const seen = new Map<string, string>();
  for (const { digest, path } of entries) {
    const hex = Buffer.from(digest).toString("hex");
    const other = seen.get(hex);
    if (other !== undefined) throw invalid(path, `${path} is the same key as ${other}. Make a key for each.`);
    seen.set(hex, path);
  }
}

function sha256(text: string): Uint8Array {
  return hash("sha256", text, "buffer");
}

function invalid(path: string, message: string): ServiceError {
  return new ServiceError("invalid_config", message, { param: path });
}

// Tickets, for browsers, which cannot send a header everywhere

const LIFE_MS = 30_000;
const MAX_OPEN = 1_024;

/** Kept in memory: a ticket is valid in the process that created it. `T` is the value behind a ticket. */
export class Tickets<T> {
  readonly #clock: Clock;
  readonly #open = new LruMap<string, { readonly holder: T; readonly untilMs: number }>(MAX_OPEN);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Creates a ticket: 32 random bytes as base64url, valid once and for 30 s. Beyond the limit the oldest is dropped.
   */
  make(holder: T): { readonly ticket: string; readonly lifeMs: number } {
    const ticket = randomBytes(32).toString("base64url");
    this.#open.set(ticket, { holder, untilMs: this.#clock.now() + LIFE_MS });
    return { ticket, lifeMs: LIFE_MS };
  }

  /** Redeems a ticket; undefined when it does not exist, was used, or has expired. */
  take(ticket: string): T | undefined {
    const found = this.#open.get(ticket);
    this.#open.delete(ticket);
    return found && found.untilMs > this.#clock.now() ? found.holder : undefined;
  }
}
