import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import process from "node:process";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { deltas, runRow, seed, sessionRow } from "../unit/store/rows.ts";
import { runAlone, type BenchRow } from "./row.ts";

const EVENTS = 102_400;
const SESSIONS = 64;
const PER_WORK = 4;
const PER_GROUP = SESSIONS * PER_WORK;
const LONG = 1_000_000;
const SHORT = 1_000;
const FOLLOWS = 200;
const PAGE = 400;
const CHATS = 6_000;
const CLIENTS = 64;
const GOAL_APPENDS = 20_000;

/** Measures the journal on SQLite files in a folder of its own; under a minute. */
export async function run(): Promise<readonly BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "agentd-bench-"));
  try {
    return [...(await appends(folder)), ...(await follows(folder)), ...(await chats(folder))];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** 64 sessions that append four events a work, in one group, against bare inserts of the same rows in the same groups. */
async function appends(folder: string): Promise<readonly BenchRow[]> {
  bareAppends(join(folder, "warm.db"));
  const bare = await perSecond(EVENTS, () => bareAppends(join(folder, "bare.db")));
  const store = await openStore({ url: join(folder, "append.db") });
  const seeds = await Promise.all(Array.from({ length: SESSIONS }, () => seed(store)));
  const append = async (durable: boolean) => {
    for (let i = 0; i < EVENTS; i += PER_GROUP) {
      const group = seeds.map(({ sessionId, runId }) =>
        store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, PER_WORK)), { durable }),
      );
      await Promise.all(group);
    }
  };
  await append(true);
  const durable = await perSecond(EVENTS, () => append(true));
  const lazy = await perSecond(EVENTS, () => append(false));
  await store.close();
  const runs = SESSIONS * 3 * (EVENTS / SESSIONS);
  checkRows(
    join(folder, "append.db"),
    "select count(*) as count from events where type = 'message.delta'",
    runs,
  );
  return [
    {
      name: "append, 64 works of 4 events a group, durable, by bare inserts",
      value: durable,
      unit: "events/s",
      control: bare,
      ratio: durable / bare,
      goal: ">= 20000",
      met: durable >= GOAL_APPENDS,
    },
    {
      name: "append, 64 works of 4 events a group, not durable",
      value: lazy,
      unit: "events/s",
      control: bare,
      ratio: lazy / bare,
    },
  ];
}

/** What was measured must be in the file. */
function checkRows(path: string, query: string, wanted: number): void {
  const database = new DatabaseSync(path, { readOnly: true });
  const count = database.prepare(query).get()?.["count"];
  database.close();
  if (count !== wanted) throw new Error(`${String(count)} rows of ${wanted} were written`);
}

function bareAppends(path: string): void {
  const database = new DatabaseSync(path);
  database.exec("pragma journal_mode = wal");
  database.exec("pragma synchronous = full");
  database.exec(
    "create table events (session_id text, seq integer, run_id text, run_seq integer, type text, data text, created_at integer, primary key (session_id, seq))",
  );
  database.exec("create unique index by_run on events (run_id, run_seq)");
  const insert = database.prepare("insert into events values (?, ?, ?, ?, ?, ?, ?)");
  const sessions = Array.from({ length: SESSIONS }, () => ({ id: sessionRow().id, run: runRow("").id }));
  for (let i = 0; i < EVENTS; i += PER_GROUP) {
    database.exec("begin immediate");
    for (const { id, run } of sessions) {
      for (let seq = i / SESSIONS; seq < i / SESSIONS + PER_WORK; seq++) {
        insert.run(id, seq, run, seq, "message.delta", '{"text":"d0"}', 1_700_000_000_000);
      }
    }
    database.exec("commit");
  }
  database.close();
}

