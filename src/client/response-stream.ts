import type { CreateResponseRequest, ResponseStreamEvent } from "../../generated/http/client/types.gen.ts";
import { StreamCutError } from "./api-error.ts";
import { readFrames } from "./event-stream.ts";
import { post, stopRun, type StreamRequest } from "./post.ts";
import { send, type ClientOptions } from "./request.ts";
import { resumed, type ResumeOptions } from "./resume.ts";

/**
 * The events of a new response. The request is sent once, never again: when its connection is cut, the rest is fetched
 * by `starting_after`, without loss or repetition. Leaving the loop, or aborting `signal`, stops the run unless it is
 * in the background. What was asked not to be stored, or to end with the connection, cannot be resumed: StreamCutError.
 */
export async function* streamResponse(
  options: ClientOptions,
  body: Omit<CreateResponseRequest, "stream">,
  request: StreamRequest = {},
): AsyncGenerator<ResponseStreamEvent, void> {
  const posted = await post(options, "/v1/responses", body, request);
  const isKept = body.store !== false && (posted.isDetached || body.background === true);
  let first: Response | undefined = posted.response;
  let id: string | undefined;
  let last: number | undefined;
  async function* connect(): AsyncGenerator<ResponseStreamEvent, boolean> {
    if (!first && (!isKept || id === undefined)) throw new StreamCutError(posted.runId);
    const response = first ?? (await reopen(options, id ?? "", last, request.signal));
    first = undefined;
    for await (const event of readEvents(response)) {
      if ("response" in event) id ??= event.response.id;
      last = event.sequence_number;
      yield event;
      if (isLast(event)) return true;
    }
    return false;
  }
  let isOver = false;
  try {
    yield* resumed(connect, request, posted.runId);
    isOver = true;
  } catch (error) {
    isOver = !(request.signal?.aborted ?? false);
    throw error;
  } finally {
    if (!isOver && posted.isDetached && body.background !== true) stopRun(options, posted.runId);
  }
}

/** The events of a stored response, from the one after `after`; resumes by itself. Errors as of {@link streamRunEvents}. */
export async function* followResponse(
  options: ClientOptions,
  id: string,
  { after, ...resume }: ResumeOptions & { readonly after?: number } = {},
): AsyncGenerator<ResponseStreamEvent, void> {
  let last = after;
  async function* connect(): AsyncGenerator<ResponseStreamEvent, boolean> {
    for await (const event of readEvents(await reopen(options, id, last, resume.signal))) {
      last = event.sequence_number;
      yield event;
      if (isLast(event)) return true;
    }
    return false;
  }
  yield* resumed(connect, resume, undefined);
}

function reopen(
  options: ClientOptions,
  id: string,
  after: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const query = after === undefined ? "" : `&starting_after=${after}`;
  const path = `/v1/responses/${encodeURIComponent(id)}?stream=true${query}`;
  return send(options, path, signal ? { signal } : {});
}

async function* readEvents(response: Response): AsyncGenerator<ResponseStreamEvent> {
  for await (const { data } of readFrames(response)) {
    if (data === "[DONE]") return;
    yield JSON.parse(data) as ResponseStreamEvent;
  }
}

/** Whether a response has no more events after this one. */
function isLast({ type }: ResponseStreamEvent): boolean {
  return type === "response.completed" || type === "response.incomplete" || type === "response.failed";
}
