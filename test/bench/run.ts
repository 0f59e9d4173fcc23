/** Runs the benches that are named, else all, and prints one table: `npm run bench -- chat sse`. */
import process from "node:process";
import { printRows, type BenchRow } from "./row.ts";

const benches: Readonly<Record<string, () => Promise<{ run(): Promise<readonly BenchRow[]> }>>> = {
  chat: () => import("./chat.ts"),
  sse: () => import("./sse.ts"),
  "chat-provider": () => import("./chat-provider.ts"),
  "chat-memory": () => import("./chat-memory.ts"),
  engine: () => import("./engine.ts"),
  startup: () => import("./startup.ts"),
  codegen: () => import("./codegen.ts"),
  journal: () => import("./journal.ts"),
  turn: () => import("./turn.ts"),
  sessions: () => import("./sessions.ts"),
  recovery: () => import("./recovery.ts"),
  runs: () => import("./runs.ts"),
  "silent-readers": () => import("./silent-readers.ts"),
  flood: () => import("./flood.ts"),
  "rpc-stdio": () => import("./rpc-stdio.ts"),
  "rpc-socket": () => import("./rpc-socket.ts"),
  "acp-start": () => import("./acp-start.ts"),
  "acp-session": () => import("./acp-session.ts"),
  "acp-stream": () => import("./acp-stream.ts"),
  webhook: () => import("./webhook.ts"),
  "webhook-burst": () => import("./webhook-burst.ts"),
  "webhook-stored": () => import("./webhook-stored.ts"),
  deliver: () => import("./deliver.ts"),
  cron: () => import("./cron.ts"),
  parsing: () => import("./parsing.ts"),
};

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(benches);
const unknown = names.find((name) => !Object.hasOwn(benches, name));
if (unknown !== undefined) {
  console.error(`There is no bench ${unknown}. There are: ${Object.keys(benches).join(", ")}.`);
  process.exit(1);
}
const rows: BenchRow[] = [];
for (const name of names) {
  console.error(`${name} ...`);
  const bench = await benches[name]?.();
  rows.push(...((await bench?.run()) ?? []));
}
printRows(rows);
