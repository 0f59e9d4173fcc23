/** What a schedule means and when it runs next, while it is typed. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { JobTime, PreviewScheduleData, SchedulePreview as Meaning } from "../../../client/http.ts";
import { messageOf, request } from "../../state/session.ts";
import { wordsOf } from "./words.ts";

interface PreviewProps {
  readonly schedule: string;
  /** IANA name; empty for the configured zone. */
  readonly zone: string;
}

type Preview =
  | { readonly kind: "none" }
  | { readonly kind: "wrong"; readonly why: string }
  | { readonly kind: "shown"; readonly meaning: Meaning; readonly typed: string };

const AFTER_MS = 250;

/** Asks the scheduler itself. */
export function SchedulePreview({ schedule, zone }: PreviewProps): JSX.Element {
  const preview = usePreview(schedule.trim(), zone.trim());
  return (
    <section class="preview" aria-label="Next times" aria-live="polite">
      {preview.kind === "none" ? <p class="dim">The next times appear here while you type.</p> : null}
      {preview.kind === "wrong" ? <p class="preview-wrong">{preview.why}</p> : null}
      {preview.kind === "shown" ? <Times meaning={preview.meaning} typed={preview.typed} /> : null}
    </section>
  );
}

function usePreview(schedule: string, zone: string): Preview {
  const [preview, setPreview] = useState<Preview>({ kind: "none" });
  useEffect(() => {
    if (schedule === "") return setPreview({ kind: "none" });
    const controller = new AbortController();
    const timer = setTimeout(() => {
      ask(schedule, zone, controller.signal).then(
        (meaning) => setPreview({ kind: "shown", meaning, typed: schedule }),
        (error: unknown) => {
          if (!controller.signal.aborted) setPreview({ kind: "wrong", why: messageOf(error) });
        },
      );
    }, AFTER_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [schedule, zone]);
  return preview;
}

function ask(schedule: string, zone: string, signal: AbortSignal): Promise<Meaning> {
  const query = { schedule, ...(zone === "" ? {} : { time_zone: zone }) };
  return request<PreviewScheduleData, Meaning>({ url: "/v1/scheduler/preview", query, signal });
}

interface TimesProps {
  readonly meaning: Meaning;
  /** The text that these are the times of: the person may be further by now. */
  readonly typed: string;
}

function Times({ meaning, typed }: TimesProps): JSX.Element {
  const { schedule, description, time_zone: zone, times, clock_changes: changes } = meaning;
  const later = changes.filter(({ scheduled_at: at }) => !times.some((each) => each.scheduled_at === at));
  return (
    <>
      <p class="preview-words">
        <b>{wordsOf(schedule) ?? description}</b>
        <code data-typed={typed}>{schedule}</code>
      </p>
      <ol class="preview-times" aria-label={`In ${zone}`}>
        {times.map((each) => (
          <PreviewTime key={each.scheduled_at} time={each} />
        ))}
      </ol>
      {later.length === 0 ? null : (
        <>
          <p class="dim">When the clock changes:</p>
          <ol class="preview-times" aria-label="When the clock changes">
            {later.slice(0, 2).map((each) => (
              <PreviewTime key={each.scheduled_at} time={each} />
            ))}
          </ol>
        </>
      )}
      <p class="dim">{zone}</p>
    </>
  );
}

function PreviewTime({ time }: { readonly time: JobTime }): JSX.Element {
  const { wall_time: wall, shift } = time;
  return (
    <li>
      <time dateTime={wall}>{wallTime(time)}</time>
      {shift === null ? null : <span class="preview-shift">{SHIFTS[shift]}</span>}
    </li>
  );
}

const SHIFTS = {
  gap: "the clock skips this time: it runs right after",
  repeat: "the clock shows this time twice: it runs the second time",
} as const;

const dayFormat = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  timeZone: "UTC",
});

/** Returns `Mon, 23 Nov 2026 09:00 (+01:00)`, as clocks in the zone of the job show it. */
export function wallTime({ wall_time: wall }: Pick<JobTime, "wall_time">): string {
  const [, day = "", time = "", offset = ""] =
    /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})[^Z+-]*(.*)$/.exec(wall) ?? [];
  return `${dayFormat.format(Date.parse(`${day}T00:00Z`))} ${time} (${offset === "Z" ? "UTC" : offset})`;
}
