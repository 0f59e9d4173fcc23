/** Writes until it is killed, and says what was acknowledged: `url session run`. */
import { writeSync } from "node:fs";
import process from "node:process";
import { openStore } from "../../../src/store/open.ts";
import { deltas, sessionRow } from "./rows.ts";

const [url = "", sessionId = "", runId = ""] = process.argv.slice(2);
const store = await openStore({ url });
let count = 0;

async function client(): Promise<void> {
  for (;;) {
    const title = `t${count++}`;
    const [event] = await store.write(async (tx) => {
      await tx.insert("sessions", [sessionRow({ title })]);
      return store.journal.append(tx, sessionId, deltas(runId, 1));
    });
    // At once and whole: a line that was written was acknowledged, also when the kill comes next.
    writeSync(1, `${JSON.stringify({ seq: event?.seq, title })}\n`);
  }
}

await Promise.all(Array.from({ length: 16 }, client));
