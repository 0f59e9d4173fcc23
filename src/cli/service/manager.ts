/** systemd and launchd: where their files are, and their commands. Touches the machine. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import process from "node:process";
import type { CliContext } from "../kit/context.ts";
import { launchdPlist, systemdUnit, type ServiceDefinition } from "./unit.ts";

export const MANAGERS = ["systemd", "launchd"] as const;
export type ManagerName = (typeof MANAGERS)[number];

export interface ServiceState {
  /** It runs now. */
  readonly active: boolean;
  /** In the words of the manager, such as `active (running)`. */
  readonly state: string;
  readonly pid?: number;
}

export interface Manager {
  readonly name: ManagerName;
  /** The name of the service in the manager's commands. */
  readonly service: string;
  /** The file that defines it. */
  readonly file: string;
  define(definition: ServiceDefinition): string;
  /** Starts the defined service now and at each login. Resolves to why it failed. */
  start(): Promise<string | undefined>;
  /** Stops the service and forgets it, before its file is removed. Resolves to why it failed. */
  stop(): Promise<string | undefined>;
  /** Called when the file is removed. */
  forget(): Promise<void>;
  /** Undefined when the manager cannot be asked. */
  read(): Promise<ServiceState | undefined>;
  /** The command that a user types to start it later. */
  readonly startHint: string;
  /** What else is needed so that it runs without a login; undefined: nothing. */
  bootHint(): string | undefined;
}

/** Returns the service manager of a user on this platform; undefined when there is none that is known. */
export function platformManager(): ManagerName | undefined {
  if (process.platform === "darwin") return "launchd";
  return process.platform === "linux" ? "systemd" : undefined;
}

export function createManager(name: ManagerName, context: CliContext): Manager {
  return name === "systemd" ? systemd(context) : launchd(context);
}

function systemd({ env, userHome }: CliContext): Manager {
  const service = `agentd${suffix(env, "-")}.service`;
  const folder = env["XDG_CONFIG_HOME"] || join(userHome, ".config");
  const systemctl = (...words: string[]) => run("systemctl", ["--user", ...words]);
  return {
    name: "systemd",
    service,
    file: join(folder, "systemd", "user", service),
    define: systemdUnit,
    async start() {
      return (
        (await systemctl("daemon-reload")).problem ??
        (await systemctl("enable", service)).problem ??
        (await systemctl("restart", service)).problem
      );
    },
    stop: async () => (await systemctl("disable", "--now", service)).problem,
    forget: async () => void (await systemctl("daemon-reload")),
    async read() {
      const { problem, stdout } = await systemctl("show", service, "--property=ActiveState,SubState,MainPID");
      if (problem !== undefined) return undefined;
      const values = Object.fromEntries(stdout.split("\n").map((line) => line.split("=", 2)));
      const { ActiveState: active, SubState: sub, MainPID: pid } = values as Readonly<Record<string, string>>;
      if (active === undefined) return undefined;
      return { active: active === "active", state: `${active} (${sub ?? "unknown"})`, ...pidOf(pid) };
    },
    startHint: `systemctl --user enable --now ${service}`,
    bootHint() {
      const { username } = userInfo();
      if (existsSync(join("/var/lib/systemd/linger", username))) return undefined;
      return "It runs while you are logged in. To run it from boot on: loginctl enable-linger";
    },
  };
}

function launchd({ env, userHome }: CliContext): Manager {
  const service = `agentd.gateway${suffix(env, ".")}`;
  const file = join(userHome, "Library", "LaunchAgents", `${service}.plist`);
  const domain = `gui/${process.getuid?.() ?? 0}`;
  const launchctl = (...words: string[]) => run("launchctl", words);
  return {
    name: "launchd",
    service,
    file,
    define: (definition) => launchdPlist(service, definition),
    async start() {
      // An older definition stays loaded until it is removed.
      await launchctl("bootout", `${domain}/${service}`);
      return (await launchctl("bootstrap", domain, file)).problem;
    },
    stop: async () => (await launchctl("bootout", `${domain}/${service}`)).problem,
    forget: async () => {},
    async read() {
      const { problem, stdout } = await launchctl("print", `${domain}/${service}`);
      if (problem !== undefined) return undefined;
      const state = /^\s*state = (.+)$/m.exec(stdout)?.[1] ?? "unknown";
      return { active: state === "running", state, ...pidOf(/^\s*pid = (\d+)$/m.exec(stdout)?.[1]) };
    },
    startHint: `launchctl bootstrap ${domain} ${file}`,
    bootHint: () => undefined,
  };
}

function suffix(env: CliContext["env"], separator: string): string {
  const profile = env["AGENTD_PROFILE"];
  return profile === undefined || profile === "" ? "" : `${separator}${profile}`;
}

function pidOf(text: string | undefined): { readonly pid?: number } {
  const pid = Number(text ?? 0);
  return pid > 0 ? { pid } : {};
}

const TIMEOUT_MS = 120_000;

interface Answer {
  /** Why the command failed, in one line. */
  readonly problem?: string;
  readonly stdout: string;
}

/** Runs a command of the service manager. Never rejects. */
function run(file: string, words: readonly string[]): Promise<Answer> {
  return new Promise((resolve) => {
    execFile(file, words, { timeout: TIMEOUT_MS }, (error, stdout, stderr) => {
      if (error === null) return resolve({ stdout });
      const missing = error.code === "ENOENT" ? `${file} is not installed` : undefined;
      const said = stderr.trim().split("\n").at(-1) ?? "";
      resolve({ stdout, problem: missing ?? `${file} ${words.join(" ")}: ${said || error.message}` });
    });
  });
}
