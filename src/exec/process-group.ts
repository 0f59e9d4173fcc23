import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { Socket } from "node:net";
import process from "node:process";
import type { Readable } from "node:stream";
import { currentRuntime } from "../base/system/machine.ts";
import { systemClock } from "../base/time.ts";
import type { Confine, ConfinedLine } from "./sandbox/sandbox.ts";
import { type Excess, type ResourceLimits, watchResources } from "./sandbox/watch.ts";

interface CommandOptions {
  /** Absolute path of an existing directory. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Receives standard output and standard error in the order in which they were written. */
  readonly onOutput: (bytes: Uint8Array) => void;
  readonly signal: AbortSignal;
  /** Absent: the command may do what this process may do. */
  readonly confine?: Confine | undefined;
  /** Absent: without a limit. */
  readonly limits?: ResourceLimits | undefined;
}

interface StartedCommandOptions extends Pick<
  CommandOptions,
  "cwd" | "env" | "onOutput" | "confine" | "limits"
> {}

export interface RunningCommand {
  /** Resolves when the shell has ended and its whole group is gone. Rejects when the shell cannot be started. */
  readonly end: Promise<CommandEnd>;
  /**
   * Writes to standard input and, with `close`, closes it. Resolves when the operating system has accepted the text.
   */
  write(text: string, options: { readonly close: boolean }): Promise<void>;
  /** Stops the group: SIGTERM first, then SIGKILL. */
  stop(): void;
}

export interface CommandEnd {
  /** Undefined when a signal ended the shell. */
  readonly exitCode: number | undefined;
  readonly signalName: string | undefined;
  readonly stoppedBy: "timeout" | "abort" | Excess | undefined;
  /** True when processes outlived the command and were stopped. */
  readonly leftovers: boolean;
  /** The sandbox failed, and the command did not run. The output says why. */
  readonly hasNotRun?: true;
}

/** A child spawned `detached`, with a pipe for its output. */
type GroupLeader = ChildProcess & { readonly stdout: Readable };

/** Time between SIGTERM and SIGKILL for a stopped command. */
const STOP_GRACE_MS = 2_000;
/** Time between SIGTERM and SIGKILL for processes that outlived their command. */
const LEFTOVER_GRACE_MS = 500;
/** Time to read the rest of an ended shell's output. A process that left the group can hold the pipe open forever. */
const DRAIN_MS = 1_000;
const POLL_MS = 20;
const MOMENT_MS = 3;
const MOMENTS = 4;

const shell = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"].find((path) => existsSync(path)) ?? "sh";
// Bash takes a socket on standard input, which is what Node's pipes are, for a remote login and reads the user's start
// file.
const noStartFile = shell === "sh" ? [] : ["--norc"];

/**
 * Runs one shell command in its own process group with standard input closed. Resolves when the shell has ended and its
 * whole group is gone. Rejects only when the shell cannot be started.
 */
export function runCommand(command: string, options: CommandOptions): Promise<CommandEnd> {
  return startUntilItRuns(() => spawnShell(command, options, "ignore"), options);
}

/**
 * Waits for a child that leads its own process group. Resolves when it has ended and its whole group is gone; kills the
 * group when this process exits first. Rejects when the child cannot be started.
 */
export function superviseGroup(
  child: GroupLeader,
  options: Pick<CommandOptions, "timeoutMs" | "signal" | "limits">,
): Promise<CommandEnd> {
  return ended(child, stopper(child, options));
}

/** Starts one shell command in its own process group, with a pipe for standard input and without a time limit. */
export function startCommand(command: string, options: StartedCommandOptions): RunningCommand {
  const stopping = new AbortController();
  const { promise: running, resolve } = Promise.withResolvers<GroupLeader | undefined>();
  const start = () => {
    const started = spawnShell(command, options, "pipe");
    // An ended process does not read; `end` reports how it ended.
    started.child.stdin?.on("error", () => {});
    void started.gate.opened.then(() => resolve(started.child));
    return started;
  };
  const limits = { timeoutMs: undefined, signal: stopping.signal, limits: options.limits };
  const end = startUntilItRuns(start, limits);
  const stopWaiting = () => resolve(undefined);
  end.then(stopWaiting, stopWaiting);
  return {
    end,
    stop: () => stopping.abort(),
    // A sandbox that fails to start takes what was written with it.
    write: async (text, { close }) => writeTo(await running, text, close),
  };
}

/** Limit of what a failed sandbox prints. */
const MAX_HELD_BYTES = 16_384;
/** Starts of a command whose sandbox fails: what it hides may vanish while it is set up. */
const MAX_STARTS = 3;

/** Starts again only when the sandbox itself failed, so that no command runs twice. */
async function startUntilItRuns(
  start: () => Started,
  options: Parameters<typeof stopper>[1],
): Promise<CommandEnd> {
  for (let starts = 1; ; starts += 1) {
    const { child, gate } = start();
    const end = await ended(child, stopper(child, options));
    if (!gate.hasFailed || end.stoppedBy !== undefined) {
      gate.release();
      return end;
    }
    if (starts < MAX_STARTS) continue;
    gate.release();
    return { ...end, hasNotRun: true };
  }
}

