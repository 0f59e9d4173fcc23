/** `agentd logs`: shows the log file of the gateway of this home, and follows it across rotation and restarts. */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceError } from "../../base/errors.ts";
import { withApi } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { toTime } from "../kit/duration.ts";
import { jsonLinesOption, textOption } from "../kit/options.ts";
import { hasColours, printData, warn } from "../kit/output.ts";
import { currentTarget } from "../kit/target.ts";
import { logPath } from "./log-file.ts";
import { LogReader } from "./log-reader.ts";
import { formatEntry, formatRawLine, LEVELS, parseLogLine, type LogEntry } from "./log-text.ts";

const MAX_LINES = 1_000_000;
const POLL_MS = 200;

export const logsCommand = defineApiCommand({
  meta: {
    name: "logs",
    description:
      "Show the log of the gateway, whether it runs or not: the last lines, or those that --since selects. A server shows the lines that it has in memory",
  },
  args: {
    follow: { type: "boolean", alias: "f", description: "Continue with new lines, even after a restart" },
    lines: {
      type: "string",
      alias: "n",
      valueHint: "number",
      description: "How many of the last lines to show. Default: 100, or all with --since",
    },
    level: { type: "enum", options: [...LEVELS], default: "debug", description: "Minimum level" },
    since: textOption("time", "Lines after this age or time: 90m, 12h, 7d, or ISO 8601"),
    json: jsonLinesOption,
  },
  async run({ args }) {
    const show = args.json ? (line: LogLine) => line.raw : textOf;
    if (await currentTarget()) return showServerLog(args, show);
    const filter = filterOf(args, Date.now());
    const last = new LastLines(linesOf(args));
    let take = (line: LogLine) => last.add(line);
    const path = logPath(currentContext().home);
    const reader = new LogReader(path, (raw) => {
      const line = { raw, entry: parseLogLine(raw) };
      if (filter(line)) take(line);
    });
    const exists = await reader.read();
    for (const line of last.lines()) printData(show(line));
    if (!args.follow) {
      await reader.close();
      if (!exists) throw noLog(path);
      return;
    }
    if (!exists) warn(`Waiting for ${path}, which \`agentd gateway\` writes.`);
    take = (line) => printData(show(line));
    for (;;) {
      await sleep(POLL_MS);
      await reader.read();
    }
  },
});

/** Shows the log of a server as that of this machine. */
async function showServerLog(args: Args, show: (line: LogLine) => string): Promise<void> {
  const { followLines, lastLines, rawLine } = await import("./server-logs.ts");
  const { level, since } = args;
  const sinceMs = since === undefined ? undefined : toTime(since, "since", Date.now());
  const wanted = { level: level as LogEntry["level"], sinceMs };
  const count = linesOf(args);
  await withApi(async (api) => {
    const take = (entry: Parameters<typeof rawLine>[0]) => {
      const raw = rawLine(entry);
      printData(show({ raw, entry: parseLogLine(raw) }));
    };
    const last = await lastLines(api, wanted, args.follow ? Math.max(1, count) : count);
    for (const entry of count === 0 ? [] : last) take(entry);
    if (args.follow) await followLines(api, wanted, { last: last.at(-1), show: take });
  });
}

interface LogLine {
  readonly raw: string;
  /** Absent: the line is not JSON of the log. */
  readonly entry: LogEntry | undefined;
}

interface Args {
  readonly level: string;
  readonly since?: string | undefined;
  readonly lines?: string | undefined;
  readonly follow?: boolean | undefined;
}

/** Lines that are not JSON have no level and time: they are shown unless something is filtered. */
function filterOf({ level, since }: Args, nowMs: number): (line: LogLine) => boolean {
  const minRank = LEVELS.findIndex((each) => each === level);
  const sinceMs = since === undefined ? undefined : toTime(since, "since", nowMs);
  return ({ entry }) => {
    if (!entry) return minRank === 0 && sinceMs === undefined;
    return (
      LEVELS.indexOf(entry.level) >= minRank && (sinceMs === undefined || Date.parse(entry.time) >= sinceMs)
    );
  };
}

function linesOf({ lines, since }: Args): number {
  if (lines === undefined) return since === undefined ? 100 : MAX_LINES;
  const count = /^\d{1,7}$/.test(lines) ? Number(lines) : Number.NaN;
  if (count <= MAX_LINES) return count;
  throw new UsageError(`--lines must be a number from 0 to ${MAX_LINES}, not ${JSON.stringify(lines)}.`);
}

function textOf({ raw, entry }: LogLine): string {
  if (!entry) return formatRawLine(raw);
  return formatEntry(entry, { hasColour: hasColours(process.stdout), hasDate: true });
}

function noLog(path: string): ServiceError {
  const why = "`agentd gateway` writes it, unless log.max_file_bytes is 0.";
  return new ServiceError("not_found", `There is no log yet: ${path} does not exist. ${why}`);
}

/** Keeps the last lines of many. */
class LastLines {
  readonly #max: number;
  #lines: LogLine[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  add(line: LogLine): void {
    this.#lines.push(line);
    // Dropping the oldest one by one would move all others each time.
    if (this.#lines.length >= 2 * this.#max + 1) this.#lines = this.lines();
  }

  lines(): LogLine[] {
    return this.#max === 0 ? [] : this.#lines.slice(-this.#max);
  }
}
