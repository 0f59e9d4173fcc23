import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { openStore } from "../../src/store/open.ts";
import { KEY } from "../harness/service.ts";
import { startServer, type Server } from "./child.ts";
import { median, type BenchRow } from "./row.ts";

const FEW = 10_000;
/** AGENTD_BENCH_EVENTS=10000000 for the whole of it: two minutes and 3 GB of disk. */
const MANY = Number(process.env["AGENTD_BENCH_EVENTS"] ?? 1_000_000);
const PER_RUN = 1_000;
const MISSED = 50;
const SAMPLES = 400;
const WARM_UPS = 100;

/** A client that missed the last events of a run, in a journal with few events and in one with many, in turns. */
export async function resumes(): Promise<readonly BenchRow[]> {
  await using few = await Journal.open(FEW);
  await using many = await Journal.open(MANY);
  const [fewMs, manyMs]: [number[], number[]] = [[], []];
  for (let i = 0; i < WARM_UPS + SAMPLES; i++) {
    const pair = [await few.resumeMs(), await many.resumeMs()] as const;
    if (i < WARM_UPS) continue;
    fewMs.push(pair[0]);
    manyMs.push(pair[1]);
  }
  const [value, control] = [median(manyMs), median(fewMs)];
  return [
    {
      name: `resume among ${MANY} events and among ${FEW}, p50`,
      value,
      unit: "ms",
      control,
      ratio: value / control,
      goal: "<= 2x",
      met: value / control <= 2,
    },
  ];
}

/** A service on a database with so many events. */
class Journal implements AsyncDisposable {
  readonly #events: number;
  readonly #home: string;
  readonly #server: Server;

  constructor(events: number, home: string, server: Server) {
    this.#events = events;
    this.#home = home;
    this.#server = server;
  }

  static async open(events: number): Promise<Journal> {
    const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
    await fill(join(home, "state.db"), events);
    return new Journal(events, home, await startServer("service", "", home));
  }

  /** One client, of any run. */
  async resumeMs(): Promise<number> {
    const run = Math.floor(Math.random() * (this.#events / PER_RUN));
    const url = `${this.#server.url}/v1/runs/${runId(run)}/events?after=${PER_RUN - MISSED}`;
    const startMs = performance.now();
    const text = await (await fetch(url, { headers: { authorization: `Bearer ${KEY}` } })).text();
    const tookMs = performance.now() - startMs;
    if (text.split("\nid: ").length !== MISSED + 1) throw new Error(`the stream was ${text.slice(0, 400)}`);
    return tookMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
    await rm(this.#home, { recursive: true, force: true });
  }
}

const runId = (run: number) => `run_${String(run).padStart(26, "0")}`;

/** Ended runs of a thousand events each, written as fast as SQLite can. */
async function fill(path: string, events: number): Promise<void> {
  const store = await openStore({ url: path });
  await store.close();
  const database = new DatabaseSync(path);
  database.exec("pragma synchronous = off; pragma journal_mode = memory; pragma cache_size = -400000");
  const numbers = (to: number) =>
    `with recursive n(i) as (select 0 union all select i + 1 from n where i < ${to - 1})`;
  const id = "printf('run_%026d', i)";
  const nowMs = Date.now();
  database.exec("begin");
  database.exec(
    `insert into sessions (id, owner, source, meta, transient, last_seq, last_message, queued, lease_until,
       created_at, updated_at, context_seq) ${numbers(events / PER_RUN)}
     select 's_' || ${id}, 'default', 'http', '{}', 1, ${PER_RUN}, 0, 0, 0, ${nowMs}, ${nowMs}, 0 from n`,
  );
  database.exec(
    `insert into runs (id, session_id, owner, kind, status, model, input, output, metadata, last_seq, last_event,
       stop_requested, created_at, started_at, updated_at, ended_at, precedence) ${numbers(events / PER_RUN)}
     select ${id}, 's_' || ${id}, 'default', 'run', 'completed', 'demo:demo', '{"prompt":[]}', 'done', '{}', ${PER_RUN},
       'run.completed', 0, ${nowMs}, ${nowMs}, ${nowMs}, ${nowMs}, 0 from n`,
  );
  database.exec(
    `insert into events (session_id, seq, run_id, run_seq, type, data, created_at) ${numbers(events)}
     select printf('s_run_%026d', i / ${PER_RUN}), i % ${PER_RUN} + 1, printf('run_%026d', i / ${PER_RUN}),
       i % ${PER_RUN} + 1,
       case when i % ${PER_RUN} = ${PER_RUN - 1} then 'run.completed' else 'message.delta' end,
       '{"message_id":"msg_1","delta":"a piece of what the model said"}', ${nowMs} from n`,
  );
  database.exec("commit");
  database.close();
}
