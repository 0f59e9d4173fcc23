/** What a schedule means and when it runs next, while it is typed. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { CreateJobData, Job, JobTime } from "../../../client/http.ts";
import { messageOf, request } from "../../state/session.ts";
import { Problem } from "../../ui/controls.tsx";
import { wordsOf } from "./words.ts";

interface PreviewProps {
  readonly schedule: string;
  /** IANA name; empty for the configured zone. */
  readonly zone: string;
}

type Preview =
  | { readonly kind: "none" }
  | { readonly kind: "wrong"; readonly why: string }
  | { readonly kind: "shown"; readonly job: Job; readonly typed: string };

const AFTER_MS = 250;

/** Asks the scheduler itself, with a dry run: nothing is created. */
export function SchedulePreview({ schedule, zone }: PreviewProps): JSX.Element {
  const preview = usePreview(schedule.trim(), zone.trim());
  return (
    <section class="preview" aria-label="Next times" aria-live="polite">
      {preview.kind === "none" ? <p class="dim">The next times appear here while you type.</p> : null}
      {preview.kind === "wrong" ? <p class="preview-wrong">{preview.why}</p> : null}
      {preview.kind === "shown" ? <Times job={preview.job} typed={preview.typed} /> : null}
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
        (job) => setPreview({ kind: "shown", job, typed: schedule }),
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

function ask(schedule: string, zone: string, signal: AbortSignal): Promise<Job> {
  // Every job needs something to do; this one is never created.
  const body = { schedule, prompt: "preview", ...(zone === "" ? {} : { time_zone: zone }) };
  return request<CreateJobData, Job>({ url: "/v1/jobs", query: { dry_run: true }, body, signal });
}

interface TimesProps {
  readonly job: Job;
  /** The text that these are the times of: the person may be further by now. */
  readonly typed: string;
}

function Times({ job, typed }: TimesProps): JSX.Element {
  const { schedule, time_zone: zone, next_runs: times, warnings } = job;
  const words = wordsOf(schedule);
  return (
    <>
      <p class="preview-words">
        {words === undefined ? null : <b>{words}</b>}
        <code data-typed={typed}>{schedule}</code>
      </p>
      <ol class="preview-times" aria-label={`In ${zone}`}>
        {(times ?? []).map((each) => (
          <li key={each.scheduled_at}>
            <time dateTime={each.wall_time}>{wallTime(each)}</time>
            {each.shift === null ? null : <span class="preview-shift">{SHIFTS[each.shift]}</span>}
          </li>
        ))}
      </ol>
      <p class="dim">{zone}</p>
      {(warnings ?? []).map((warning) => (
        <Problem key={warning} message={warning} />
      ))}
    </>
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
