/** Runs and their events as text. */
import type { ApprovalRequest, Run, RunEvent } from "../../client/http.ts";
import { shorten } from "../../base/text.ts";
import { formatRelative } from "../kit/duration.ts";
import { listTime } from "../kit/output.ts";
import { toBlock } from "../kit/table.ts";
import { oneLine, visible } from "../sessions/text.ts";

export const RUN_HEAD = ["ID", "STATUS", "CREATED", "MODEL", "PROMPT"] as const;

/** Returns the cells of a run in a table with {@link RUN_HEAD}. */
export function runCells(run: Run, nowMs: number): readonly string[] {
  const { run_id: id, status, created_at: created, model, input_preview: prompt } = run;
  return [id, status, listTime(created * 1000, nowMs), model, oneLine(prompt)];
}

/** Returns a run with its open questions, its output and what to do next. */
export function runText(run: Run, nowMs: number): string {
  const at = (seconds: number | null) =>
    seconds === null
      ? undefined
      : `${new Date(seconds * 1000).toISOString()} (${formatRelative(seconds * 1000, nowMs)})`;
  const { usage, error, output } = run;
  return [
    toBlock([
      ["id", run.run_id],
      ["status", run.stop_requested && run.ended_at === null ? `${run.status} (stop requested)` : run.status],
      ["kind", run.kind],
      ["session", run.session_id],
      ["model", run.model],
      ["created", at(run.created_at)],
      ["started", at(run.started_at)],
      ["ended", at(run.ended_at)],
      ["tokens", usage ? `${usage.input_tokens} in, ${usage.output_tokens} out` : undefined],
      ["prompt", oneLine(run.input_preview)],
      ["error", error ? oneLine(`${error.message} (${error.code})`) : undefined],
    ]),
    ...run.approvals.flatMap((each) => ["", questionText(each, run.run_id, nowMs)]),
    ...(output === null ? [] : ["", visible(output)]),
  ].join("\n");
}

/** Returns a question with the commands that answer it. */
function questionText(asked: ApprovalRequest, runId: string, nowMs: number): string {
  const { request_id: id, title, description, expires_at: expires } = asked;
  const until = expires === null ? "" : `, expires ${formatRelative(expires * 1000, nowMs)}`;
  return [
    `Waits for approval (${id}${until}):`,
    `  ${oneLine(title)}`,
    ...(description === undefined ? [] : [`  ${oneLine(description)}`]),
    `Answer with \`agentd runs approve ${runId}\` or \`agentd runs deny ${runId}\`.`,
  ].join("\n");
}

/** What to print for an event: text of the answer, or a line about the work. */
export interface EventText {
  readonly text?: string;
  readonly line?: string;
}

const MAX_PREVIEW_CHARACTERS = 200;

/** Returns what a person who follows a run needs to see of an event; empty for the rest. */
export function eventText(event: RunEvent): EventText {
  switch (event.event) {
    case "message.delta":
      return { text: visible(event.delta) };
    case "message.completed":
      return { text: event.text === "" ? "" : "\n" };
    case "run.snapshot":
      return { text: visible(event.text), line: "The oldest events have expired. This is the text so far." };
    case "tool.started":
      return { line: `-> ${preview(event.preview ?? event.tool)}` };
    case "tool.completed":
      return event.status === "ok" ? {} : { line: `   ${event.tool}: ${event.status}` };
    case "approval.request":
      return {
        line: `Waits for approval: ${preview(event.title)}. Answer with \`agentd runs approve ${event.run_id}\` or \`agentd runs deny ${event.run_id}\`.`,
      };
    case "approval.responded":
      return { line: `Answered: ${event.choice}` };
    case "approval.expired":
      return { line: "The question expired. The call was denied." };
    case "run.notice":
      return { line: preview(event.message) };
    case "run.failed":
    case "run.interrupted":
      return { line: `The run ${event.event.slice(4)}: ${oneLine(event.error.message)}` };
    case "run.cancelled":
      return { line: "The run was cancelled." };
    default:
      return {};
  }
}

function preview(text: string): string {
  return shorten(oneLine(text), MAX_PREVIEW_CHARACTERS);
}
