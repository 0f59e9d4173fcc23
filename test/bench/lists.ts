import { performance } from "node:perf_hooks";
import process from "node:process";
import type { OperationId } from "../../generated/http/server.gen.ts";
import { cursorBehind } from "../../src/agent/session/session.ts";
import { rawTx } from "../../src/store/tx/tx.ts";
import { addMessage } from "../harness/outbox.ts";
import { asking, askQuestion, createJob } from "../harness/control.ts";
import { KEY, startTestService, type TestService } from "../harness/service.ts";
import { fetchRun, post } from "../harness/runs.ts";
import { testDialect } from "../harness/store.ts";
import { deliveryRow, occurrenceRow } from "../unit/store/rows.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const FEW = 1_000;
const MANY = 1_000_000;
const PAGE = 100;
const ROUNDS = 60;
const WARM_UP_ROUNDS = 10;
const GOAL_RATIO = 2;
const FIRST_NUMBER = 1_000_000_000_000_000;
const FIRST_MS = 1_700_000_000_000;

/** A list, and the table whose rows it shows: `row` is copied, with other values in the columns of `differs`. */
interface List {
  readonly operation: OperationId;
  readonly name: string;
  readonly path: string;
  readonly table: string;
  readonly row: string;
  /** SQL of each value; `n` counts the rows from 1. */
  readonly differs: Readonly<Record<string, string>>;
  /** What `after` takes to continue behind row `n`; `first`: a position of the list. */
  readonly behind: (n: number, first: string) => string;
}

/** Ids sort by their time, and these are older than those of real rows. */
const id = (prefix: string) => `'${prefix}_01j0000000' || cast(${FIRST_NUMBER} + n as text)`;
const behindId = (prefix: string) => (n: number) => `${prefix}_01j0000000${FIRST_NUMBER + n}`;
const time = `${FIRST_MS} + n`;

export const lists: readonly List[] = [
  {
    operation: "listSessions",
    name: "sessions",
    path: "/v1/sessions",
    table: "sessions",
    row: "title is not null",
    differs: { id: id("s"), title: "'Session ' || cast(n as text)", created_at: time, updated_at: time },
    behind: (n) => cursorBehind(FIRST_MS + n, behindId("s")(n)),
  },
  {
    operation: "listSessionMessages",
    name: "messages of a session",
    path: "/v1/sessions/s/messages?order=asc",
    table: "messages",
    row: "content like '%How are you%'",
    differs: { seq: "n + 10", created_at: time },
    behind: (n) => String(n + 10),
  },
  {
    operation: "listRuns",
    name: "runs",
    path: "/v1/runs",
    table: "runs",
    row: "status = 'completed'",
    differs: { id: id("run"), created_at: time, started_at: time, updated_at: time, ended_at: time },
    behind: behindId("run"),
  },
  {
    operation: "listQuestions",
    name: "answered questions",
    path: "/v1/questions?status=answered",
    table: "questions",
    row: "status = 'answered'",
    differs: { id: id("ask"), created_at: time, answered_at: time },
    behind: behindId("ask"),
  },
  {
    operation: "listDeliveries",
    name: "webhook deliveries",
    path: "/v1/webhooks/deliveries",
    table: "deliveries",
    row: "status = 'completed'",
    differs: { id: id("dlv"), created_at: time, ended_at: time },
    behind: behindId("dlv"),
  },
  {
    operation: "listOccurrences",
    name: "occurrences",
    path: "/v1/occurrences",
    table: "occurrences",
    row: "status = 'ok'",
    differs: { id: id("occ"), scheduled_at: time, claimed_at: time, started_at: time, ended_at: time },
    behind: behindId("occ"),
  },
  {
    operation: "listMessages",
    name: "messages",
    path: "/v1/outbox",
    table: "outbox",
    row: "status = 'delivered'",
    differs: { id: id("out"), created_at: time, done_at: time },
    behind: behindId("out"),
  },
  {
    operation: "streamEvents",
    name: "events of the feed",
    path: "/v1/events",
    table: "changes",
    row: "entries like '[[\"session.created%' and count = 1 and id < 1000",
    differs: { id: "n + 1000", created_at: time },
    behind: (n, first) => first.replace(/\d+$/, String(n + 1_000)),
  },
];

/** Why a list cannot have a million rows, so that no row measures it. */
export const bounded: Partial<Record<OperationId, string>> = {
  listResponseInputItems: "the input of one request, which limits.max_body_bytes bounds",
  listJobs: "jobs have a limit",
  listJobTimes: "computed from a schedule, up to the limit of the page",
  getUsage: "one row for each day, model and so on, of the days that are asked for",
  listBudgets: "two for the owner, and one for each key",
  listPrices: "the models of the configuration",
  listProviders: "the configuration",
  listSkills: "folders, which have a limit",
  listToolsets: "part of the program, and the servers of the configuration",
  listTools: "part of the program, and the servers of the configuration",
  listMcpServers: "the configuration",
  listPlatforms: "part of the program",
  listVariables: "one file",
  listKeys: "people make them by hand",
  listGrants: "people give them by hand",
  listLogs: "a ring in memory",
  listRoutes: "one file, and the configuration",
  listConsoleSessions: "sign-ins of people, which expire",
};

