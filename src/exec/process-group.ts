import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import type { Readable } from "node:stream";
import { systemClock } from "../base/clock.ts";

interface CommandOptions {
  /** Absolute path of an existing directory. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Standard output and standard error, as they come, in order. */
  readonly onOutput: (bytes: Uint8Array) => void;
  readonly signal: AbortSignal;
}

interface StartedCommandOptions extends Pick<CommandOptions, "cwd" | "env" | "onOutput"> {}

/** A command that runs beside whatever else goes on. */
export interface RunningCommand {
  /** Resolves when the shell has ended and the whole group is gone; rejects when no shell can be started. */
  readonly end: Promise<CommandEnd>;
  /** Writes to its standard input; with `close` nothing can follow. Resolves when the system has taken it. */
  write(text: string, options: { readonly close: boolean }): Promise<void>;
  /** Ends the group, first kindly. */
  stop(): void;
}

export interface CommandEnd {
  /** Undefined when a signal ended the shell. */
  readonly exitCode: number | undefined;
  readonly signalName: string | undefined;
  readonly stoppedBy: "timeout" | "abort" | undefined;
  /** Processes the command left running, which were ended with it. */
  readonly leftovers: boolean;
}

/** A child spawned `detached`, with a pipe for its output. */
type GroupLeader = ChildProcess & { readonly stdout: Readable };

/** Between SIGTERM and SIGKILL when a command is stopped. */
const STOP_GRACE_MS = 2_000;
/** The same for what a finished command left behind. */
const LEFTOVER_GRACE_MS = 500;
/** How long an ended shell's output may still be read; a process that left the group can hold the pipe for ever. */
const DRAIN_MS = 1_000;
const POLL_MS = 20;

const shell = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find((path) => existsSync(path)) ?? "sh";
// Bash takes an input that is a socket, as pipes of Node are, for a remote login, and runs the user's start file.
const noStartFile = shell === "sh" ? [] : ["--norc"];

/**
 * Runs one shell command in a process group of its own, with standard input closed, and resolves when the shell has
 * ended and the whole group is gone. Rejects only when no shell can be started.
 */
export async function runCommand(command: string, options: CommandOptions): Promise<CommandEnd> {
  const child = spawnShell(command, options, "ignore");
  return superviseGroup(child, options);
}

/**
 * Resolves when a child that leads a process group of its own has ended and the whole group is gone, killed when this
 * process goes before. Rejects when it could not be started.
 */
export function superviseGroup(
  child: GroupLeader,
  options: Pick<CommandOptions, "timeoutMs" | "signal">,
): Promise<CommandEnd> {
  return ended(child, stopper(child, options));
}

/** Runs one shell command in a process group of its own, with a pipe for its standard input and without a time limit. */
export function startCommand(command: string, options: StartedCommandOptions): RunningCommand {
  const child = spawnShell(command, options, "pipe");
  const stopping = new AbortController();
  const stop = stopper(child, { timeoutMs: undefined, signal: stopping.signal });
  // A process that ended does not read: its end tells all there is to tell.
  child.stdin?.on("error", () => {});
  const end = ended(child, stop);
  end.catch(() => {});
  return {
    end,
    stop: () => stopping.abort(),
    write: (text, { close }) => writeTo(child, text, close),
  };
}

/** The process ended or its input was closed before. */
export class InputClosedError extends Error {}

function writeTo(child: ChildProcess, text: string, close: boolean): Promise<void> {
  const { stdin } = child;
  if (!stdin || stdin.destroyed || stdin.writableEnded) {
    return Promise.reject(new InputClosedError("The process takes no more input."));
  }
  return new Promise((resolve, reject) => {
    stdin.write(text, (error) => {
      if (error) reject(new InputClosedError("The process takes no more input."));
      else resolve();
    });
    if (close) stdin.end();
  });
}

function spawnShell(command: string, options: StartedCommandOptions, stdin: "ignore" | "pipe"): GroupLeader {
  // One pipe for both streams keeps their order; `exec` keeps the shell the leader of the group.
  const child = spawn("/bin/sh", ["-c", 'exec "$@" 2>&1', "sh", shell, ...noStartFile, "-c", command], {
    cwd: options.cwd,
    env: options.env,
    detached: true,
    stdio: [stdin, "pipe", "ignore"],
  }) as GroupLeader;
  child.stdout.on("data", options.onOutput);
  return child;
}

