/**
 * A page costs the same among a thousand rows and among a million: each query of each list uses an index, reads no whole
 * table and sorts nothing that grows, whatever filters it has. test/bench/lists.ts measures it.
 */
import { deliveryRow, occurrenceRow } from "../../unit/store/rows.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql, type Kysely, type KyselyPlugin } from "kysely";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { schemas } from "../../../generated/http/schemas.gen.ts";
import { operations } from "../../../generated/http/server.gen.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import type { Tables } from "../../../src/store/schema/tables.ts";
import { asking, askQuestion, createJob } from "../../harness/control.ts";
import { addMessage } from "../../harness/outbox.ts";
import { post } from "../../harness/runs.ts";
import { bounded, lists as measured } from "../../bench/lists.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

/** Tables that stay small: keys and jobs have a limit, people make permanent approvals by hand. */
const SMALL = ["api_keys", "cron_jobs", "cron_tickers", "grants", "metadata"];

/** What is sorted although it has no limit, and why that is right. */
const SORTED: readonly RegExp[] = [
  // Open work: as much as waits for its turn, or to be sent. An index for its order would cost every run and message.
  /from "runs" .*"ended_at" is null/,
  /from "occurrences" where "ended_at" is null/,
  /from "outbox" .*status in \('due', 'leased'\)/,
  // Sessions of single requests too, for those who look for a fault: retention deletes them after a day.
  /from "sessions" where (?!"transient" = 0)/,
  // The days of a page, and the groups of a day.
  /from "usage_days"/,
];

/** Lists over what is in memory, and the calendar, which has a limit of its own. */
const lists = (Object.entries(operations) as [string, OperationMeta][]).filter(
  ([, { method, query }]) => method === "GET" && query?.coerce["limit"] !== undefined,
);

test("each list is measured by the bench of lists, or has a reason why it stays small", () => {
  const known = new Set([...measured.map(({ operation }) => operation), ...Object.keys(bounded)]);
  assert.deepEqual(
    lists.map(([id]) => id).filter((id) => !known.has(id)),
    [],
    "add a row to test/bench/lists.ts",
  );
  const all = new Set(lists.map(([id]) => id));
  assert.deepEqual(
    [...known].filter((id) => !all.has(id)),
    [],
    "no such list",
  );
});

