import type { LogEntry } from "../../../generated/http/client/types.gen.ts";
import type { SseMessage } from "../../../generated/http/contract.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { listBody, timeWindow } from "../control/page.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { parseLine, type LogRing, type RingLine } from "./log-ring.ts";

type Query = HttpRequest<"listLogs", HttpContext>["query"];

/** GET /v1/logs: the newest lines of this process as a list, or the lines behind a position and those to come. */
export async function listLogs(
  { query, headers, raw, signal }: HttpRequest<"listLogs", HttpContext>,
  _deps: HttpDeps,
  { logs }: { readonly logs: LogRing },
): Promise<HttpResponse<"listLogs">> {
  const isWanted = filterOf(query);
  const toShown = (line: RingLine) => {
    const entry = toEntry(line, logs);
    return entry && isWanted(entry) ? [entry] : [];
  };
  const isStream = query.stream || (raw.headers.get("accept") ?? "").includes("text/event-stream");
  const resumed = headers["last-event-id"] || undefined;
  const given = resumed ?? query.after;
  const param = resumed === undefined ? "after" : "Last-Event-ID";
  const position = given === undefined ? undefined : parsePosition(given, logs, param);
  if (!isStream) {
    const before = position ?? Infinity;
    const found = logs
      .after(0)
      .toReversed()
      .filter(({ number }) => number < before)
      .flatMap(toShown);
    return {
      status: 200,
      body: listBody(found, query.limit, { positionOf: ({ id }) => id, show: (entry) => entry }),
    };
  }
  const after = position ?? logs.last;
  if (after + 1 < logs.first) throw expired();
  return { status: 200, stream: follow(logs, { after, signal, toShown }) };
}

async function* follow(
  logs: LogRing,
  from: {
    readonly after: number;
    readonly signal: AbortSignal;
    readonly toShown: (line: RingLine) => readonly LogEntry[];
  },
): AsyncGenerator<SseMessage<LogEntry>> {
  const { signal, toShown } = from;
  for (let { after } = from; !signal.aborted;) {
    // A reader that is too slow continues after its last line, and learns then what is missing.
    if (after + 1 < logs.first) throw expired();
    const lines = logs.after(after);
    for (const line of lines) {
      after = line.number;
      for (const entry of toShown(line)) yield { data: entry, event: "log", id: entry.id };
    }
    if (lines.length === 0) await logs.changed(signal);
  }
}

const LEVELS = ["debug", "info", "warn", "error"];

function filterOf(query: Query): (entry: LogEntry) => boolean {
  const { level, q, request_id: request, run_id: run } = query;
  const { fromMs = 0 } = timeWindow(query.from === undefined ? {} : { from: query.from });
  const least = level === undefined ? 0 : LEVELS.indexOf(level);
  const text = q?.toLowerCase();
  return ({ time, level: own, message, fields }) => {
    const values = Object.values(fields);
    return (
      time * 1000 >= fromMs &&
      LEVELS.indexOf(own) >= least &&
      (request === undefined || values.includes(request)) &&
      (run === undefined || values.includes(run)) &&
      (text === undefined || `${message} ${JSON.stringify(fields)}`.toLowerCase().includes(text))
    );
  };
}

function toEntry({ number, text }: RingLine, { instance }: LogRing): LogEntry | undefined {
  const line = parseLine(text);
  if (!line) return undefined;
  const { timeMs, level, message, fields } = line;
  return {
    object: "agent.log",
    id: `${instance}-${number}`,
    time: timeMs / 1000,
    level: level as LogEntry["level"],
    message,
    fields: { ...fields },
  };
}

/** ServiceError `invalid_cursor` for what is not a position, `events_expired` for one of another process. */
function parsePosition(text: string, { instance, last }: LogRing, param: string): number {
  const [, process, digits] = /^([0-9a-f]{8})-(\d{1,15})$/.exec(text) ?? [];
  if (process !== undefined && process !== instance) throw expired();
  if (process !== undefined && Number(digits) <= last) return Number(digits);
  const what = `${param} is not a position of this log. Use the id of a line.`;
  throw new ServiceError("invalid_cursor", what, { param });
}

function expired(): ServiceError {
  const what =
    "The lines behind this position are no longer kept: the server has restarted, or they are too old. List the log again.";
  return new ServiceError("events_expired", what);
}