/** Resolves when the shell has ended and what it left behind is gone. */
async function ended(child: GroupLeader, stop: ReturnType<typeof stopper>): Promise<CommandEnd> {
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const letGo = holdGroup(child.pid);
  const exit = exited(child);
  try {
    const end = await exit;
    const leftovers = await endGroup(
      child.pid,
      stop.reason() === undefined ? LEFTOVER_GRACE_MS : STOP_GRACE_MS,
    );
    await withinTime(closed, DRAIN_MS);
    return { ...end, stoppedBy: stop.reason(), leftovers };
  } finally {
    letGo();
    stop.release();
    child.stdout.destroy();
  }
}

/** Resolves with `work`, but after `ms` at the latest; the timer goes with it. */
function withinTime(work: Promise<void>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const cancel = systemClock.after(ms, resolve);
    void work.then(() => {
      cancel();
      resolve();
    });
  });
}

function exited(child: ChildProcess): Promise<Pick<CommandEnd, "exitCode" | "signalName">> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) =>
      resolve({ exitCode: code ?? undefined, signalName: signal ?? undefined }),
    );
  });
}

/** Ends the group on abort or when the time is up, first kindly. */
function stopper(
  child: ChildProcess,
  { timeoutMs, signal }: { readonly timeoutMs: number | undefined; readonly signal: AbortSignal },
) {
  let reason: CommandEnd["stoppedBy"];
  let cancelKill = (): void => {};
  const stop = (why: "timeout" | "abort") => {
    if (reason !== undefined) return;
    reason = why;
    signalGroup(child.pid, "SIGTERM");
    cancelKill = systemClock.after(STOP_GRACE_MS, () => signalGroup(child.pid, "SIGKILL"));
  };
  const onAbort = () => stop("abort");
  const cancelTimeout =
    timeoutMs === undefined ? () => {} : systemClock.after(timeoutMs, () => stop("timeout"));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    reason: () => reason,
    release: () => {
      cancelTimeout();
      cancelKill();
      signal.removeEventListener("abort", onAbort);
    },
  };
}

/** Ends what is left of the group after its leader; whether there was anything. */
async function endGroup(pid: number | undefined, graceMs: number): Promise<boolean> {
  if (pid === undefined || !isAlive(pid)) return false;
  signalGroup(pid, "SIGTERM");
  for (let waitedMs = 0; waitedMs < graceMs; waitedMs += POLL_MS) {
    await systemClock.sleep(POLL_MS);
    if (!isAlive(pid)) return true;
  }
  signalGroup(pid, "SIGKILL");
  return true;
}

/** False when nothing is left in the group. */
function signalGroup(pid: number | undefined, signal: NodeJS.Signals | 0): boolean {
  if (pid === undefined) return false;
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    // ESRCH: all gone; EPERM: what is left changed its user, and is not ours to signal.
    return false;
  }
}

/** Whether the group of `pid` has a member that still runs. */
function isAlive(pid: number): boolean {
  if (!signalGroup(pid, 0)) return false;
  if (process.platform !== "linux") return true;
  // In containers nobody reaps orphans: the dead stay in the group as zombies, and a signal cannot tell.
  return readdirSync("/proc").some((entry) => /^\d+$/.test(entry) && isLiveMember(entry, pid));
}

function isLiveMember(entry: string, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
    // The command's name stands in parentheses and may hold any character.
    const [state, , groupId] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(groupId) === group && state !== "Z" && state !== "X";
  } catch {
    // It ended while we looked.
    return false;
  }
}

/** What this process started and must not outlive it. Touches the machine. */

const held = new Set<number>();
let isWatching = false;

/**
 * The process group of `pid` is killed when this process exits before the result was called, however it exits. What
 * ends in good order is ended kindly before, by whoever started it.
 */
export function holdGroup(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.on("exit", killHeldGroups);
  isWatching = true;
  held.add(pid);
  return () => void held.delete(pid);
}

function killHeldGroups(): void {
  for (const pid of held) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // All gone, or not ours any more.
    }
  }
}

/** The last two lead a command of agentd to the home of the service that runs it. */
const inherited = new Set("PATH HOME LANG TMPDIR USER SHELL TZ AGENTD_HOME AGENTD_PROFILE".split(" "));

/**
 * What commands see of the environment. The server's own holds its keys, so they get a short list by name, never the
 * whole; `shared` are the variables that were given to this session's commands.
 */
export function commandEnvironment(
  passthrough: readonly string[],
  shared: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const extra = new Set(passthrough);
  const kept = Object.entries(own).filter(
    ([name, value]) =>
      value !== undefined && (inherited.has(name) || name.startsWith("LC_") || extra.has(name)),
  );
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...shared, TERM: "dumb" };
}
