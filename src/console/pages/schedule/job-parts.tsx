/** What the pages of the schedule have in common: states, results and times in words. */
import type { JSX } from "preact";
import type { Job, JobLastStatus, JobState, Occurrence } from "../../../client/http.ts";
import { refreshTopic } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, type Tone } from "../../ui/controls.tsx";
import { absoluteTime } from "../../ui/format.ts";
import { latenessOf, markOf, type Mark } from "./job-marks.ts";
import { wordsOf } from "./words.ts";

const STATE: Readonly<Record<JobState, readonly [Tone, string]>> = {
  scheduled: ["good", "scheduled"],
  paused: ["dim", "paused"],
  completed: ["dim", "completed"],
  missed: ["warn", "missed"],
  error: ["bad", "error"],
};

export const STATE_OPTIONS: readonly (readonly [JobState, string])[] = (
  Object.entries(STATE) as [JobState, readonly [Tone, string]][]
).map(([state, [, word]]) => [state, word]);

export function JobBadge({ state }: { readonly state: JobState }): JSX.Element {
  const [tone, word] = STATE[state];
  return <Badge tone={tone}>{word}</Badge>;
}

const LAST: Readonly<Record<JobLastStatus, readonly [Tone, string]>> = {
  ok: ["good", "done"],
  error: ["bad", "failed"],
  delivery_failed: ["bad", "not delivered"],
  blocked_config: ["bad", "not allowed"],
  unknown: ["warn", "uncertain"],
  missed: ["warn", "missed"],
};

export function LastBadge({ job }: { readonly job: Job }): JSX.Element {
  const { last_status: status } = job;
  if (status === null) return <span class="dim">–</span>;
  const [tone, word] = LAST[status];
  return <Badge tone={tone}>{word}</Badge>;
}

const TONES: Readonly<Record<Mark, Tone>> = {
  done: "good",
  failed: "bad",
  late: "warn",
  missed: "warn",
  skipped: "dim",
  running: "busy",
  uncertain: "warn",
  planned: "dim",
};

export function OccurrenceBadge({ occurrence }: { readonly occurrence: Occurrence }): JSX.Element {
  const mark = markOf(occurrence);
  return <Badge tone={TONES[mark]}>{mark === "late" ? `done, ${latenessOf(occurrence)}` : mark}</Badge>;
}

export function ScheduleWords({ schedule }: { readonly schedule: string }): JSX.Element {
  const words = wordsOf(schedule);
  return <span title={schedule}>{words === undefined || words === "Once" ? schedule : words}</span>;
}

export function jobHref(id: string): string {
  return `/schedule/${encodeURIComponent(id)}`;
}

type Verb = "pause" | "resume" | "run";

/** Pauses, resumes or runs a job now. */
export async function actOn(id: string, verb: Verb): Promise<void> {
  const body = verb === "run" ? {} : { body: {} };
  await request<{ url: string; body?: object }, unknown>({
    url: `/v1/jobs/${encodeURIComponent(id)}/${verb}`,
    method: "POST",
    ...body,
  });
  refreshTopic("job");
  refreshTopic("occurrence");
}

interface DueTimeProps {
  /** Unix seconds. */
  readonly at: number;
  /** IANA name of the zone of the schedule, whose clock people have in mind. */
  readonly zone: string;
}

/** A time of the schedule: there the day and the clock say more than the distance. */
export function DueTime({ at, zone }: DueTimeProps): JSX.Element {
  const format = new Intl.DateTimeFormat("en-GB", {
    weekday: "short",
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    timeZone: zone,
  });
  return (
    <time dateTime={new Date(at * 1_000).toISOString()} title={`${zone}; here ${absoluteTime(at)}`}>
      {format.format(at * 1_000)}
    </time>
  );
}
