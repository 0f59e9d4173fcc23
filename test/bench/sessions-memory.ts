/** A child of the bench `sessions`: what open sessions take in memory. Needs `--expose-gc`; tells its parent. */
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import type { SessionSeed } from "../../src/agent/session/session.ts";
import { LiveSessions } from "../../src/agent/session/session.ts";
import { systemClock } from "../../src/base/time.ts";
import { createTestDatabase } from "../harness/store.ts";
import { openStore } from "../../src/store/open.ts";
import { sessionRow } from "../unit/store/rows.ts";
import type { MemoryReply } from "./sessions.ts";

const LIVE = 1_000;
const OWNER = "tests";

const database = await createTestDatabase();
const store = await openStore({ url: database.url });
const rows = (count: number) => Array.from({ length: count }, () => sessionRow());
// What the first statements and the first session cost is not what a session costs.
await store.write((tx) => tx.insert("sessions", rows(10)));
const live = new LiveSessions({ clock: systemClock, max: LIVE });
const before = await settled();
const saved = rows(LIVE);
for (let i = 0; i < LIVE; i += 100) {
  await store.write((tx) => tx.insert("sessions", saved.slice(i, i + 100)));
}
const seedOf = (n: number): SessionSeed => ({ source: "rpc", cwd: `/workspace/project-${n}` });
for (const [n, { id }] of saved.entries()) live.open({ id, owner: OWNER, seed: seedOf(n) });
saved.length = 0;
const after = await settled();
// Bare: what a map of as many plain objects takes.
const bare = new Map(
  Array.from({ length: LIVE }, (_, n) => [`session-${n}`, { owner: OWNER, cwd: `/workspace/project-${n}` }]),
);
const control = await settled();
if (live.list(OWNER).length !== LIVE || bare.size !== LIVE) throw new Error("a session is not open");
const reply: MemoryReply = {
  heapBytes: after.heapUsed - before.heapUsed,
  rssBytes: after.rss - before.rss,
  bareHeapBytes: control.heapUsed - after.heapUsed,
};
await store.close();
await database.drop();
process.send?.(reply);

async function settled(): Promise<NodeJS.MemoryUsage> {
  for (let i = 0; i < 5; i++) {
    globalThis.gc?.();
    await setImmediate();
  }
  return process.memoryUsage();
}