/** A follower that starts in the middle of a long journal must not pay for its length. */
async function follows(folder: string): Promise<readonly BenchRow[]> {
  const store = await openStore({ url: join(folder, "follow.db") });
  const short = await fill(store, SHORT);
  const long = await fill(store, LONG);
  await followMiddle(store, long, LONG);
  const shortMs = await millisecondsEach(() => followMiddle(store, short, SHORT));
  const longMs = await millisecondsEach(() => followMiddle(store, long, LONG));
  await store.close();
  return [
    {
      name: `follow ${PAGE} events from the middle of a million, by a thousand`,
      value: longMs,
      unit: "ms",
      control: shortMs,
      ratio: longMs / shortMs,
      goal: "<= 2x",
      met: longMs / shortMs <= 2,
    },
  ];
}

async function fill(store: Store, count: number): Promise<string> {
  const { sessionId, runId } = await seed(store);
  for (let i = 0; i < count; i += 10_000) {
    const events = deltas(runId, Math.min(10_000, count - i));
    await store.write((tx) => store.journal.append(tx, sessionId, events), { durable: false });
  }
  return sessionId;
}

async function followMiddle(store: Store, sessionId: string, length: number): Promise<void> {
  const after = length / 2 - PAGE / 2;
  let count = 0;
  for await (const events of store.journal.follow({ sessionId }, { after })) {
    count += events.length;
    if (count >= PAGE) return;
  }
  throw new Error(`the journal ended after ${count} events of ${PAGE}`);
}

/** Whole chats as the turn loop writes them: three groups, ten rows, and their counters; 64 clients at once. */
async function chats(folder: string): Promise<readonly BenchRow[]> {
  const store = await openStore({ url: join(folder, "chats.db") });
  const drive = async (count: number) => {
    let left = count;
    const client = async () => {
      while (left-- > 0) await chat(store);
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
  };
  await drive(CHATS / 4);
  const before = process.cpuUsage();
  const rate = await perSecond(CHATS, () => drive(CHATS));
  const { user, system } = process.cpuUsage(before);
  await store.close();
  const ended = "select count(*) as count from runs where status = 'completed'";
  checkRows(join(folder, "chats.db"), ended, CHATS + CHATS / 4);
  return [
    { name: "chats written, 64 clients", value: rate, unit: "chats/s" },
    { name: "CPU of the store for a chat", value: (user + system) / CHATS, unit: "us" },
  ];
}

async function chat(store: Store): Promise<void> {
  const session = sessionRow({ transient: 1, lease_owner: store.owner });
  const run = runRow(session.id);
  const event = (type: string) => ({ type, runId: run.id, data: { text: "Hello! I am well, thanks." } });
  const append = (tx: Parameters<Parameters<Store["write"]>[0]>[0], ...types: string[]) =>
    store.journal.append(tx, session.id, types.map(event));
  await store.write(async (tx) => {
    await tx.insert("sessions", [session]);
    await tx.insert("runs", [run]);
    await append(tx, "run.queued", "run.started");
  });
  await store.write((tx) => append(tx, "message.started", "message.delta"), { durable: false });
  await store.write(async (tx) => {
    const last = (await tx.increment("sessions", { id: session.id }, "last_message", 2)) ?? 0;
    const message = {
      session_id: session.id,
      run_id: run.id,
      content: '{"text":"hello"}',
      created_at: tx.nowMs,
    };
    const messages = [
      { ...message, seq: last - 1, role: "user" },
      { ...message, seq: last, role: "assistant" },
    ];
    await tx.insert("messages", messages);
    await append(tx, "message.completed", "run.completed");
    const ended = { status: "completed", output: "Hello! I am well, thanks.", ended_at: tx.nowMs };
    await tx.update("runs", { id: run.id, ended_at: null }, ended);
    await tx.update(
      "sessions",
      { id: session.id, lease_owner: store.owner },
      { lease_owner: null, lease_until: 0 },
    );
  });
}

async function perSecond(count: number, work: () => Promise<void> | void): Promise<number> {
  const startMs = performance.now();
  await work();
  return (count / (performance.now() - startMs)) * 1_000;
}

async function millisecondsEach(work: () => Promise<void>): Promise<number> {
  return (
    1_000 /
    (await perSecond(FOLLOWS, async () => {
      for (let i = 0; i < FOLLOWS; i++) await work();
    }))
  );
}

await runAlone(import.meta.url, run);
