/** The log of the server, followed live: filter, search, pause, and from a line to its run. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { LogEntry, LogLevel } from "../../client/http.ts";
import type { PageProps } from "../router.ts";
import { setQuery } from "../router.ts";
import { Badge, Button, Empty, Loading, PageHeader, Problem, type Tone } from "../ui/controls.tsx";
import { ChoiceFilter, Filters, SearchFilter } from "../ui/filters.tsx";
import { absoluteTime } from "../ui/format.ts";
import { NeedsScope } from "../ui/stats.tsx";
import { useLog, type LogLines } from "./log-lines.ts";

const LEVELS: readonly (readonly [LogLevel, string])[] = [
  ["debug", "Debug and above"],
  ["info", "Info and above"],
  ["warn", "Warnings and errors"],
  ["error", "Errors"],
];
const TONES: Readonly<Record<LogLevel, Tone>> = { debug: "dim", info: "busy", warn: "warn", error: "bad" };

export function LogsPage(props: PageProps): JSX.Element {
  return (
    <NeedsScope scope="admin" what="the log" title="Logs">
      <Logs {...props} />
    </NeedsScope>
  );
}

function Logs({ query }: PageProps): JSX.Element {
  const [isPaused, setPaused] = useState(false);
  const filter = { level: query.get("level") ?? "", q: query.get("q") ?? "", run_id: query.get("run") ?? "" };
  const log = useLog(filter, isPaused);
  return (
    <>
      <PageHeader title="Logs" aside={<Status log={log} />}>
        <Button icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </Button>
      </PageHeader>
      <div class="page-body">
        <Filters>
          <SearchFilter name="q" label="Search the log" />
          <ChoiceFilter name="level" label="Level" options={LEVELS} />
          {filter.run_id ? (
            <Button icon="close" onClick={() => setQuery({ run: undefined })}>
              Only {filter.run_id}
            </Button>
          ) : null}
        </Filters>
        {log.problem ? <Problem message={log.problem} /> : null}
        <Lines log={log} isFiltered={Object.values(filter).some((value) => value !== "")} />
      </div>
    </>
  );
}

function Status({ log }: { readonly log: LogLines }): JSX.Element {
  const [tone, word] = (
    {
      loading: ["dim", "loading"],
      following: ["good", "live"],
      paused: ["warn", "paused"],
      cut: ["bad", "cut off"],
    } as const
  )[log.status];
  return (
    <span role="status">
      <Badge tone={tone}>{word}</Badge>
    </span>
  );
}

function Lines({
  log,
  isFiltered,
}: {
  readonly log: LogLines;
  readonly isFiltered: boolean;
}): JSX.Element | null {
  if (log.status === "loading") return <Loading />;
  if (log.lines.length === 0) {
    if (isFiltered) return <p class="dim">No line matches these filters yet.</p>;
    return (
      <Empty icon="logs" title="No line yet">
        <p>Lines of this process appear here as they are written.</p>
      </Empty>
    );
  }
  return (
    <>
      <ol class="log" aria-label="Lines, newest first">
        {log.lines.map((line) => (
          <Line key={line.id} line={line} />
        ))}
      </ol>
      {log.hasMore ? (
        <p class="table-more">
          <Button onClick={log.loadOlder}>Load older lines</Button>
        </p>
      ) : null}
    </>
  );
}

const timeFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});

function Line({ line }: { readonly line: LogEntry }): JSX.Element {
  const { time, level, message, fields } = line;
  return (
    <li class={`log-line log-${level}`}>
      <time class="log-time" dateTime={new Date(time * 1_000).toISOString()} title={absoluteTime(time)}>
        {timeFormat.format(time * 1_000)}
      </time>
      <span class="log-level">
        <Badge tone={TONES[level]}>{level}</Badge>
      </span>
      <span class="log-text">
        {message}
        {Object.entries(fields).map(([name, value]) => (
          <FieldValue key={name} name={name} value={value} />
        ))}
      </span>
    </li>
  );
}

function FieldValue({ name, value }: { readonly name: string; readonly value: unknown }): JSX.Element {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const href = addressOfField(name, text);
  return (
    <span class="log-field">
      {" "}
      <span class="log-name">{name}=</span>
      {href === undefined ? text : <a href={href}>{text}</a>}
    </span>
  );
}

function addressOfField(name: string, value: string): string | undefined {
  const id = encodeURIComponent(value);
  if (name === "run_id" || name === "run" || value.startsWith("run_")) return `/runs/${id}`;
  if (name === "session_id") return `/chat/${id}`;
  return value.startsWith("dlv_") ? `/webhooks/deliveries/${id}` : undefined;
}
