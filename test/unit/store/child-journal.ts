/** Follows a session and appends to it: `url session run count`. Ends when it has seen both writers' events. */
import process from "node:process";
import { openStore } from "../../../src/store/open.ts";
import { endWithParent } from "./child.ts";
import { deltas } from "./rows.ts";

const [url = "", sessionId = "", runId = "", count = "0"] = process.argv.slice(2);
const say = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
const store = await openStore({ url });

async function appendAll() {
  for (let i = 0; i < Number(count); i++) {
    await store.write((tx) => store.journal.append(tx, sessionId, deltas(runId, 1, "child")));
  }
}

// Waiting for another process's events does not keep a process alive by itself; this does.
endWithParent();
const appending = appendAll();
let seen = 0;
say({ ready: true });
for await (const events of store.journal.follow({ sessionId })) {
  say({ seqs: events.map((event) => event.seq) });
  seen += events.length;
  if (seen >= Number(count) + 70) break;
}
await appending;
await store.close();
process.exit();
