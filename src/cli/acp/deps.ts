/** The agent behind `agentd acp`, with trace, keepalive and log file. Loads after the response to `initialize`. */
import { isDeepStrictEqual } from "node:util";
import { type AcpDeps, acpSettings, type AcpSettings } from "../../acp/deps.ts";
import { systemClock } from "../../base/time.ts";
import { startRpcFromHome } from "../../app/start.ts";
import { loadConfig } from "../../config/config.ts";
import { resolveWithin } from "../../config/home.ts";
import { openHome, openHomeStore, type Home } from "../../app/home.ts";
import { currentContext } from "../kit/context.ts";
import { keepHeapSmall } from "../kit/runtime.ts";
import type { AcpConnection } from "../../acp/wire/connection.ts";
import { Keepalive } from "../../acp/wire/keepalive.ts";
import { toTraceEntry } from "../../acp/wire/trace.ts";
import type { WireWatcher } from "../../acp/wire/wire.ts";
import type { Config } from "../../../generated/config/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { resolveSecret } from "../../config/home.ts";
import { createLog } from "../../base/observe.ts";
import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";

/** How long cancelled turns may take to stop. */
const GRACE_MS = 250;

/** Loads the agent. ServiceError `invalid_config`, which lists the errors, or `state_store_unavailable`. */
export async function loadAcpDeps(connection: AcpConnection): Promise<AcpDeps> {
  const home = await openHome(currentContext());
  const { approvals, acp } = home.config;
  const { agentHome, userHome } = home.paths;
  teeLog(acp.log_file === undefined ? undefined : resolveWithin(agentHome, acp.log_file, userHome));
  connection.wire.limit(acp.max_line_bytes);
  // Editors have their own approval timeout.
  const { model, problem } = withoutMissingKeys(home);
  const config = {
    ...home.config,
    model,
    approvals: { ...approvals, timeout_seconds: acp.approval_timeout_seconds },
  };
  const service = await startRpcFromHome({ ...home, config }, await openHomeStore(home));
  const settings = acpSettings(config);
  const unwatch = attachWatchers(connection, { settings, isTraced: acp.trace });
  // After loading, which needs a larger heap.
  keepHeapSmall();
  return {
    ...service.deps,
    store: service.store,
    clock: systemClock,
    log: home.log,
    settings,
    owner: "default",
    providerProblem: problem,
    isCurrent: () => isCurrent(home),
    close: () => {
      unwatch();
      return service.stop({ graceMs: GRACE_MS });
    },
  };
}

/**
 * Returns the section `model` without keys whose variable is not set, and the problem that this is: the client can list
 * and delete its sessions, but not use a model.
 */
function withoutMissingKeys({ config: { model }, env }: Home): {
  readonly model: Config["model"];
  readonly problem: string | undefined;
} {
  let problem: string | undefined;
  const providers = Object.entries(model.providers).map(([name, provider]) => {
    const { api_key: key, ...keyless } = provider;
    if (key === undefined) return [name, provider] as const;
    try {
      resolveSecret(key, env, `model.providers.${name}.api_key`);
      return [name, provider] as const;
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      problem ??= error.message;
      return [name, keyless] as const;
    }
  });
  return { model: { ...model, providers: Object.fromEntries(providers) }, problem };
}

/** Returns whether the configuration is unchanged: a setup may have run in another process. */
async function isCurrent({ folder: home, processEnv, config, env }: Home): Promise<boolean> {
  const now = await loadConfig({ home, env: processEnv }).catch(() => undefined);
  return isDeepStrictEqual([now?.config, now?.env], [config, env]) && !now?.issues.some(isError);
}

function isError({ severity }: { readonly severity: string }): boolean {
  return severity === "error";
}

/** Attaches trace and keepalive as configured. Returns the function that detaches them. */
function attachWatchers(
  connection: AcpConnection,
  { settings, isTraced }: { readonly settings: AcpSettings; readonly isTraced: boolean },
): () => void {
  const { wire } = connection;
  const ends: (() => void)[] = [];
  if (isTraced) {
    // The trace is logged regardless of the log level.
    const log = createLog("debug");
    const write: WireWatcher = (direction, message) =>
      log.debug(`acp ${direction}`, { frame: toTraceEntry(message) });
    for (const [direction, message] of wire.takeFirst()) write(direction, message);
    ends.push(wire.watch(write));
  }
  if (settings.keepaliveMs !== undefined) {
    const keepalive = new Keepalive({ connection, clock: systemClock, everyMs: settings.keepaliveMs });
    ends.push(
      () => keepalive.stop(),
      wire.watch((direction, message) => direction === "out" && keepalive.sent(message)),
    );
  }
  return () => {
    for (const end of ends) end();
  };
}

/** Beyond this size the file becomes `<file>.1`, replacing the previous one. */
const MAX_BYTES = 16_777_216;

let path: string | undefined;
let sizeBytes = 0;
let isWatching = false;

/** Copies standard error to the file at an absolute path, for editors that do not show it. Undefined stops that. */
function teeLog(file: string | undefined): void {
  if (file === path) return;
  path = file;
  if (path === undefined) return;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    sizeBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch (error) {
    disableLog(error);
  }
  if (!isWatching) watchStderr();
}

function watchStderr(): void {
  isWatching = true;
  const { stderr } = process;
  const write = stderr.write.bind(stderr);
  stderr.write = ((chunk: string | Uint8Array, ...more: []) => {
    append(chunk);
    return write(chunk, ...more);
  }) as typeof stderr.write;
}

function append(chunk: string | Uint8Array): void {
  if (path === undefined) return;
  try {
    if (sizeBytes > MAX_BYTES) {
      renameSync(path, `${path}.1`);
      sizeBytes = 0;
    }
    appendFileSync(path, chunk, { mode: 0o600 });
    sizeBytes += typeof chunk === "string" ? Buffer.byteLength(chunk) : chunk.length;
  } catch (error) {
    disableLog(error);
  }
}

/** Disables the log file: a log must not fail its caller. */
function disableLog(error: unknown): void {
  const file = path;
  path = undefined;
  process.stderr.write(`Cannot write the log file ${file} (acp.log_file): ${String(error)}\n`);
}