/** What a page of each list costs among a million rows, by one among a thousand. */
export async function run(): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const list of lists) {
    console.error(`  ${list.name} ...`);
    rows.push(...(await measure(list)));
  }
  return rows;
}

/** The first page, and one from the middle: what lies before it must cost nothing. */
async function measure(list: List): Promise<readonly BenchRow[]> {
  await using few = await filled(list, FEW);
  await using many = await filled(list, MANY);
  const [first, middle] = [await pathsOf(few, list, FEW), await pathsOf(many, list, MANY)];
  const rows: BenchRow[] = [];
  for (const [where, name] of [
    ["first", `page of ${PAGE} ${list.name}, ${MANY} stored, by ${FEW} stored`],
    ["middle", "  from the middle"],
  ] as const) {
    const ofFew: number[] = [];
    const ofMany: number[] = [];
    for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
      const times = [await msOf(few, first[where]), await msOf(many, middle[where])] as const;
      if (round < WARM_UP_ROUNDS) continue;
      ofFew.push(times[0]);
      ofMany.push(times[1]);
    }
    const [value, control] = [median(ofMany), median(ofFew)];
    const ratio = value / control;
    const goal = { goal: `<= ${GOAL_RATIO}x`, met: ratio <= GOAL_RATIO };
    rows.push({ name, value, unit: UNIT, control, ratio, ...goal });
  }
  return rows;
}

/** CPU time, which other programs do not change. The work of a PostgreSQL server is in the elapsed time alone. */
async function msOf(service: TestService, path: string): Promise<number> {
  const before = [performance.now(), process.cpuUsage()] as const;
  await page(service, path);
  if (testDialect === "postgres") return performance.now() - before[0];
  const { user, system } = process.cpuUsage(before[1]);
  return (user + system) / 1_000;
}

const UNIT = testDialect === "postgres" ? "ms" : "ms of CPU";

interface Page {
  readonly data: readonly unknown[];
  readonly last_id: string;
}

async function page(service: TestService, path: string): Promise<Page> {
  const response = await service.request(path, { headers: { accept: "application/json" } });
  const body = (await response.json()) as Page;
  if (body.data?.length !== PAGE) {
    const log = service.logLines.slice(-3).join("\n");
    throw new Error(`${path} answered ${JSON.stringify(body).slice(0, 500)}\n${log}`);
  }
  return body;
}

/** The first page, and the one behind half of the rows. */
async function pathsOf(service: TestService, { path, behind }: List, count: number) {
  const first = `${path}${path.includes("?") ? "&" : "?"}limit=${PAGE}`;
  const { last_id: position } = await page(service, first);
  const after = behind(Math.floor(count / 2), position);
  return { first, middle: `${first}&after=${encodeURIComponent(after)}` };
}

async function filled(list: List, count: number): Promise<TestService> {
  const service = await startTestService({
    ...asking("rm -rf a"),
    keys: [{ key: KEY, name: "default", scopes: ["admin"] }],
    // A sweep would delete the rows, which are old.
    config: { retention: { sweep_minutes: 1_440 } },
  });
  await addRows(service);
  const { table, row, differs } = list;
  await service.service.store.write(async (tx) => {
    const raw = rawTx(tx);
    const [one] = await raw.all(`select * from ${table} where ${row} limit 1`, []);
    if (!one) throw new Error(`no row of ${table} is like ${row}`);
    const columns = Object.keys(one);
    const values = columns.map((column) => differs[column] ?? `one.${column}`);
    await raw.run(
      `insert into ${table} (${columns.join(", ")})
       with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${count})
       select ${values.join(", ")} from numbers, (select * from ${table} where ${row} limit 1) as one`,
      [],
    );
    if (raw.dialect === "postgres") await raw.run(`analyze ${table}`, []);
  });
  return service;
}

/** One row of each list. */
async function addRows(service: TestService): Promise<void> {
  await post(service, "/v1/sessions", { id: "s", title: "A title" });
  const question = await askQuestion(service);
  await post(service, `/v1/questions/${question.id}/answer`, { choice: "once" });
  await fetchRun(service, question.run_id, 30);
  await addMessage(service, { status: "delivered" });
  const { id: job } = await createJob(service);
  const at = FIRST_MS;
  const { store } = service.service;
  const session = await store.read
    .selectFrom("sessions")
    .select("id")
    .where("title", "=", "A title")
    .executeTakeFirstOrThrow();
  const message = { role: "user", text: "Hello! How are you today?" };
  await store.write(async (tx) => {
    await tx.insert("messages", [
      {
        session_id: session.id,
        seq: 1,
        run_id: null,
        role: "user",
        content: JSON.stringify(message),
        created_at: at,
      },
    ]);
    await tx.insert("deliveries", [deliveryRow({ status: "completed", created_at: at, ended_at: at })]);
    await tx.insert("occurrences", [
      occurrenceRow({
        id: "occ_00000000000000000000000000",
        job_id: job,
        claimed_at: at,
      }),
    ]);
  });
}

await runAlone(import.meta.url, run);
