/** How runs and questions are shown wherever they are listed. */
import type { JSX } from "preact";
import type { QuestionStatus, Run, RunStatus } from "../../client/http.ts";
import { Badge, type Tone } from "./controls.tsx";

const RUN: Readonly<Record<RunStatus, readonly [Tone, string]>> = {
  queued: ["dim", "queued"],
  running: ["busy", "running"],
  waiting_for_approval: ["warn", "waits for approval"],
  stopping: ["busy", "stopping"],
  completed: ["good", "completed"],
  failed: ["bad", "failed"],
  cancelled: ["dim", "cancelled"],
  interrupted: ["bad", "interrupted"],
};

export const RUN_STATUS_OPTIONS: readonly (readonly [RunStatus, string])[] = (
  Object.entries(RUN) as [RunStatus, readonly [Tone, string]][]
).map(([status, [, word]]) => [status, word]);

export function RunBadge({ status }: { readonly status: RunStatus }): JSX.Element {
  const [tone, word] = RUN[status];
  return <Badge tone={tone}>{word}</Badge>;
}

const QUESTION: Readonly<Record<QuestionStatus, readonly [Tone, string]>> = {
  open: ["warn", "waiting"],
  answered: ["good", "answered"],
  expired: ["dim", "expired"],
  cancelled: ["dim", "cancelled"],
};

export function QuestionBadge({ status }: { readonly status: QuestionStatus }): JSX.Element {
  const [tone, word] = QUESTION[status];
  return <Badge tone={tone}>{word}</Badge>;
}

/** The surfaces that create sessions, and so start runs. */
export const SOURCE_OPTIONS = [
  ["http", "HTTP API"],
  ["tui", "Chat and console"],
  ["acp", "Editor"],
  ["webhook", "Webhook"],
  ["cron", "Scheduled job"],
] as const;

/** The note about foreign text that comes before the prompt of a webhook. */
const NOTE = /^The text between <webhook-data-[^]*?(?:\n\n|$)/;

/** The beginning of the prompt of a run, as a title. */
export function titleOf({ input_preview: text, source }: Run): string {
  const own = text.replace(NOTE, "").trim();
  return own === "" && source === "webhook" ? "An event of a webhook" : own;
}

export function sourceName(source: string): string {
  return SOURCE_OPTIONS.find(([value]) => value === source)?.[1] ?? source;
}
