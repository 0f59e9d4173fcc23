/** What jobs did and will do, on a timeline: marks for done, failed, late, missed and planned times. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Calendar, Occurrence } from "../../../client/http.ts";
import { setQuery } from "../../router.ts";
import { useItem, useList, type ListView } from "../../state/resources.ts";
import { Button, IconButton, Loading, Problem, useNow } from "../../ui/controls.tsx";
import { absoluteTime, plural } from "../../ui/format.ts";
import { Table, type Column } from "../../ui/table.tsx";
import { markOf, noteOf, type Mark } from "./job-marks.ts";
import { DueTime, jobHref, OccurrenceBadge } from "./job-parts.tsx";
import {
  dateIn,
  daysOf,
  nextDay,
  rowsOf,
  startOfDate,
  startOfDay,
  type PlacedMark,
  type TimelineRow,
  type Window,
} from "./timeline-layout.ts";

interface TimelineProps {
  /** The first day, such as `2026-11-20`; null: so that now is in the middle. */
  readonly from: string | null;
  /** Days that are shown. */
  readonly span: string | null;
  /** IANA name; undefined until it is known. */
  readonly zone: string | undefined;
}

const SPANS = [
  ["1", "Day"],
  ["5", "5 days"],
  ["14", "2 weeks"],
] as const;
const DEFAULT_DAYS = 5;

export function Timeline({ from, span, zone }: TimelineProps): JSX.Element {
  if (zone === undefined) return <Loading />;
  const wanted = Number(span ?? DEFAULT_DAYS);
  const days = SPANS.some(([value]) => Number(value) === wanted) ? wanted : DEFAULT_DAYS;
  const today = startOfDay(Date.now() / 1_000, zone);
  const start = (from && startOfDate(from, zone)) || nextDay(today, zone, -Math.floor(days / 2));
  const window = { from: start, to: nextDay(start, zone, days) };
  const move = (by: number) => setQuery({ from: dateIn(nextDay(start, zone, by), zone) });
  return (
    <>
      <div class="timeline-tools">
        <IconButton look="plain" icon="left" label="Earlier" onClick={() => move(-days)} />
        <Button onClick={() => setQuery({ from: undefined })}>Today</Button>
        <IconButton look="plain" icon="right" label="Later" onClick={() => move(days)} />
        <label class="filter">
          <span class="sr-only">Days shown</span>
          <select
            class="input"
            value={String(days)}
            onChange={(event) => setQuery({ span: event.currentTarget.value, from: undefined })}
          >
            {SPANS.map(([value, word]) => (
              <option key={value} value={value}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <span class="dim">{zone}</span>
      </div>
      <Times key={`${start} ${days}`} window={window} zone={zone} />
    </>
  );
}

const MAX_OCCURRENCES = 2_000;

/** Reads further pages until all are there. */
function useAll<T>(list: ListView<T>): ListView<T> {
  const { hasMore, isLoadingMore, problem, items, loadMore } = list;
  useEffect(() => {
    if (hasMore && !isLoadingMore && problem === "" && items.length < MAX_OCCURRENCES) loadMore();
  }, [hasMore, isLoadingMore, problem, items.length]);
  return list;
}

function Times({ window, zone }: { readonly window: Window; readonly zone: string }): JSX.Element {
  const { from, to } = window;
  const past = useAll(
    useList<Occurrence>("/v1/occurrences", { from, to, limit: 100 }, ["occurrence", "job"]),
  );
  const hour = useMemo(() => Math.floor(Date.now() / 3_600_000) * 3_600, []);
  const start = Math.min(Math.max(from, hour), to - 1);
  const future = useItem<Calendar>(`/v1/calendar?from=${start}&to=${to}`, ["job", "occurrence"]);
  if (past.status === "loading" || future.status === "loading") return <Loading />;
  if (past.status === "failed") return <Problem message={past.problem} onRetry={past.reload} />;
  const planned = (future.item?.data ?? []).filter(({ kind }) => kind === "planned");
  return (
    <>
      <Rows window={window} zone={zone} occurrences={past.items} planned={planned} />
      {past.hasMore || future.item?.truncated ? (
        <p class="dim">There are more times than are shown here. Choose fewer days.</p>
      ) : null}
      <Notable occurrences={past.items} zone={zone} />
    </>
  );
}

type RowsProps = Parameters<typeof rowsOf>[0] & { readonly window: Window; readonly zone: string };

const PIXELS_A_MARK = 12;
const GUESSED_SLOTS = 60;

function Rows({ window, zone, occurrences, planned }: RowsProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [slots, setSlots] = useState(GUESSED_SLOTS);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setSlots(Math.max(10, Math.floor(entry.contentRect.width / PIXELS_A_MARK)));
    });
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const rows = rowsOf({ occurrences, planned }, window, slots);
  const days = daysOf(window, zone);
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="timeline-row timeline-days" aria-hidden="true">
        <span />
        <div class="timeline-track" ref={box}>
          {days.map(({ at, label }) => (
            <span key={at} class="timeline-day" style={{ left: `${position(at, window)}%` }}>
              {label}
            </span>
          ))}
        </div>
      </div>
      {rows.length === 0 ? <p class="timeline-none dim">No job runs in these days.</p> : null}
      {rows.map((row) => (
        <Row key={row.jobId} row={row} window={window} days={days.map(({ at }) => at)} />
      ))}
      <Legend rows={rows} />
    </section>
  );
}

