/** The log of the server as it grows: its newest lines, and those that follow. */
import { useEffect, useState } from "preact/hooks";
import type { LogEntry, LogList } from "../../client/http.ts";
import { AgentApiError, send } from "../../client/request.ts";
import { readFrames } from "../../client/streams.ts";
import { addressOf, messageOf, request, signedFetch } from "../state/session.ts";

export interface LogFilter {
  readonly level: string;
  readonly q: string;
  readonly run_id: string;
}

export interface LogLines {
  /** The newest first. */
  readonly lines: readonly LogEntry[];
  readonly status: "loading" | "following" | "paused" | "cut";
  /** Why there are no lines, or no further ones. */
  readonly problem: string;
  readonly hasMore: boolean;
  readonly loadOlder: () => void;
}

const FIRST_LINES = 200;
const MAX_LINES = 2_000;
/** Lines that come together are drawn together. */
const GATHER_MS = 100;
const AGAIN_MS = 2_000;

type State = Omit<LogLines, "loadOlder">;
const EMPTY: State = { lines: [], status: "loading", problem: "", hasMore: false };

/** Reads the newest lines that match and follows the log from there. While it is paused, the server keeps what comes. */
export function useLog(filter: LogFilter, isPaused: boolean): LogLines {
  const [state, setState] = useState(EMPTY);
  const { level, q, run_id: run } = filter;
  const address = addressOf("/v1/logs", {}, { level, q, run_id: run });
  useEffect(() => setState(EMPTY), [address]);
  useEffect(() => {
    if (isPaused) {
      setState((shown) => ({ ...shown, status: "paused" }));
      return undefined;
    }
    const stop = new AbortController();
    const [newest] = state.lines;
    void keepFollowing({ filter, newest: newest?.id, signal: stop.signal, change: setState });
    return () => stop.abort();
  }, [address, isPaused]);
  const loadOlder = () => {
    const oldest = state.lines.at(-1)?.id;
    void list(filter, oldest).then(
      ({ data, has_more: hasMore }) =>
        setState((shown) => ({ ...shown, lines: [...shown.lines, ...data], hasMore })),
      (error: unknown) => setState((shown) => ({ ...shown, problem: messageOf(error) })),
    );
  };
  return { ...state, loadOlder };
}

interface Following {
  readonly filter: LogFilter;
  /** Id of the newest line that is shown. */
  readonly newest: string | undefined;
  readonly signal: AbortSignal;
  readonly change: (update: (state: State) => State) => void;
}

/** Follows the log over as many connections as it takes. A server that has started again has another log. */
async function keepFollowing({ filter, newest, signal, change }: Following): Promise<void> {
  let after = newest;
  while (!signal.aborted) {
    try {
      if (after === undefined) {
        const { data, first_id: first, has_more: hasMore } = await list(filter, undefined, signal);
        after = first ?? (await newestOfAll(signal));
        change((state) => ({ ...state, lines: data, hasMore }));
      }
      change((state) => ({ ...state, status: "following", problem: "" }));
      await follow(filter, after, signal, (lines) => {
        after = lines[0]?.id ?? after;
        change((state) => ({ ...state, lines: [...lines, ...state.lines].slice(0, MAX_LINES) }));
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof AgentApiError && error.code === "events_expired") after = undefined;
      else change((state) => ({ ...state, status: "cut", problem: messageOf(error) }));
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function list(filter: LogFilter, after: string | undefined, signal?: AbortSignal): Promise<LogList> {
  const query = { ...filter, after, limit: FIRST_LINES };
  return request<{ url: string; query: object }, LogList>({
    url: "/v1/logs",
    query,
    ...(signal ? { signal } : {}),
  });
}

/** Where to follow from when no line matches yet. */
async function newestOfAll(signal: AbortSignal): Promise<string | undefined> {
  const query = { limit: 1 };
  const { first_id: first } = await request<{ url: string; query: object }, LogList>({
    url: "/v1/logs",
    query,
    signal,
  });
  return first ?? undefined;
}

async function follow(
  filter: LogFilter,
  after: string | undefined,
  signal: AbortSignal,
  add: (newestFirst: readonly LogEntry[]) => void,
): Promise<void> {
  const address = addressOf("/v1/logs", {}, { ...filter, after, stream: true });
  const response = await send({ baseUrl: location.origin, fetch: signedFetch }, address, { signal });
  let gathered: LogEntry[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    timer = undefined;
    if (!signal.aborted) add(gathered);
    gathered = [];
  };
  for await (const { data } of readFrames(response)) {
    gathered.unshift(JSON.parse(data) as LogEntry);
    timer ??= setTimeout(flush, GATHER_MS);
  }
}
