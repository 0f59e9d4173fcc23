import { fork } from "node:child_process";
import { once } from "node:events";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { Sessions } from "../../src/agent/session/sessions.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createTestDatabase } from "../harness/store.ts";
import { sessionRow } from "../unit/store/rows.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

/** What the child tells. */
export interface MemoryReply {
  readonly heapBytes: number;
  readonly rssBytes: number;
  readonly bareHeapBytes: number;
}

const OWNER = "tests";
const FEW = 100;
const MANY = 10_000;
const PAGE = 50;
const ROUNDS = 7;
const READS = 40;
const GOAL_RATIO = 2;
const GOAL_MB = 25;
const MEGABYTE = 1_048_576;

/** What idle sessions take in memory, and whether a page of a long list costs more than one of a short list. */
export async function run(): Promise<readonly BenchRow[]> {
  return [...(await memory()), ...(await firstPage())];
}

async function memory(): Promise<readonly BenchRow[]> {
  const child = fork(fileURLToPath(new URL("sessions-memory.ts", import.meta.url)), [], {
    execArgv: ["--expose-gc"],
  });
  const gone = once(child, "exit").then(([code]) =>
    Promise.reject(new Error(`the child ended with ${String(code)}`)),
  );
  const [message] = await Promise.race([once(child, "message"), gone]);
  gone.catch(() => {});
  const { heapBytes, rssBytes, bareHeapBytes } = message as MemoryReply;
  const [heap, rss, bare] = [heapBytes / MEGABYTE, rssBytes / MEGABYTE, bareHeapBytes / MEGABYTE];
  const goal = `<= ${GOAL_MB} MB`;
  return [
    {
      name: "heap of 1000 idle live sessions, by a map of plain objects",
      value: heap,
      unit: "MB",
      control: bare,
      ratio: heap / bare,
      goal,
      met: heap <= GOAL_MB,
    },
    { name: "RSS of 1000 idle live sessions", value: rss, unit: "MB", goal, met: rss <= GOAL_MB },
  ];
}

async function firstPage(): Promise<readonly BenchRow[]> {
  const short = await createTestDatabase();
  const long = await createTestDatabase();
  const stores = [await filled(short.url, FEW), await filled(long.url, MANY)] as const;
  const few: number[] = [];
  const many: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const ofFew = await msEach(stores[0]);
    const ofMany = await msEach(stores[1]);
    // The first round warms up.
    if (round === 0) continue;
    few.push(ofFew);
    many.push(ofMany);
  }
  for (const store of stores) await store.close();
  for (const database of [short, long]) await database.drop();
  const [value, control] = [median(many), median(few)];
  const ratio = value / control;
  const name = `first page of ${MANY} saved sessions, by that of ${FEW}`;
  return [{ name, value, unit: "ms", control, ratio, goal: `<= ${GOAL_RATIO}x`, met: ratio <= GOAL_RATIO }];
}

async function filled(url: string, count: number): Promise<Store> {
  const store = await openStore({ url });
  for (let from = 0; from < count; from += 100) {
    const rows = Array.from({ length: 100 }, (_, n) =>
      sessionRow({ updated_at: 1_000 + from + n, last_message: 1, title: `Session ${from + n}` }),
    );
    const messages = rows.map(({ id }) => ({
      session_id: id,
      seq: 1,
      run_id: null,
      role: "user",
      content: JSON.stringify({ role: "user", text: `A prompt that begins ${id}, and goes on for a while.` }),
      created_at: 1_000,
    }));
    await store.write(async (tx) => {
      await tx.insert("sessions", rows);
      await tx.insert("messages", messages);
    });
  }
  return store;
}

async function msEach(store: Store): Promise<number> {
  const sessions = new Sessions(store);
  const before = performance.now();
  for (let i = 0; i < READS; i++) {
    const page = await sessions.list({ owner: OWNER, limit: PAGE });
    if (page.sessions.length !== PAGE) throw new Error("the page is not whole");
  }
  return (performance.now() - before) / READS;
}

await runAlone(import.meta.url, run);