function position(at: number, { from, to }: Window): number {
  return ((at - from) / (to - from)) * 100;
}

interface RowProps {
  readonly row: TimelineRow;
  readonly window: Window;
  readonly days: readonly number[];
}

function Row({ row, window, days }: RowProps): JSX.Element {
  const now = useNow(30_000) / 1_000;
  const summary = [...row.counts].map(([mark, count]) => `${count} ${mark}`).join(", ");
  return (
    <div class="timeline-row">
      <a
        class="timeline-name"
        href={jobHref(row.jobId)}
        title={row.jobName}
        aria-label={`${row.jobName}: ${summary}`}
      >
        {row.jobName}
      </a>
      {/* The same is in the names and in the tables: the marks are for the eye and the pointer. */}
      <div class="timeline-track" aria-hidden="true">
        {days.map((at) => (
          <span key={at} class="timeline-line" style={{ left: `${position(at, window)}%` }} />
        ))}
        {now > window.from && now < window.to ? (
          <span class="timeline-now" style={{ left: `${position(now, window)}%` }} />
        ) : null}
        {row.marks.map((mark) => (
          <MarkLink key={mark.id} mark={mark} row={row} />
        ))}
      </div>
    </div>
  );
}

function MarkLink({ mark, row }: { readonly mark: PlacedMark; readonly row: TimelineRow }): JSX.Element {
  const { at, count, left, width, note, runId } = mark;
  const words = `${absoluteTime(at)}: ${mark.mark}${count > 1 ? `, ${plural(count, "time")}` : ""}`;
  return (
    <a
      class={`mark mark-${mark.mark} ${width === 0 ? "" : mark.mark === "missed" ? "mark-span" : "mark-many"}`}
      tabIndex={-1}
      href={runId === null ? jobHref(row.jobId) : `/runs/${encodeURIComponent(runId)}`}
      title={note === "" ? words : `${words}\n${note}`}
      style={{ left: `${left}%`, ...(width > 0 ? { width: `calc(${width}% - 1px)` } : {}) }}
    />
  );
}

function Legend({ rows }: { readonly rows: readonly TimelineRow[] }): JSX.Element | null {
  const counts = new Map<Mark, number>();
  for (const row of rows)
    for (const [mark, count] of row.counts) counts.set(mark, (counts.get(mark) ?? 0) + count);
  if (counts.size === 0) return null;
  return (
    <ul class="timeline-legend" aria-label="Marks">
      {[...counts].map(([mark, count]) => (
        <li key={mark}>
          <span class={`mark mark-${mark} mark-legend`} aria-hidden="true" />
          {count} {mark}
        </li>
      ))}
    </ul>
  );
}

const NOTABLE: ReadonlySet<Mark> = new Set(["failed", "late", "missed", "skipped", "uncertain"]);

const columnsOf = (zone: string): readonly Column<Occurrence>[] => [
  { name: "Job", cell: (occurrence) => occurrence.job_name },
  { name: "Result", cell: (occurrence) => <OccurrenceBadge occurrence={occurrence} /> },
  { name: "Why", isWide: true, cell: (occurrence) => noteOf(occurrence) || <span class="dim">–</span> },
  { name: "Due", align: "end", cell: (occurrence) => <DueTime at={occurrence.scheduled_at} zone={zone} /> },
];

interface NotableProps {
  readonly occurrences: readonly Occurrence[];
  readonly zone: string;
}

/** What did not go as planned, in words. */
function Notable({ occurrences, zone }: NotableProps): JSX.Element | null {
  const rows = occurrences.filter((occurrence) => NOTABLE.has(markOf(occurrence)));
  if (rows.length === 0) return null;
  return (
    <section class="schedule-section">
      <h2>Not as planned</h2>
      <Table
        label="Not as planned"
        rows={rows.slice(0, 50)}
        columns={columnsOf(zone)}
        href={({ run_id: runId, job_id: jobId }) =>
          runId === null ? jobHref(jobId) : `/runs/${encodeURIComponent(runId)}`
        }
      />
    </section>
  );
}