interface Statement {
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

/** Keeps the statements of `read` while the service works. */
function recordReads(statements: Statement[]): (store: Store) => Store {
  return (store) => {
    const executor = store.read.getExecutor();
    const plugin: KyselyPlugin = {
      transformQuery: ({ node, queryId }) => {
        const { sql: text, parameters } = executor.compileQuery(node, queryId);
        statements.push({ sql: text, parameters });
        return node;
      },
      transformResult: async ({ result }) => result,
    };
    const read = store.read.withPlugin(plugin);
    return new Proxy(store, {
      get(target, key) {
        if (key === "read") return read;
        const member: unknown = Reflect.get(target, key, target);
        return typeof member === "function" ? (member.bind(target) as unknown) : member;
      },
    });
  };
}

/** A value that the parameter takes, and that no row has. */
function valueOf(name: string, meta: OperationMeta): string | undefined {
  const coerce: Readonly<Record<string, string>> = meta.query?.coerce ?? {};
  const { schema = {} } = meta.query ?? {};
  const properties = (schema as { properties: Record<string, Schema> }).properties;
  const own = properties[name] ?? {};
  const [first] = enumOf(own.items ?? own);
  if (first !== undefined) return first;
  if (name === "from" || name === "to") return "2026-01-01T00:00:00Z";
  if (coerce[name] === "boolean") return "true";
  return { cwd: "/", provider: "demo", model: "demo:demo", types: "run.created" }[name] ?? "x";
}

interface Schema {
  readonly enum?: readonly string[];
  readonly items?: Schema;
  readonly $ref?: string;
}

function enumOf({ $ref: ref, enum: values = [] }: Schema): readonly string[] {
  const found = ref === undefined ? undefined : Object.entries(schemas).find(([name]) => ref.endsWith(name));
  return found ? enumOf(found[1]) : values;
}

async function fill(service: TestService): Promise<void> {
  const { store } = service.service;
  assert.equal((await post(service, "/v1/sessions", { id: "s" })).status, 201);
  await askQuestion(service);
  await addMessage(service);
  await addMessage(service, { status: "dead" });
  const { id } = await createJob(service);
  const delivery = deliveryRow({ status: "completed", created_at: 1, ended_at: 2 });
  await store.write(async (tx) => {
    await tx.insert("deliveries", [delivery]);
    await tx.insert("occurrences", [occurrenceRow({ job_id: id })]);
  });
}

/** Says what a plan reads that grows with the table; empty when nothing does. */
async function findGrowth(store: Store, statement: Statement): Promise<readonly string[]> {
  return store.dialect === "postgres"
    ? growthOnPostgres(store.read, statement)
    : growthOnSqlite(store.read, statement);
}

async function growthOnSqlite(read: Kysely<Tables>, statement: Statement): Promise<readonly string[]> {
  const { rows } = await explain(read, "explain query plan ", statement);
  const details = rows.map((row) => String((row as { detail: unknown }).detail));
  const isSorted = details.some((detail) => detail.includes("USE TEMP B-TREE FOR ORDER BY"));
  return details.filter((detail) => {
    // Rows are stored in the order of their key: a page in this order ends with its last row.
    const isWhole = /^SCAN \w+$/.test(detail) && (isSorted || !/\blimit\b/i.test(statement.sql));
    return isWhole || detail.includes("USE TEMP B-TREE FOR ORDER BY");
  });
}

async function growthOnPostgres(read: Kysely<Tables>, statement: Statement): Promise<readonly string[]> {
  const isOwn = statement.sql.includes('"owner" =');
  const { rows } = await explain(read, "explain ", statement);
  const lines = rows.map((row) => String((row as Record<string, unknown>)["QUERY PLAN"]));
  return lines.filter((line) => {
    // Over all owners, the planner weighs a sort of what one index gives against a walk through another.
    const isSorted = isOwn && /(?<!Incremental )Sort {2}\(/.test(line);
    return isSorted || /Seq Scan on/.test(line);
  });
}

/** A store on the same database whose every connection plans as if tables were large: with a few rows, reading all is cheap. */
function openPlanner({ database: { url }, service: { store } }: TestService): Promise<Store> {
  if (store.dialect === "sqlite") return openStore({ url });
  const off = ["seqscan", "sort", "bitmapscan"].map((name) => `enable_${name}=off`).join("&");
  return openStore({ url: `${url}${url.includes("?") ? "&" : "?"}${off}` });
}

function explain(db: Kysely<Tables>, how: string, { sql: text, parameters }: Statement) {
  return db.executeQuery<unknown>({
    ...sql`select 1`.compile(db),
    sql: how + text,
    parameters: [...parameters],
  });
}

const isSmall = ({ sql: text }: Statement) =>
  SMALL.some((table) => text.includes(`from "${table}"`)) || SORTED.some((known) => known.test(text));

/** Statements of a page whose rows are those of the page before: they are as many as the page is long. */
const isBounded = ({ sql: text }: Statement) => !/\blimit\b/i.test(text) && / in \(/.test(text);

test("a page of 100 among 1,000,000 rows costs at most twice one among 1,000: its queries use an index", async () => {
  const statements: Statement[] = [];
  await using service = await startTestService({
    ...asking("rm -rf a"),
    keys: [{ key: KEY, name: "default", scopes: ["admin"] }],
    wrapStore: recordReads(statements),
  });
  await fill(service);
  const planner = await openPlanner(service);
  const grown: string[] = [];
  let checked = 0;
  for (const [id, meta] of lists) {
    const path = meta.route.replace("{session_id}", "s").replaceAll(/\{[^}]+\}/g, "none");
    const names = Object.keys(meta.query?.coerce ?? {}).filter(
      (name) => !["limit", "after", "stream"].includes(name),
    );
    const filters = [
      "",
      ...names.flatMap((name) => {
        const value = valueOf(name, meta);
        return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`];
      }),
    ];
    for (const filter of filters) {
      for (const owner of ["default", "*"]) {
        statements.length = 0;
        const response = await service.request(`${path}?limit=100&${filter}`, {
          headers: { "x-agent-owner": owner, accept: "application/json" },
        });
        const isKnown = response.status === 200 || (owner === "*" && response.status === 400);
        const text = await response.text();
        assert.ok(isKnown || response.status === 404, `${id} ${filter}: ${text}`);
        for (const statement of statements.splice(0).filter((each) => !isBounded(each) && !isSmall(each))) {
          if (!/^\s*(?:select|with)/i.test(statement.sql)) continue;
          checked++;
          for (const growth of await findGrowth(planner, statement))
            grown.push(`${id} ${filter} ${owner}: ${growth}\n    ${statement.sql}`);
        }
      }
    }
  }
  await planner.close();
  assert.ok(checked > 60, `${checked} statements`);
  assert.deepEqual([...new Set(grown)], []);
});