/** The process has ended or its input is closed. */
export class InputClosedError extends Error {}

function writeTo(child: ChildProcess | undefined, text: string, close: boolean): Promise<void> {
  const stdin = child?.stdin;
  if (!stdin || stdin.destroyed || stdin.writableEnded) {
    return Promise.reject(new InputClosedError("The process accepts no more input."));
  }
  return new Promise((resolve, reject) => {
    stdin.write(text, (error) => {
      if (error) reject(new InputClosedError("The process accepts no more input."));
      else resolve();
    });
    if (close) stdin.end();
  });
}

interface Started {
  readonly child: GroupLeader;
  readonly gate: StartGate;
}

function spawnShell(command: string, options: StartedCommandOptions, stdin: "ignore" | "pipe"): Started {
  const { cwd, confine = asItIs } = options;
  startSurvivor();
  // One pipe for both streams keeps their order; `exec` keeps the shell as the group leader.
  const line = confine({ program: shell, args: [...noStartFile, "-c", command], cwd, env: options.env });
  const child = spawn("/bin/sh", ["-c", 'exec "$@" 2>&1', "sh", line.program, ...line.args], {
    cwd,
    env: line.env,
    detached: true,
    stdio: [stdin, "pipe", "ignore"],
  }) as GroupLeader;
  const gate = new StartGate(line, options.onOutput);
  child.stdout.on("data", (bytes: Buffer) => gate.push(bytes));
  return { child, gate };
}

const asItIs: Confine = (command) => command;

/** Holds the output of a sandbox back until its mark shows that the command starts. */
class StartGate {
  readonly #mark: Buffer;
  readonly #onOutput: (bytes: Uint8Array) => void;
  readonly #onStarted: () => void;
  readonly #open = Promise.withResolvers<void>();
  /** What came in place of the mark. Undefined: the mark has come. */
  #held: Buffer | undefined = Buffer.alloc(0);

  constructor({ startMark = "", onStarted = () => {} }: ConfinedLine, onOutput: (bytes: Uint8Array) => void) {
    this.#mark = Buffer.from(startMark);
    this.#onOutput = onOutput;
    this.#onStarted = onStarted;
    if (startMark === "") this.release();
  }

  /** Resolves when the command starts. */
  get opened(): Promise<void> {
    return this.#open.promise;
  }

  /** True when the sandbox printed something else than its mark: the command did not run. */
  get hasFailed(): boolean {
    const held = this.#held ?? this.#mark;
    return !this.#mark.subarray(0, held.length).equals(held);
  }

  push(bytes: Buffer): void {
    if (this.#held === undefined) {
      this.#onOutput(bytes);
      return;
    }
    const held = Buffer.concat([this.#held, bytes]);
    const { length } = this.#mark;
    if (!held.subarray(0, length).equals(this.#mark)) {
      this.#held = held.subarray(0, MAX_HELD_BYTES);
      return;
    }
    this.#held = held.subarray(length);
    this.#onStarted();
    this.release();
  }

  /** Lets through what was held back and what comes. */
  release(): void {
    const held = this.#held ?? Buffer.alloc(0);
    this.#held = undefined;
    this.#open.resolve();
    if (held.length > 0) this.#onOutput(held);
  }
}

/** Resolves when the shell has ended and the processes that outlived it are gone. */
async function ended(child: GroupLeader, stop: ReturnType<typeof stopper>): Promise<CommandEnd> {
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const release = killOnExit(child.pid);
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
    release();
    stop.release();
    child.stdout.destroy();
  }
}

/** Resolves with `work`, or after `ms`. */
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

/** Stops the group on abort or timeout: SIGTERM first, then SIGKILL. */
function stopper(
  child: ChildProcess,
  {
    timeoutMs,
    signal,
    limits,
  }: {
    readonly timeoutMs: number | undefined;
    readonly signal: AbortSignal;
    readonly limits?: ResourceLimits | undefined;
  },
) {
  let reason: CommandEnd["stoppedBy"];
  let cancelKill = (): void => {};
  const stop = (why: NonNullable<CommandEnd["stoppedBy"]>) => {
    if (reason !== undefined) return;
    reason = why;
    signalGroup(child.pid, "SIGTERM");
    cancelKill = systemClock.after(STOP_GRACE_MS, () => signalGroup(child.pid, "SIGKILL"));
  };
  const onExcess = (excess: Excess) => {
    stop(excess);
    // A command above its limits gets no time to exit by itself.
    signalGroup(child.pid, "SIGKILL");
  };
  const unwatch = limits === undefined ? () => {} : watchResources(child.pid, { limits, onExcess });
  const onAbort = () => stop("abort");
  const cancelTimeout =
    timeoutMs === undefined ? () => {} : systemClock.after(timeoutMs, () => stop("timeout"));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    reason: () => reason,
    release: () => {
      unwatch();
      cancelTimeout();
      cancelKill();
      signal.removeEventListener("abort", onAbort);
    },
  };
}

/** Stops what remains of the group after its leader. Resolves to whether anything remained. */
async function endGroup(pid: number | undefined, graceMs: number): Promise<boolean> {
  if (pid === undefined || !isAlive(pid)) return false;
  // The first process of a sandbox ends a moment after the command.
  for (let look = 0; look < MOMENTS; look += 1) {
    await systemClock.sleep(MOMENT_MS);
    if (!isAlive(pid)) return false;
  }
  signalGroup(pid, "SIGTERM");
  for (let waitedMs = 0; waitedMs < graceMs; waitedMs += POLL_MS) {
    await systemClock.sleep(POLL_MS);
    if (!isAlive(pid)) return true;
  }
  signalGroup(pid, "SIGKILL");
  return true;
}

/** Signals the group of `pid`. Returns false when it has no process left. */
export function signalGroup(pid: number | undefined, signal: NodeJS.Signals | 0): boolean {
  if (pid === undefined) return false;
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    // ESRCH: the group is gone. EPERM: the remaining processes run as another user and cannot be signalled.
    return false;
  }
}

