import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { untilCalled, type Server } from "./child.ts";
import { drive } from "./load.ts";
import { median, runAlone, type BenchRow } from "./row.ts";
import { push, receiver, signed } from "./webhook.ts";

const FEW = 1_000;
const MANY = 1_000_000;
const CLIENTS = 64;
const ROUNDS = 4;
const ROUND_MS = 3_000;
const WARM_UP_MS = 2_000;
const GOAL_RATIO = 2;

/** What accepting costs when much was accepted before: deliveries that are kept, and ids that are known. */
export async function run(): Promise<readonly BenchRow[]> {
  await using few = await Filled.open(FEW);
  await using many = await Filled.open(MANY);
  const load = { ...signed("/webhooks/hook", push), connections: CLIENTS };
  const both = [few, many];
  for (const each of both) each.sent += (await drive({ ...load, url: each.server.url }, WARM_UP_MS)).answers;
  for (let n = 0; n < ROUNDS; n++) {
    for (const each of both) {
      const { server, rates, cpu } = each;
      const before = await server.cpuMicros();
      const { answers, seconds } = await drive({ ...load, url: server.url }, ROUND_MS);
      each.sent += answers;
      rates.push(answers / seconds);
      cpu.push(((await server.cpuMicros()) - before) / answers);
    }
  }
  for (const { server, sent } of both) await untilCalled(server, sent);
  const [rate, fewRate] = [median(many.rates), median(few.rates)];
  const [cpu, fewCpu] = [median(many.cpu), median(few.cpu)];
  return [
    {
      name: `webhooks accepted and run, ${MANY} stored, by ${FEW} stored`,
      value: rate,
      unit: "requests/s",
      control: fewRate,
      ratio: rate / fewRate,
      goal: `>= ${1 / GOAL_RATIO}x`,
      met: rate / fewRate >= 1 / GOAL_RATIO,
    },
    {
      name: "  server CPU for one",
      value: cpu,
      unit: "us",
      control: fewCpu,
      ratio: cpu / fewCpu,
      goal: `<= ${GOAL_RATIO}x`,
      met: cpu / fewCpu <= GOAL_RATIO,
    },
  ];
}

/** A receiver whose database has so many deliveries already. */
class Filled implements AsyncDisposable {
  readonly server: Server;
  readonly rates: number[] = [];
  readonly cpu: number[] = [];
  sent = 0;
  readonly #home: string;

  private constructor(server: Server, home: string) {
    this.server = server;
    this.#home = home;
  }

  static async open(count: number): Promise<Filled> {
    const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
    // Makes the tables.
    await (await receiver({}, home))[Symbol.asyncDispose]();
    fill(join(home, "state.db"), count);
    return new Filled(await receiver({}, home), home);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await rm(this.#home, { recursive: true, force: true });
  }
}

/** Deliveries that ended, with their bodies, and their ids, which are known for an hour yet. */
function fill(path: string, count: number): void {
  const db = new DatabaseSync(path);
  const nowMs = Date.now();
  const numbers = `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${count})`;
  // Before all that come: ids sort by their time.
  const id = (prefix: string) => `printf('${prefix}_01j0000000%016d', n)`;
  db.exec("pragma synchronous = off; begin");
  db.exec(
    `insert into deliveries (id, owner, route, delivery_id, event, status, stages, headers, run_id, created_at, ended_at)
     ${numbers} select ${id("dlv")}, 'default', 'hook', ${id("old")}, 'push', 'completed', '[]', '{}', ${id("run")},
       ${nowMs} - n, ${nowMs} from numbers`,
  );
  db.exec(
    `insert into delivery_bodies (id, payload, rendered)
     ${numbers} select ${id("dlv")}, '{"ref":"refs/heads/main"}', 'Push' from numbers`,
  );
  db.exec(
    `insert into ledger (scope, key, fingerprint, status, owner, result, created_at, expires_at)
     ${numbers} select 'webhook:hook', ${id("old")}, '', 'done', '', 'null', ${nowMs}, ${nowMs} + 3600000 from numbers`,
  );
  db.exec("commit; pragma wal_checkpoint(truncate)");
  db.close();
}

await runAlone(import.meta.url, run);
