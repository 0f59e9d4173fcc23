import type { RunEvent } from "../../generated/http/client/types.gen.ts";
import { readFrames } from "./event-stream.ts";
import { send, type ClientOptions } from "./request.ts";
import { resumed, type ResumeOptions } from "./resume.ts";

/**
 * The events of a run, from the one after `after` to its final one, over as many connections as it takes: none is lost,
 * none comes twice. AgentApiError for an error answer that will not pass (an unknown run, events that are no longer
 * kept), StreamCutError when the server cannot be reached any more.
 */
export async function* streamRunEvents(
  options: ClientOptions,
  runId: string,
  { after = 0, ...resume }: ResumeOptions & { readonly after?: number } = {},
): AsyncGenerator<RunEvent, void> {
  let last = after;
  async function* connect(): AsyncGenerator<RunEvent, boolean> {
    const headers: Record<string, string> = last > 0 ? { "last-event-id": String(last) } : {};
    const init = { headers, ...(resume.signal ? { signal: resume.signal } : {}) };
    const response = await send(options, `/v1/runs/${encodeURIComponent(runId)}/events`, init);
    for await (const { data } of readFrames(response)) {
      const event = JSON.parse(data) as RunEvent;
      last = event.seq;
      yield event;
      if (isFinal(event)) return true;
    }
    return false;
  }
  yield* resumed(connect, resume, runId);
}

type FinalEvent = Extract<
  RunEvent,
  { event: "run.completed" | "run.failed" | "run.cancelled" | "run.interrupted" }
>;

const FINAL: ReadonlySet<string> = new Set<FinalEvent["event"]>([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.interrupted",
]);

/** Whether a run has no more events after this one. */
export function isFinal(event: RunEvent): event is FinalEvent {
  return FINAL.has(event.event);
}
