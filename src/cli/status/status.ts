/** `agentd status`: what runs here, from the gateway if one listens, otherwise from the home and its database. */
import { countOpenRuns, countOpenQuestions } from "../../store/stats.ts";
import { readlink, stat } from "node:fs/promises";
import process from "node:process";
import type { DetailedHealth } from "../../client/http.ts";
import { modelStatus, openModels } from "../../app/models.ts";
import { createLog, redact } from "../../base/observe.ts";
import { loadConfig } from "../../config/config.ts";
import { readCronStatus } from "../../cron/tick/status.ts";
import { readOutboxStats } from "../../deliver/outbox/stats.ts";
import { findSandbox } from "../../exec/sandbox/sandbox.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { withApi, type Api } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext, type CliContext } from "../kit/context.ts";
import { findDatabase, withDatabase } from "../kit/database.ts";
import {
  findLocalGateway,
  gatewayPortOption,
  isAgentd,
  occupantOf,
  wrongKey,
  type LocalGateway,
} from "../kit/local-gateway.ts";
import { jsonOption } from "../kit/options.ts";
import { readPages } from "../kit/pages.ts";
import { currentTarget } from "../kit/target.ts";
import { logPath } from "../service/log-file.ts";
import { print, printJson } from "../kit/output.ts";
import { statusText, type HomeStatus, type ServiceStatus } from "./text.ts";

export const statusCommand = defineApiCommand({
  meta: {
    name: "status",
    description:
      "Show what runs: the gateway, its model, open runs and questions, jobs and messages. Exits with 1 if no gateway runs",
  },
  args: { port: gatewayPortOption, json: jsonOption },
  async run({ args }) {
    const isThere = (await currentTarget()) !== undefined;
    const status = await (isThere ? withApi(readServer) : readHome(currentContext(), args.port));
    if (args.json) printJson(status);
    else print(redact(statusText(status, Date.now())));
    if (!status.gateway.running) process.exitCode = EXIT_FAILURE;
  },
});

/** More open questions are not counted. */
const MAX_QUESTIONS = 1_000;

async function readServer({ client, server, anyOwner: headers }: Api): Promise<HomeStatus> {
  const { data: health } = await client.getDetailedHealth();
  const { rows: open } = await readPages((query) => client.listQuestions({ query, headers }), {
    limit: MAX_QUESTIONS,
  });
  return {
    home: null,
    gateway: { ...runningAt(server.baseUrl, health), log: null },
    database: null,
    questions: open.length,
    ...countsOf(health),
    ...serviceOf(health),
    problems: problemsOf(health),
  };
}

async function readHome(context: CliContext, port: string | undefined): Promise<HomeStatus> {
  const gateway = await findLocalGateway(port);
  const { health, problem } = await readHealth(gateway);
  const [database, service] = await Promise.all([
    readDatabase(),
    health ? serviceOf(health) : idleService(context),
  ]);
  // What the running gateway counted is what it works on; only its database knows the questions.
  return {
    home: context.home,
    gateway: await gatewayOf(gateway, { health, context }),
    database: database.database,
    ...(health ? { ...database.counts, ...countsOf(health) } : database.counts),
    ...service,
    problems: [problem, database.problem, ...(health ? problemsOf(health) : [])].filter(
      (each) => each !== undefined,
    ),
  };
}

interface HealthAnswer {
  readonly health?: DetailedHealth;
  readonly problem?: string;
}

const HEALTH_TIMEOUT_MS = 5_000;

/** Requests the health of the gateway. Without a gateway, both are undefined. Never rejects. */
async function readHealth(gateway: LocalGateway): Promise<HealthAnswer> {
  const occupant = await occupantOf(gateway.baseUrl);
  if (occupant.kind === "free") return {};
  if (!isAgentd(occupant)) return { problem: `Another program listens at ${gateway.baseUrl}.` };
  const { AgentApiError, createAgentClient } = await import("../../client/http.ts");
  try {
    const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    return { health: (await createAgentClient(gateway).getDetailedHealth({ signal })).data };
  } catch (error) {
    if (error instanceof AgentApiError && error.status === 401) return { problem: wrongKey(gateway).message };
    const reason = error instanceof Error ? error.message : String(error);
    return { problem: `The gateway at ${gateway.baseUrl} did not report its health: ${reason}` };
  }
}

