/** The agent behind `agentd acp`, loaded behind the answer to `initialize`. */
import { isDeepStrictEqual } from "node:util";
import { type AcpDeps, acpSettings, type AcpSettings } from "../../acp/deps.ts";
import { systemClock } from "../../base/clock.ts";
import { startRpcFromHome } from "../../app/start.ts";
import { loadConfig } from "../../config/config.ts";
import { resolveWithin } from "../../config/home.ts";
import { openHome, openHomeStore, type Home } from "../../app/home.ts";
import { currentContext } from "../kit/context.ts";
import { keepHeapSmall } from "../kit/runtime.ts";
import type { AcpConnection } from "../../acp/wire/connection.ts";
import { Keepalive } from "../../acp/wire/keepalive.ts";
import { toTraceEntry } from "../../acp/wire/trace.ts";
import type { Wire, WireWatcher } from "../../acp/wire/wire.ts";
import { createLog } from "../../base/observe/log.ts";
import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";

/** What turns get that do not end when they are cancelled. */
const GRACE_MS = 250;

/** ServiceError `invalid_config` that lists what is wrong, or `state_store_unavailable`. */
export async function loadAcpDeps(watched: WatchedWire): Promise<AcpDeps> {
  const opened = await openHome(currentContext());
  const { approvals, acp } = opened.config;
  const { agentHome, userHome } = opened.paths;
  keepLog(acp.log_file === undefined ? undefined : resolveWithin(agentHome, acp.log_file, userHome));
  watched.wire.limit(acp.max_line_bytes);
  // An editor has a person in front of it: its questions wait as long as its own block says.
  const config = {
    ...opened.config,
    approvals: { ...approvals, timeout_seconds: acp.approval_timeout_seconds },
  };
  const service = await startRpcFromHome({ ...opened, config }, await openHomeStore(opened));
  const settings = acpSettings(config);
  const unwatch = watchWire(watched, { settings, isTraced: acp.trace });
  // Behind the loading, which needs room and would be slower without.
  keepHeapSmall();
  return {
    ...service.deps,
    store: service.store,
    clock: systemClock,
    log: opened.log,
    settings,
    owner: "default",
    isCurrent: () => isCurrent(opened),
    close: () => {
      unwatch();
      return service.stop({ graceMs: GRACE_MS });
    },
  };
}

/** A login may have happened in another process. */
async function isCurrent({ folder: home, processEnv, config, env }: Home): Promise<boolean> {
  const now = await loadConfig({ home, env: processEnv }).catch(() => undefined);
  return isDeepStrictEqual([now?.config, now?.env], [config, env]) && !now?.issues.some(isError);
}

function isError({ severity }: { readonly severity: string }): boolean {
  return severity === "error";
}

export interface WatchedWire {
  readonly wire: Wire;
  readonly connection: AcpConnection;
}

/** Begins what `settings` ask for; the result ends it. */
export function watchWire(
  { wire, connection }: WatchedWire,
  { settings, isTraced }: { readonly settings: AcpSettings; readonly isTraced: boolean },
): () => void {
  const ends: (() => void)[] = [];
  if (isTraced) {
    // Whatever the level of the log: it was asked for.
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

/** A fuller file becomes `<file>.1`, in place of the one before. */
const MAX_BYTES = 16_777_216;

let path: string | undefined;
let sizeBytes = 0;
let isWatching = false;

/** From now on what goes to standard error goes to this file too, absolute path; undefined: no more. */
export function keepLog(file: string | undefined): void {
  if (file === path) return;
  path = file;
  if (path === undefined) return;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    sizeBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch (error) {
    giveUp(error);
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
    giveUp(error);
  }
}

/** A log never fails its caller. */
function giveUp(error: unknown): void {
  const file = path;
  path = undefined;
  process.stderr.write(`The log file ${file} cannot be written (acp.log_file): ${String(error)}\n`);
}
