import { setTimeout as sleep } from "node:timers/promises";
import { Line, requestMaker, type Load } from "./load.ts";

/**
 * Sends `perSecond` requests a second for `forMs` milliseconds, whether the server keeps up or not, and gives the
 * milliseconds from the time when each was due to its answer. A server that stalls is charged for all that waited.
 */
export async function pace(load: Load, perSecond: number, forMs: number): Promise<readonly number[]> {
  const lines = [...(await Line.open(load))];
  const free = [...lines];
  const next = requestMaker(load);
  const due: number[] = [];
  const latencies: number[] = [];
  const open = new Set<Promise<void>>();
  const send = () => {
    for (let line = free.pop(); line !== undefined; line = free.pop()) {
      const dueMs = due.shift();
      if (dueMs === undefined) return void free.push(line);
      const used = line;
      const answered = used.send(next()).then(() => {
        latencies.push(performance.now() - dueMs);
        free.push(used);
        open.delete(answered);
        send();
      });
      open.add(answered);
    }
  };
  const startMs = performance.now();
  let sent = 0;
  for (let nowMs = startMs; nowMs < startMs + forMs; nowMs = performance.now()) {
    const target = ((nowMs - startMs) / 1_000) * perSecond;
    for (; sent < target; sent++) due.push(startMs + (sent / perSecond) * 1_000);
    send();
    await sleep(1);
  }
  while (due.length > 0 || open.size > 0) await Promise.race(open);
  for (const line of lines) line.close();
  return latencies;
}
