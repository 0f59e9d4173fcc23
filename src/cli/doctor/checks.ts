/** The checks of an installation: they find problems and say what to do. Each is independent and changes nothing. */
import { systemClock, waitAtMost } from "../../base/time.ts";
import { countSessions } from "../../store/stats.ts";
import process from "node:process";
import type { CliContext } from "../kit/context.ts";
import type { Finding, CheckResult } from "./finding.ts";
import { findLocalGateway, isAgentd, occupantOf } from "../kit/local-gateway.ts";
import { execFile } from "node:child_process";
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Config } from "../../../generated/config/types.gen.ts";
import { envPath, resolvePaths } from "../../config/home.ts";
import { formatConfigIssue } from "../../config/check.ts";
import { loadConfig, readConfig, type LoadedConfig } from "../../config/config.ts";
import { ServiceError } from "../../base/errors.ts";
import { findSandbox } from "../../exec/sandbox/sandbox.ts";
import { cron } from "./cron.ts";
import { model } from "./model.ts";
import { outbox, platforms } from "./platforms.ts";
import { webhooks } from "./webhooks.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";

interface Check {
  readonly run: (checkContext: CheckContext) => Promise<CheckResult>;
  /** The check that must not fail, so that this one reports something of its own. */
  readonly needs?: "config" | "database";
}

interface CheckContext {
  readonly context: CliContext;
  /** Valid in checks that need `config`. */
  readonly loaded: LoadedConfig;
  readonly config: Config;
}

const CHECK_TIMEOUT_MS = 10_000;
const MIN_FREE_BYTES = 500_000_000;

async function sandbox({ terminal }: Config): Promise<CheckResult> {
  if (terminal.sandbox === "off") {
    const fix = "Set terminal.sandbox to auto.";
    return { status: "warn", detail: "off: commands may do what agentd may do", fix };
  }
  const { status } = await findSandbox();
  if (!status.active) {
    const fix = "Install bubblewrap (Debian: apt install bubblewrap socat), or see docs/sandbox.md.";
    return { status: terminal.sandbox === "required" ? "fail" : "warn", detail: status.reason, fix };
  }
  const network = terminal.sandbox_hosts.length > 0 && !status.network;
  if (!network) return { status: "ok", detail: `commands run in ${status.kind}` };
  return { status: "warn", detail: "commands cannot reach terminal.sandbox_hosts", fix: "Install socat." };
}

/**
 * Returns all findings in a fixed order. A check that throws or exceeds ten seconds fails. What follows from a failure is
 * skipped: one broken line is reported once. `without` names checks that are left out.
 */
export async function runChecks(
  context: CliContext,
  { without = [] }: { readonly without?: readonly string[] } = {},
): Promise<readonly Finding[]> {
  const loading = await loadConfig(context).catch((error: unknown) => {
    if (error instanceof ServiceError) return error.message;
    throw error;
  });
  const loaded = typeof loading === "string" ? { ...NO_CONFIG, home: context.home } : loading;
  const checkContext = { context, loaded, config: loaded.config };
  const done = new Map<string, CheckResult>();
  const fixed = typeof loading === "string" ? unreadable(loading) : config(loaded);
  const run = async (needed: Check["needs"]) => {
    const isBlocked = needed !== undefined && ["fail", "skip"].includes(done.get(needed)?.status ?? "");
    const due = Object.entries(checks).filter(
      ([name, { needs }]) => needs === needed && !without.includes(name),
    );
    const work = due.map(async ([name, { run: check }]) => {
      const skipped = { status: "skip" as const, detail: `checked once ${needed ?? ""} has no failure` };
      done.set(name, isBlocked ? skipped : name === "config" ? fixed : await bounded(check, checkContext));
    });
    await Promise.all(work);
  };
  for (const needed of [undefined, "config", "database"] as const) await run(needed);
  return Object.keys(checks).flatMap((name) => {
    const result = done.get(name);
    return result ? [{ name, ...result }] : [];
  });
}

/** Stands for a configuration that could not be read: no check that needs it runs. */
const NO_CONFIG = {
  ...readConfig(""),
  path: "",
  exists: false,
  env: {},
  secretNames: new Set<string>(),
};

function unreadable(message: string): CheckResult {
  return { status: "fail", detail: message, fix: "Correct the path or its permissions." };
}

