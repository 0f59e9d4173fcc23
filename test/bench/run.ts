/**
 * Runs the benches that are named, else all, and prints one table: `npm run bench -- chat sse`. `--report` also writes
 * docs/benchmarks.md with the new figures, `--compare` compares with those of the page, `--runs=3` measures three times.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { compareFigures, measure, readFigures, writeReport, type BenchFigures } from "./report.ts";
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
  lists: () => import("./lists.ts"),
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
  "webhook-feed": () => import("./webhook-feed.ts"),
  "webhook-stored": () => import("./webhook-stored.ts"),
  deliver: () => import("./deliver.ts"),
  cron: () => import("./cron.ts"),
  parsing: () => import("./parsing.ts"),
  sandbox: () => import("./sandbox.ts"),
  console: () => import("./console.ts"),
  "console-frames": () => import("./console-frames.ts"),
  postgres: () => import("./postgres.ts"),
  others: () => import("./others.ts"),
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    report: { type: "boolean", default: false },
    compare: { type: "boolean", default: false },
    runs: { type: "string", default: "1" },
  },
});
const runs = Number(options.runs);
const names = positionals.length > 0 ? positionals : Object.keys(benches);
const unknown = names.find((name) => !Object.hasOwn(benches, name));
if (unknown !== undefined || !Number.isInteger(runs) || runs < 1) {
  const problem =
    unknown === undefined ? "--runs must be a whole number from 1" : `No bench is named ${unknown}`;
  console.error(`${problem}. The benches are ${Object.keys(benches).join(", ")}.`);
  process.exit(1);
}
const committed = await readFigures();
const measured: Record<string, BenchFigures> = {};
for (const name of names) {
  console.error(`${name} ...`);
  const bench = await benches[name]?.();
  if (!bench) continue;
  measured[name] = await measure(bench.run, runs);
  // After each bench: all of them take most of an hour, and a run that is stopped keeps what it has.
  if (options.report) await writeReport(measured);
}
printRows(Object.values(measured).flatMap(({ rows }) => rows));
if (options.compare) console.log(compareFigures(committed, measured).join("\n"));
