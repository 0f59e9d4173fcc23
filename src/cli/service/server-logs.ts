/** The log of a server: the newest lines that it still has, and those to come. */
import { AgentApiError, streamLogs, type LogEntry } from "../../client/http.ts";
import type { Api } from "../kit/api.ts";
import { warn } from "../kit/output.ts";

/** The most lines that the API returns at once. */
const PAGE = 1_000;

export interface WantedLines {
  readonly level: LogEntry["level"];
  /** Unix time in milliseconds. */
  readonly sinceMs: number | undefined;
}

/** Returns the last `count` lines, oldest first. */
export async function lastLines(
  { client }: Api,
  { level, sinceMs }: WantedLines,
  count: number,
): Promise<readonly LogEntry[]> {
  const found: LogEntry[] = [];
  const filter = { level, ...(sinceMs === undefined ? {} : { from: new Date(sinceMs).toISOString() }) };
  for (let after: string | undefined; found.length < count;) {
    const limit = Math.min(PAGE, count - found.length);
    const { data: page } = await client.listLogs({
      query: { ...filter, limit, ...(after === undefined ? {} : { after }) },
    });
    found.push(...page.data);
    if (!page.has_more || page.last_id === null) break;
    after = page.last_id;
  }
  return found.toReversed();
}

/** Calls `show` with each line after `last` until the process ends, also after a restart of the server. */
export async function followLines(
  api: Api,
  wanted: WantedLines,
  { last, show }: { last: LogEntry | undefined; readonly show: (entry: LogEntry) => void },
): Promise<never> {
  let newest = last;
  const take = (entry: LogEntry) => {
    newest = entry;
    show(entry);
  };
  for (;;) {
    try {
      const after = newest === undefined ? {} : { after: newest.id };
      for await (const entry of streamLogs(api.server, { level: wanted.level, ...after })) take(entry);
    } catch (error) {
      if (!(error instanceof AgentApiError) || error.code !== "events_expired") throw error;
      warn("The server has restarted, or wrote faster than this could be read: lines may be missing.");
      const sinceMs = newest === undefined ? wanted.sinceMs : newest.time * 1000 + 1;
      // Where the log is now: if none of its new lines is wanted, the old position would be expired for ever.
      [newest] = await lastLines(api, { level: "debug", sinceMs: undefined }, 1);
      for (const entry of await lastLines(api, { ...wanted, sinceMs }, PAGE)) take(entry);
    }
  }
}

/** Returns a line as the file of the log has it. */
export function rawLine({ time, level, message, fields }: LogEntry): string {
  return JSON.stringify({ time: new Date(time * 1000).toISOString(), level, message, ...fields });
}
