/** `agentd doctor`: finds problems and says what to do. Each check is independent and changes nothing. */
import process from "node:process";
import { defineCommand } from "citty";
import { redact } from "../../base/observe/redact.ts";
import { currentContext, type CliContext } from "../kit/context.ts";
import { type Finding, type CheckResult, occupantOf } from "./finding.ts";
import { print, printJson } from "../kit/output.ts";
import { jsonOption } from "../kit/options.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { execFile } from "node:child_process";
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Config } from "../../../generated/config/types.gen.ts";
import { formatModel } from "../../agent/model.ts";
import { createLog } from "../../base/observe/log.ts";
import { envPath } from "../../config/home.ts";
import { formatConfigIssue } from "../../config/issue.ts";
import { loadConfig, type LoadedConfig } from "../../config/config.ts";
import { resolvePaths } from "../../config/paths.ts";
import { createCatalog, findProviders } from "../../app/models.ts";
import { cron } from "./cron.ts";
import { outbox, platforms } from "./platforms.ts";
import { webhooks } from "./webhooks.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";

const MARKS: Readonly<Record<Finding["status"], string>> = { ok: "ok  ", warn: "warn", fail: "FAIL" };

export const doctorCommand = defineCommand({
  meta: { name: "doctor", description: "Check the installation for problems. Exits with 1 if a check fails" },
  args: { json: jsonOption },
  async run({ args }) {
    const findings = await runChecks(currentContext());
    if (args.json) printJson({ findings });
    for (const { name, status, detail, fix } of args.json ? [] : findings) {
      print(`${MARKS[status]}  ${name.padEnd(10)} ${redact(detail)}`);
      if (fix !== undefined) print(`${" ".repeat(17)}-> ${fix}`);
    }
    if (findings.some(({ status }) => status === "fail")) process.exitCode = EXIT_FAILURE;
  },
});

type Check = (checkContext: CheckContext) => Promise<CheckResult>;

interface CheckContext {
  readonly context: CliContext;
  readonly loaded: LoadedConfig;
  readonly config: Config;
}

const CHECK_TIMEOUT_MS = 10_000;
const MIN_FREE_BYTES = 500_000_000;

/** Returns all findings in a fixed order. A check that throws or exceeds ten seconds fails. */
async function runChecks(context: CliContext): Promise<readonly Finding[]> {
  const loaded = await loadConfig(context);
  const checkContext = { context, loaded, config: loaded.config };
  return Promise.all(
    Object.entries(checks).map(async ([name, check]) => ({ name, ...(await bounded(check, checkContext)) })),
  );
}

const checks: Readonly<Record<string, Check>> = {
  runtime: async () => runtime(),
  home: ({ context }) => folder(context.home, "agentd creates it at its first start."),
  config: async ({ loaded }) => config(loaded),
  secrets: ({ context }) => secrets(envPath(context.home)),
  database: () => database(),
  disk: ({ context }) => disk(context),
  workspace: ({ context, config, loaded }) => workspace(context, config, loaded),
  programs: () => programs(),
  model: ({ config, loaded }) => model(config, loaded),
  port: ({ config }) => port(config),
  webhooks: ({ config, context, loaded }) => webhooks({ config, home: context.home, env: loaded.env }),
  platforms: ({ loaded }) => platforms(loaded),
  outbox: () => outbox(Date.now()),
  cron: ({ context, loaded }) => cron(loaded, context),
  mcp: ({ config }) => mcp(config),
  search: async ({ config }) => search(config),
};

async function bounded(check: Check, checkContext: CheckContext): Promise<CheckResult> {
  const late = Promise.withResolvers<CheckResult>();
  const timer = setTimeout(
    () => late.resolve({ status: "fail", detail: `the check exceeded ${CHECK_TIMEOUT_MS / 1000} s` }),
    CHECK_TIMEOUT_MS,
  );
  try {
    return await Promise.race([check(checkContext), late.promise]);
  } catch (error) {
    return { status: "fail", detail: error instanceof Error ? error.message : "the check failed" };
  } finally {
    clearTimeout(timer);
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

async function database(): Promise<CheckResult> {
  const found = await findDatabase();
  if (!found.exists)
    return {
      status: "ok",
      detail: `${found.location} does not exist yet; agentd creates it at its first start`,
    };
  let sessions = 0;
  await withDatabase(found, async (store) => {
    const { count } = await store.read
      .selectFrom("sessions")
      .select((is) => is.fn.countAll<number | string>().as("count"))
      .executeTakeFirstOrThrow();
    sessions = Number(count);
  });
  return { status: "ok", detail: `${found.location}, ${sessions} sessions` };
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

async function model(config: Config, loaded: LoadedConfig): Promise<CheckResult> {
  const providers = await findProviders(
    config,
    loaded.env,
    createLog("error", () => {}),
  );
  const name = formatModel(createCatalog(config, providers).default);
  if (name === "demo:demo") {
    return {
      status: "warn",
      detail: "no provider is configured, so the built-in demo model answers",
      fix: "Run `agentd setup`.",
    };
  }
  const provider = providers.find((each) => name.startsWith(`${each.name}:`));
  if (provider && provider.apiKey === undefined && provider.type !== "openai_compatible") {
    const fix = `Add its key to .env, or run \`agentd setup --provider ${provider.type}\`.`;
    return { status: "fail", detail: `${name}: the provider ${provider.name} has no API key`, fix };
  }
  return { status: "ok", detail: `${name}; test it with \`agentd model test\`` };
}

async function port({ api_server: { host, port: number } }: Config): Promise<CheckResult> {
  const address = `${host}:${number}`;
  const occupant = await occupantOf({ host, port: number });
  if (occupant.kind === "free") return { status: "ok", detail: `${address} is free` };
  if (occupant.kind === "health" && "version" in occupant.body) {
    const { version } = occupant.body;
    if (typeof version === "string") return { status: "ok", detail: `agentd ${version} runs at ${address}` };
  }
  return { status: "fail", detail: `${address} is in use by another program`, fix: "Set api_server.port." };
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
