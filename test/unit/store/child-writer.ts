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
      tx.record({ type: "session.created", ref: title, owner: "tester", data: {} });
      return store.journal.append(tx, sessionId, deltas(runId, 1));
    });
    writeWhole(`${JSON.stringify({ seq: event?.seq, title })}\n`);
  }
}

/** At once and whole: a line that was written was acknowledged, also when the kill comes next. */
function writeWhole(line: string): void {
  let bytes = Buffer.from(line);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(1, bytes));
    } catch (error) {
      // The pipe is full until the reader takes something.
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

await Promise.all(Array.from({ length: 16 }, client));
