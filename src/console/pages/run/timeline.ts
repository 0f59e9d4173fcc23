/** Where the steps of a run lie on a line, and the marks of that line. Pure. */
import type { Run, RunStep, RunTrace } from "../../../client/http.ts";

export interface Bar {
  readonly step: RunStep;
  /** 1 for what belongs to another step. */
  readonly depth: number;
  /** Seconds from the start of the run. */
  readonly start: number;
  readonly duration: number;
  /** Parts of the line, 0 to 1. */
  readonly left: number;
  readonly width: number;
  /** Part of the bar before the first output; undefined where it is not known. */
  readonly waiting: number | undefined;
}

export interface Mark {
  readonly seconds: number;
  readonly left: number;
}

export interface Timeline {
  readonly seconds: number;
  readonly bars: readonly Bar[];
  readonly marks: readonly Mark[];
}

/** Returns the line of a run. What still runs lasts until `nowSeconds`. */
export function timelineOf(trace: RunTrace, nowSeconds: number): Timeline {
  const end = trace.ended_at ?? Math.max(nowSeconds, trace.started_at);
  const seconds = Math.max(end - trace.started_at, 0.001);
  const bars = trace.steps.map((step) => {
    const start = Math.max(0, step.started_at - trace.started_at);
    const duration = step.duration_seconds ?? Math.max(0, seconds - start);
    const waiting =
      step.first_output_seconds === null || duration === 0
        ? undefined
        : Math.min(1, step.first_output_seconds / duration);
    const depth = step.parent_id === null ? 0 : 1;
    return { step, depth, start, duration, left: start / seconds, width: duration / seconds, waiting };
  });
  return { seconds, bars, marks: marksOf(seconds) };
}

const MOST_MARKS = 6;
const DIGITS = [1, 2, 5];

/** Marks at round times, at most six. */
function marksOf(seconds: number): readonly Mark[] {
  const power = 10 ** Math.floor(Math.log10(seconds / MOST_MARKS));
  const distance =
    [...DIGITS, 10].map((digit) => digit * power).find((each) => seconds / each <= MOST_MARKS) ?? seconds;
  const count = Math.floor(seconds / distance + 1e-9);
  return Array.from({ length: count + 1 }, (_, index) => ({
    seconds: index * distance,
    left: (index * distance) / seconds,
  }));
}

/** Returns the command that starts the same run again. */
export function curlOf(origin: string, { model }: Pick<Run, "model">, input: string): string {
  const body = JSON.stringify({ input, model }).replaceAll("'", "'\\''");
  return [
    `curl ${origin}/v1/runs \\`,
    `  -H "authorization: Bearer $API_SERVER_KEY" \\`,
    `  -H "content-type: application/json" \\`,
    `  -d '${body}'`,
  ].join("\n");
}