/** Returns whether a member of the group of `pid` still runs. */
function isAlive(pid: number): boolean {
  if (!signalGroup(pid, 0)) return false;
  if (process.platform !== "linux") return true;
  // In containers without an init process, dead orphans stay in the group as zombies, which a signal does not detect.
  return readdirSync("/proc").some((entry) => /^\d+$/.test(entry) && isLiveMember(entry, pid));
}

function isLiveMember(entry: string, group: number): boolean {
  try {
    const stat = readFileSync(`/proc/${entry}/stat`, "utf8");
    // The command's name is in parentheses and may contain any character.
    const [state, , groupId] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(groupId) === group && state !== "Z" && state !== "X";
  } catch {
    // The process ended in the meantime.
    return false;
  }
}

/** Groups that are killed when this process exits. Touches the machine. */

const groups = new Set<number>();
let isWatching = false;

/**
 * Kills the process group of `pid` when this process exits, however it exits; on Deno not after SIGKILL. Call the result
 * once the group has ended or its owner stops it.
 */
export function killOnExit(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.on("exit", killGroups);
  isWatching = true;
  notifySurvivor(`+ ${pid}`);
  groups.add(pid);
  return () => {
    if (groups.delete(pid)) notifySurvivor(`- ${pid}`);
  };
}

/** Reads the groups from a pipe, which ends with this process, and kills those that are left. */
const SURVIVOR = `left=" "
while read -r sign pid; do
  case $sign in
    +) left="$left$pid " ;;
    -) left="\${left%% $pid *} \${left#* $pid }" ;;
  esac
done
for pid in $left; do kill -s KILL -- "-$pid"; done`;

let survivor: ChildProcess | undefined;

function notifySurvivor(line: string): void {
  startSurvivor();
  survivor?.stdin?.write(`${line}\n`);
}

/**
 * SIGKILL runs no code of this process, so a shell beside it kills the groups then. Start it before a command, which could
 * otherwise outlive this process while the shell starts.
 */
function startSurvivor(): void {
  // On Deno the pipe of the shell outlives the process.
  if (survivor !== undefined || currentRuntime().name !== "node") return;
  // The environment of this process holds its keys.
  const child = spawn("/bin/sh", ["-c", SURVIVOR], {
    cwd: "/",
    env: {},
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const forget = () => {
    if (survivor === child) survivor = undefined;
  };
  child.on("error", forget).on("exit", forget);
  child.unref();
  // Without free file descriptors there is no pipe.
  const input = child.stdin as Socket | undefined;
  if (!input) return;
  input.on("error", forget).unref();
  for (const pid of groups) input.write(`+ ${pid}\n`);
  survivor = child;
}

function killGroups(): void {
  for (const pid of groups) {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // All gone, or not ours any more.
    }
  }
}

/** The last four let a command that calls agentd find the home, and the webhook receiver, of the service that runs it. */
const inherited = new Set(
  "PATH HOME LANG TMPDIR USER SHELL TZ AGENTD_HOME AGENTD_PROFILE WEBHOOK_ENABLED WEBHOOK_PORT".split(" "),
);

/**
 * Returns the environment for commands. The service's own environment holds its keys, so commands get a short list of
 * variables by name. `shared` are the variables that this session's commands may see.
 */
export function commandEnvironment(
  passthrough: readonly string[],
  shared: Readonly<Record<string, string>>,
  source: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const extra = new Set(passthrough);
  const kept = Object.entries(source).filter(
    ([name, value]) =>
      value !== undefined && (inherited.has(name) || name.startsWith("LC_") || extra.has(name)),
  );
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...shared, TERM: "dumb" };
}