const checks: Readonly<Record<string, Check>> = {
  runtime: { run: async () => runtime() },
  home: { run: ({ context }) => folder(context.home, "agentd creates it at its first start.") },
  config: { run: async ({ loaded }) => config(loaded) },
  secrets: { run: ({ context }) => secrets(envPath(context.home)) },
  database: { needs: "config", run: ({ context }) => database(context) },
  disk: { run: ({ context }) => disk(context) },
  workspace: {
    needs: "config",
    run: ({ context, config, loaded }) => workspace(context, config, loaded),
  },
  programs: { run: () => programs() },
  sandbox: { needs: "config", run: ({ config }) => sandbox(config) },
  model: { needs: "config", run: ({ loaded }) => model(loaded) },
  port: { needs: "config", run: ({ config, context }) => port(config, context) },
  webhooks: {
    needs: "config",
    run: ({ config, context, loaded }) => webhooks({ config, home: context.home, env: loaded.env }),
  },
  platforms: { needs: "config", run: ({ loaded }) => platforms(loaded) },
  outbox: { needs: "database", run: ({ context }) => outbox(Date.now(), context) },
  cron: { needs: "database", run: ({ context, loaded }) => cron(loaded, context) },
  mcp: { needs: "config", run: ({ config }) => mcp(config) },
  search: { needs: "config", run: async ({ config }) => search(config) },
};

async function bounded(check: Check["run"], checkContext: CheckContext): Promise<CheckResult> {
  const late = { status: "fail", detail: `the check exceeded ${CHECK_TIMEOUT_MS / 1000} s` } as const;
  try {
    return (await waitAtMost(systemClock, CHECK_TIMEOUT_MS, check(checkContext))) ?? late;
  } catch (error) {
    return { status: "fail", detail: error instanceof Error ? error.message : "the check failed" };
  }
}

function runtime(): CheckResult {
  const { deno, node } = process.versions;
  if (deno !== undefined) return { status: "ok", detail: `Deno ${deno}` };
  const isOld = Number(node.split(".")[0]) < 24;
  return isOld
    ? { status: "fail", detail: `Node ${node}`, fix: "Install Node 24 or newer." }
    : { status: "ok", detail: `Node ${node}` };
}

async function folder(path: string, whenMissing: string): Promise<CheckResult> {
  const found = await stat(path).catch(() => undefined);
  if (!found)
    return (
      (await whyNotCreatable(path, "AGENTD_HOME")) ?? {
        status: "warn",
        detail: `${path} does not exist yet`,
        fix: whenMissing,
      }
    );
  if (!found.isDirectory())
    return { status: "fail", detail: `${path} is not a folder`, fix: "Move the file away." };
  if (!(await isWritable(path))) {
    return {
      status: "warn",
      detail: `${path} is not writable`,
      fix: "Change its permissions, or set AGENTD_HOME.",
    };
  }
  const mode = found.mode & 0o777;
  if ((mode & 0o077) === 0) return { status: "ok", detail: path };
  const fix = `chmod 700 ${path}`;
  return { status: "warn", detail: `${path} is open to other users (mode 0${mode.toString(8)})`, fix };
}

function config({ issues, path, exists }: LoadedConfig): CheckResult {
  const errors = issues.filter(({ severity }) => severity === "error");
  const [first] = errors.length > 0 ? errors : issues;
  if (!first) return { status: "ok", detail: exists ? path : `${path} does not exist; the defaults apply` };
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  const fix = "Correct it. List all issues with `agentd config check`.";
  return {
    status: errors.length > 0 ? "fail" : "warn",
    detail: `${formatConfigIssue(first, path)}${more}`,
    fix,
  };
}

async function secrets(path: string): Promise<CheckResult> {
  const found = await stat(path).catch(() => undefined);
  if (!found) return { status: "ok", detail: `${path} does not exist yet` };
  const mode = found.mode & 0o777;
  if ((mode & 0o077) === 0) return { status: "ok", detail: path };
  return { status: "fail", detail: `${path} is open to other users`, fix: `chmod 600 ${path}` };
}

async function database(context: CliContext): Promise<CheckResult> {
  const found = await findDatabase(context);
  if (!found.exists)
    return {
      status: "ok",
      detail: `${found.location} does not exist yet; agentd creates it at its first start`,
    };
  let sessions = 0;
  try {
    await withDatabase(found, async (store) => {
      sessions = await countSessions(store);
    });
  } catch (error) {
    return unusable(found, error instanceof Error ? error.message : String(error));
  }
  return { status: "ok", detail: `${found.location}, ${sessions} sessions` };
}

function unusable({ url, location }: Awaited<ReturnType<typeof findDatabase>>, why: string): CheckResult {
  const server = url.startsWith("postgres") ? URL.parse(url)?.host : undefined;
  if (server === undefined) {
    const fix = `Stop agentd, move ${location} away, and copy the one of a backup there. Without one, agentd creates a new database.`;
    return { status: "fail", detail: `${location} cannot be used: ${why}`, fix };
  }
  const fix = "Start the server, or correct database.url, AGENTD_DATABASE_URL or its password.";
  return { status: "fail", detail: `the PostgreSQL server at ${server} cannot be used: ${why}`, fix };
}

