/** Finds the operating system's sandbox and starts commands in it. Touches the machine. */
import { execFile } from "node:child_process";
import { lstatSync, readFileSync, statSync } from "node:fs";
import { lstat, rm } from "node:fs/promises";
import { delimiter } from "node:path";
import process from "node:process";
import { findProgram } from "../../base/system/machine.ts";
import { isInside } from "../../base/text.ts";
import {
  bubblewrapArguments,
  proxyVariables,
  type SandboxProfile,
  seatbeltProfile,
  START_MARK,
  startWords,
} from "./profile.ts";

export type SandboxSetting = "auto" | "required" | "off";

/** Whether commands run in a sandbox, and if not, why. */
export type SandboxStatus =
  | { readonly active: true; readonly kind: "bubblewrap" | "seatbelt"; readonly network: boolean }
  | { readonly active: false; readonly reason: string };

/** A program with its arguments, its variables and the folder it starts in. */
export interface CommandLine {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of an existing folder, visible inside the sandbox. */
  readonly cwd: string;
}

/** A command line inside a sandbox. */
export interface ConfinedLine extends CommandLine {
  /** The first output, when the sandbox stands. Other output in its place says why the sandbox failed. Absent: none. */
  readonly startMark?: string;
  /** Call it when the mark has come. */
  readonly onStarted?: () => void;
}

/**
 * Puts a command line into a sandbox. Each call looks at the machine again, so that a start that failed because
 * something vanished can be repeated.
 */
export type Confine = (command: CommandLine) => ConfinedLine;

/** Starts commands inside the operating system's sandbox. */
export interface Sandbox {
  readonly status: Extract<SandboxStatus, { readonly active: true }>;
  /** Returns the command line that runs `command` with what `profile` allows and nothing else. */
  confine(command: CommandLine, profile: SandboxProfile): ConfinedLine;
}

const PROBE_TIMEOUT_MS = 5_000;

/**
 * Tries the sandbox of this machine once. Resolves to undefined and a reason where it does not work: no bubblewrap, no
 * user namespaces (many containers), another system than Linux and macOS.
 */
export async function findSandbox(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<{ readonly sandbox?: Sandbox; readonly status: SandboxStatus }> {
  if (process.platform === "darwin") return findSeatbelt(env);
  if (process.platform !== "linux") return inactive(`agentd has no sandbox for ${process.platform}`);
  return findBubblewrap(env);
}

async function findBubblewrap(env: Readonly<Record<string, string | undefined>>) {
  const [bwrap, socat] = await Promise.all([findProgram("bwrap", env), findProgram("socat", env)]);
  if (bwrap === undefined) return inactive("bubblewrap (the program bwrap) is not installed");
  const probe = [...bubblewrapArguments(emptyProfile, { cwd: "/", isFile }), "/bin/sh", "-c", "exit 0"];
  const problem = await problemOf(bwrap, probe);
  if (problem !== undefined) return inactive(`bubblewrap cannot start a sandbox here: ${problem}`);
  const status = { active: true, kind: "bubblewrap", network: socat !== undefined } as const;
  const sandbox: Sandbox = {
    status,
    confine: (command, profile) => {
      const isProxied = profile.proxySocket !== undefined && socat !== undefined;
      const sockets = listeningSockets().filter((path) => !profile.writable.includes(path));
      const visible = { ...profile, hidden: [...profile.hidden, ...sockets] };
      const covered = coveredFiles(visible);
      return {
        ...command,
        program: bwrap,
        args: [
          ...bubblewrapArguments(visible, { cwd: command.cwd, isFile }),
          ...startWords([command.program, ...command.args], { socat: isProxied ? socat : undefined }),
        ],
        env: { ...command.env, TMPDIR: "/tmp", ...(isProxied ? proxyVariables() : {}) },
        startMark: START_MARK,
        ...(covered.length > 0 ? { onStarted: () => void removeCovers(covered) } : {}),
      };
    },
  };
  return { sandbox, status };
}

async function findSeatbelt(env: Readonly<Record<string, string | undefined>>) {
  const program = await findProgram("sandbox-exec", {
    ...env,
    PATH: `/usr/bin${delimiter}${env["PATH"] ?? ""}`,
  });
  if (program === undefined) return inactive("the program sandbox-exec is not installed");
  const problem = await problemOf(program, ["-p", "(version 1)(allow default)", "/usr/bin/true"]);
  if (problem !== undefined) return inactive(`sandbox-exec cannot start a sandbox here: ${problem}`);
  const status = { active: true, kind: "seatbelt", network: false } as const;
  const sandbox: Sandbox = {
    status,
    confine: (command, profile) => ({
      ...command,
      program,
      args: ["-p", seatbeltProfile(profile), command.program, ...command.args],
      env: { ...command.env, TMPDIR: profile.replaced.find(({ path }) => path === "/tmp")?.by ?? "/tmp" },
    }),
  };
  return { sandbox, status };
}

function inactive(reason: string): { readonly status: SandboxStatus } {
  return { status: { active: false, reason } };
}

const emptyProfile: SandboxProfile = { writable: [], readable: [], hidden: [], protected: [], replaced: [] };

function isFile(path: string): boolean {
  return !(statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false);
}

/** A hidden file in a folder that the command may change, as it was before the sandbox was made. */
interface CoveredFile {
  readonly path: string;
  readonly inode: number;
}

function coveredFiles({ hidden, writable }: SandboxProfile): readonly CoveredFile[] {
  const inside = hidden.filter((path) => writable.some((root) => isInside(path, root)) && isFile(path));
  return inside.flatMap((path) => {
    const inode = lstatSync(path, { throwIfNoEntry: false })?.ino;
    return inode === undefined ? [] : [{ path, inode }];
  });
}

/**
 * Deletes what bubblewrap made to mount on: it creates an empty file with this mode where a hidden one vanished before
 * it was covered, and a service that wants to listen there again could not.
 */
async function removeCovers(covered: readonly CoveredFile[]): Promise<void> {
  for (const { path, inode } of covered) {
    const now = await lstat(path).catch(() => undefined);
    const isCover = now?.isFile() === true && now.size === 0 && (now.mode & 0o777) === COVER_MODE;
    if (isCover && now.ino !== inode) await rm(path, { force: true }).catch(() => {});
  }
}

const COVER_MODE = 0o444;

/** Limit of the sockets that are hidden one by one. */
const MAX_SOCKETS = 256;

/**
 * Returns the files of listening Unix sockets outside the folders that each sandbox replaces. A network namespace does
 * not separate sockets that have a file (unix(7)), and anyone who sees the file may connect.
 */
function listeningSockets(): readonly string[] {
  const table = readFileSync("/proc/net/unix", "utf8");
  const paths = new Set<string>();
  for (const line of table.split("\n")) {
    // Num RefCount Protocol Flags Type St Inode Path; flag 0x10000: it accepts connections.
    const [, , , flags, , , , path] = line.trim().split(/\s+/);
    if (path?.startsWith("/") !== true || flags !== "00010000" || isReplaced(path)) continue;
    if (statSync(path, { throwIfNoEntry: false })?.isSocket()) paths.add(path);
    if (paths.size >= MAX_SOCKETS) break;
  }
  return [...paths];
}

const isReplaced = (path: string): boolean => /^\/(?:run|var\/run|tmp|var\/tmp|dev|proc)\//.test(path);

/** Resolves to the last line that a failed program printed. */
function problemOf(program: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(program, [...args], { timeout: PROBE_TIMEOUT_MS }, (error, _stdout, stderr) =>
      resolve(error === null ? undefined : stderr.trim().split("\n").at(-1) || error.message),
    );
  });
}
