/** Finds the operating system's sandbox and starts commands in it. Touches the machine. */
import { execFile } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { delimiter } from "node:path";
import process from "node:process";
import { findProgram } from "../../base/system/machine.ts";
import {
  bubblewrapArguments,
  proxyVariables,
  type SandboxProfile,
  seatbeltProfile,
  withLimits,
  withProxy,
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

/** Puts a command line into a sandbox with a profile that is chosen already. */
export type Confine = (command: CommandLine) => CommandLine;

/** Starts commands inside the operating system's sandbox. */
export interface Sandbox {
  readonly status: Extract<SandboxStatus, { readonly active: true }>;
  /** Returns the command line that runs `command` with what `profile` allows and nothing else. */
  confine(command: CommandLine, profile: SandboxProfile): CommandLine;
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
      const words = withLimits([command.program, ...command.args]);
      return {
        ...command,
        program: bwrap,
        args: [
          ...bubblewrapArguments(visible, { cwd: command.cwd, isFile }),
          ...(isProxied ? withProxy(words, { socat }) : words),
        ],
        env: { ...command.env, TMPDIR: "/tmp", ...(isProxied ? proxyVariables() : {}) },
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