async function disk({ home }: CliContext): Promise<CheckResult> {
  const { bavail, bsize } = await statfs(await nearestAbove(home));
  const free = bavail * bsize;
  const detail = `${Math.round(free / 1_000_000)} MB free`;
  return free < MIN_FREE_BYTES
    ? { status: "warn", detail, fix: "Free disk space: events and transcripts need it." }
    : { status: "ok", detail };
}

async function workspace(context: CliContext, config: Config, loaded: LoadedConfig): Promise<CheckResult> {
  const { workspace: path } = resolvePaths({ ...context, config, env: loaded.env });
  const found = await stat(path).catch(() => undefined);
  if (!found) {
    const problem = await whyNotCreatable(path, "agent.workspace");
    return (
      problem ?? { status: "ok", detail: `${path} does not exist yet; agentd creates it at its first start` }
    );
  }
  if (!found.isDirectory())
    return { status: "fail", detail: `${path} is not a folder`, fix: "Set agent.workspace." };
  if (await isWritable(path)) return { status: "ok", detail: path };
  return {
    status: "fail",
    detail: `${path} is not writable`,
    fix: "Change its permissions, or set agent.workspace.",
  };
}

/** Returns why a missing folder cannot be created, or undefined. */
async function whyNotCreatable(path: string, setting: string): Promise<CheckResult | undefined> {
  const above = await nearestAbove(path);
  const found = await stat(above);
  if (found.isDirectory() && (await isWritable(above))) return undefined;
  const why = found.isDirectory() ? `${above} is not writable` : `${above} is a file`;
  const fix = `Set ${setting} to a writable folder.`;
  return { status: "fail", detail: `${path} cannot be created: ${why}`, fix };
}

/** Returns the path or its nearest existing ancestor. */
async function nearestAbove(path: string): Promise<string> {
  const exists = await stat(path).then(
    () => true,
    () => false,
  );
  return exists || dirname(path) === path ? path : nearestAbove(dirname(path));
}

function isWritable(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function programs(): Promise<CheckResult> {
  const names = ["bash", "git"];
  const missing = [];
  for (const name of names) if (!(await isCommand(name))) missing.push(name);
  if (missing.length === 0) return { status: "ok", detail: names.join(", ") };
  return {
    status: "warn",
    detail: `${missing.join(", ")} not found`,
    fix: "Install them: the agent's tools need them.",
  };
}

async function port(
  { api_server: { host, port: number } }: Config,
  context: CliContext,
): Promise<CheckResult> {
  const address = `${host}:${number}`;
  const gateway = await findLocalGateway(undefined, context);
  const occupant = await occupantOf(gateway.baseUrl);
  if (occupant.kind === "free") return { status: "ok", detail: `${address} is free` };
  if (!isAgentd(occupant)) {
    return { status: "fail", detail: `${address} is in use by another program`, fix: "Set api_server.port." };
  }
  const { AgentApiError, createAgentClient } = await import("../../client/http.ts");
  try {
    const { data } = await createAgentClient(gateway).getDetailedHealth();
    return { status: "ok", detail: `agentd ${data.version} of this home runs at ${address}` };
  } catch (error) {
    if (!(error instanceof AgentApiError) || error.status !== 401) throw error;
    const detail = `${address} is in use by an agentd that refuses the key of this home: it serves another home`;
    return { status: "fail", detail, fix: "Set api_server.port, or stop that agentd." };
  }
}

async function mcp({ mcp: { servers } }: Config): Promise<CheckResult> {
  const enabled = Object.entries(servers).filter(([, { enabled: isOn }]) => isOn);
  if (enabled.length === 0) return { status: "ok", detail: "no servers are configured" };
  for (const [name, { command, url }] of enabled) {
    if ((command === undefined) === (url === undefined)) {
      return {
        status: "fail",
        detail: `${name} needs either command or url`,
        fix: `Correct mcp.servers.${name}.`,
      };
    }
    if (command !== undefined && !(await isCommand(command))) {
      return {
        status: "fail",
        detail: `${name}: ${command} was not found`,
        fix: `Install it, or correct mcp.servers.${name}.command.`,
      };
    }
  }
  return { status: "ok", detail: enabled.map(([name]) => name).join(", ") };
}

function search({ web }: Config): CheckResult {
  if (web.search) return { status: "ok", detail: web.search.provider };
  return {
    status: "warn",
    detail: "web search is not configured",
    fix: "Set web.search.provider to enable it.",
  };
}

function isCommand(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", 'command -v "$0" >/dev/null', name], (error) => resolve(error === null));
  });
}