async function gatewayOf(
  { baseUrl }: LocalGateway,
  { health, context }: { readonly health: DetailedHealth | undefined; readonly context: CliContext },
): Promise<HomeStatus["gateway"]> {
  if (!health) return { running: false, url: baseUrl };
  return { ...runningAt(baseUrl, health), log: await logOf(health.pid, context) };
}

function runningAt(url: string, health: DetailedHealth) {
  return {
    running: true as const,
    url,
    version: health.version,
    pid: health.pid,
    started_at: health.started_at,
    uptime_seconds: health.uptime_seconds,
    state: health.draining
      ? ("stopping" as const)
      : health.recovering
        ? ("recovering" as const)
        : ("ready" as const),
  };
}

/** Returns the log file, else the file or terminal of the standard error. Null: a pipe, such as to journald, or unknown. */
async function logOf(pid: number, context: CliContext): Promise<string | null> {
  const path = logPath(context.home);
  const { config } = await loadConfig(context);
  if (config.log.max_file_bytes > 0 && (await stat(path).catch(() => undefined))) return path;
  const target = await readlink(`/proc/${pid}/fd/2`).catch(() => "");
  return target.startsWith("/") ? target : null;
}

function countsOf({ runs, outbox, readiness }: DetailedHealth): Partial<HomeStatus> {
  const { cron } = readiness.checks;
  return {
    runs,
    ...(outbox ? { outbox } : {}),
    ...(cron
      ? {
          jobs: {
            scheduled: Number(cron["scheduled"]),
            late: Number(cron["late"]),
            next_due_at: (cron["next_due_at"] as string | null | undefined) ?? null,
          },
        }
      : {}),
  };
}

function problemsOf({ readiness }: DetailedHealth): readonly string[] {
  return Object.entries(readiness.checks).flatMap(([name, check]) =>
    check?.status === "degraded" ? [`${name}: ${check.detail ?? "degraded"}`] : [],
  );
}

function serviceOf({ readiness: { checks } }: DetailedHealth): ServiceStatus {
  const { model, sandbox } = checks;
  const kind = sandbox?.["kind"];
  return {
    model: String(model["model"]),
    sandbox: sandbox
      ? {
          active: sandbox["active"] === true,
          ...(typeof kind === "string" ? { kind } : {}),
          ...(sandbox.detail === undefined ? {} : { detail: sandbox.detail }),
        }
      : { active: false, detail: "terminal.sandbox is off" },
  };
}

/** What a gateway would use if it started now. */
async function idleService(context: CliContext): Promise<ServiceStatus> {
  const { config, env } = await loadConfig(context);
  const quiet = createLog("error", () => {});
  const { model } = modelStatus(await openModels(config, env, quiet), env);
  if (config.terminal.sandbox === "off") {
    return { model, sandbox: { active: false, detail: "terminal.sandbox is off" } };
  }
  const { status } = await findSandbox();
  return {
    model,
    sandbox: status.active
      ? { active: true, kind: status.kind }
      : { active: false, detail: `Commands would run without a sandbox: ${status.reason}.` },
  };
}

interface DatabaseAnswer {
  readonly database: HomeStatus["database"];
  readonly counts: Pick<HomeStatus, "runs" | "questions" | "jobs" | "outbox">;
  readonly problem?: string;
}

/** Counts in the database of the home. Without one, the counts are undefined. */
async function readDatabase(): Promise<DatabaseAnswer> {
  const { exists, location, ...found } = await findDatabase();
  const database = { location, exists };
  if (!exists) return { database, counts: {} };
  let counts: DatabaseAnswer["counts"] = {};
  try {
    await withDatabase({ exists, location, ...found }, async (store) => {
      const [runs, questions, cron, { all: outbox }] = await Promise.all([
        countOpenRuns(store),
        countOpenQuestions(store),
        readCronStatus(store, { nowMs: Date.now() }),
        readOutboxStats(store),
      ]);
      const { queued = 0, running = 0, waiting_for_approval = 0, stopping = 0 } = runs;
      counts = {
        runs: { queued, running, waiting_for_approval, stopping },
        questions,
        jobs: {
          scheduled: cron.jobs.scheduled,
          late: cron.late.count,
          next_due_at: cron.next === undefined ? null : new Date(cron.next.dueAtMs).toISOString(),
        },
        outbox,
      };
    });
    return { database, counts };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { database, counts, problem: `The database cannot be read: ${reason}` };
  }
}
