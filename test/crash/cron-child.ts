/** A gateway on compressed time, with a scripted agent, to be killed: one argument, JSON of {@link ChildOptions}. */
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setInterval } from "node:timers";
import type { Engine } from "../../src/agent/engine.ts";
import { createScriptedEngine, type ScriptStep } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog } from "../../src/agent/model.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { Variables } from "../../src/config/variables.ts";
import { startService } from "../../src/app/service.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store, Tx } from "../../src/store/store.ts";
import { CompressedClock, type Compression } from "../harness/compressed-clock.ts";
import { testConfig } from "../harness/service.ts";
import { endWithParent } from "../unit/store/child.ts";

export interface ChildOptions {
  readonly home: string;
  readonly database: string;
  readonly compression: Compression;
  /** Home Assistant, as far as messages need it. */
  readonly platform: string;
  /** Its machine: of another one nobody knows whether a process is gone, so that leases have to run out. */
  readonly host?: string;
  /** Where it stops writing, says so and waits to be killed: after the commit that brings an occurrence there. */
  readonly stopAt?: "claimed" | "ended";
}

/** A process that stands still for so long, compressed, may lose a lease. */
const STALL_MS = 10_000;
const LOOK_EVERY_MS = 10;
const failure = { kind: "network", retryable: true } as const;

const options = JSON.parse(process.argv[2] ?? "{}") as ChildOptions;
const { home, database, compression, platform, host } = options;
const clock = new CompressedClock(compression);
const tell = (value: unknown) => void process.stdout.write(`${JSON.stringify(value)}\n`);
const note = (file: string, value: unknown) => appendFileSync(join(home, file), `${JSON.stringify(value)}\n`);

endWithParent();
noteStalls();
const log = createLog("info", (line) => appendFileSync(join(home, "log.jsonl"), `${line}\n`));
const opened = await openStore({
  url: database,
  now: () => clock.now(),
  ...(host === undefined ? {} : { host }),
  onProblem: (message, error) => log.warn(message, { error }),
});
const service = await startService({
  config: testConfig({
    sessions: { titles: "off" },
    delivery: { retry_seconds: Array.from({ length: 20 }, () => 20), timeout_seconds: 600 },
    cron: { keep_outputs: 10_000, max_parallel_jobs: 100, inactivity_seconds: 0 },
    retention: { runs_hours: 1_000 },
    limits: { max_concurrent_runs: 0 },
    platforms: { homeassistant: { extra: { base_url: platform, token: "token-of-the-test" } } },
  }),
  paths: { agentHome: home, userHome: home, workspace: home, databaseUrl: database },
  keys: { required: true, find: () => undefined },
  models: createModelCatalog({ providers: [] }),
  engine: noted(createScriptedEngine(({ user }) => answerTo(user), { clock: systemClock })),
  env: {},
  variables: await Variables.open({ env: {}, home }),
  version: "0.0.0-test",
  log,
  clock,
  store: options.stopAt === undefined ? timed(opened) : stopping(opened, options.stopAt),
});
process.once("SIGTERM", () => void service.stop().then(() => process.exit(0)));
tell("started");

/** Leaves a line for each turn that begins. */
function noted(engine: Engine): Engine {
  return {
    name: engine.name,
    runTurn: (turn) => {
      note("turns.jsonl", { runId: turn.runId });
      return engine.runTurn(turn);
    },
  };
}

/** Prompts say what becomes of them: `takes=<ms>`, `says=<word>`, `hangs-once`. */
async function answerTo(prompt: string): Promise<ScriptStep> {
  const { ms = "0" } = /takes=(?<ms>\d+)/.exec(prompt)?.groups ?? {};
  await new Promise((resolve) => setTimeout(resolve, Number(ms)));
  if (prompt.includes("hangs-once") && !existsSync(join(home, "hung"))) {
    note("hung", prompt);
    tell("answering");
    await new Promise(() => {});
  }
  const { word = "done" } = /says=(?<word>\S+)/.exec(prompt)?.groups ?? {};
  if (word === "failure") return { error: { code: "provider_error", message: "The model said no." } };
  if (word === "nothing") return { error: { code: "provider_error", message: "Nobody is there.", failure } };
  return { text: word };
}

/** Everything after that commit waits, as if the process were gone; what was on its way before is done. */
function stopping(store: Store, point: NonNullable<ChildOptions["stopAt"]>): Store {
  const isThere = async (tx: Tx): Promise<boolean> => {
    const query = tx.db.selectFrom("occurrences").select("id");
    const found = query.where("status", "=", point === "claimed" ? "claimed" : "ok");
    return (await found.executeTakeFirst()) !== undefined;
  };
  let isStopped = false;
  return {
    ...store,
    write: async (work, writeOptions) => {
      if (isStopped) await new Promise(() => {});
      return store.write(async (tx) => {
        const value = await work(tx);
        if (isStopped || !(await isThere(tx))) return value;
        isStopped = true;
        tx.afterCommit(() => tell("stopped"));
        return value;
      }, writeOptions);
    },
  };
}

/** A database that takes its time keeps leases from being renewed as well. */
function timed(store: Store): Store {
  return {
    ...store,
    write: async (work, writeOptions) => {
      const fromMs = Date.now();
      try {
        return await store.write(work, writeOptions);
      } finally {
        noteStall(fromMs);
      }
    },
  };
}

/** Leaves a line for each time in which this process could not have kept its leases, by the machine's clock. */
function noteStalls(): void {
  let lastMs = Date.now();
  setInterval(() => {
    noteStall(lastMs);
    lastMs = Date.now();
  }, LOOK_EVERY_MS);
}

function noteStall(fromMs: number): void {
  const untilMs = Date.now();
  if (untilMs - fromMs > STALL_MS / compression.factor + LOOK_EVERY_MS)
    note("stalls.jsonl", { fromMs, untilMs });
}
