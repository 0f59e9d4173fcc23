import type {
  ChatCompletionChunk,
  ChatCompletionRequest,
  ErrorEnvelope,
} from "../../generated/http/client/types.gen.ts";
import {
  AgentApiError,
  StreamCutError,
  post,
  stopRun,
  type Posted,
  type StreamRequest,
  type ClientOptions,
} from "./request.ts";
import { ChatChunks, type ChatHead } from "../../generated/http/chat.gen.ts";
import { readFrames, isFinal, streamRunEvents } from "./streams.ts";

/**
 * Yields the chunks of one streamed chat completion. The request is sent once: when its connection is cut, the rest
 * comes from the events of the run, without loss or repetition. Leaving the loop, or aborting `signal`, stops the run.
 * With `agent.on_disconnect: "cancel"` the run ends with the connection, and a cut throws StreamCutError. Throws
 * AgentApiError for an error response and for an error frame.
 */
export async function* streamChatCompletion(
  options: ClientOptions,
  body: Omit<ChatCompletionRequest, "stream">,
  request: StreamRequest = {},
): AsyncGenerator<ChatCompletionChunk, void> {
  const posted = await post(options, "/v1/chat/completions", body, request);
  const stream = new ChatStream(body, request);
  let isOver = false;
  try {
    const isWhole = yield* stream.read(posted.response);
    if (!isWhole) yield* stream.resume(options, posted);
    isOver = true;
  } catch (error) {
    isOver = !(request.signal?.aborted ?? false);
    throw error;
  } finally {
    if (!isOver && posted.isDetached) stopRun(options, posted.runId);
  }
}

class ChatStream {
  readonly #body: Omit<ChatCompletionRequest, "stream">;
  readonly #request: StreamRequest;
  #first: ChatCompletionChunk | undefined;
  /** Number of the last event whose chunks were yielded. */
  #last = 0;
  /** Chunks yielded since then: only the last chunk of an event has its number. */
  #unnumbered = 0;
  #showsReasoning = false;

  constructor(body: Omit<ChatCompletionRequest, "stream">, request: StreamRequest) {
    this.#body = body;
    this.#request = request;
  }

  /** Yields the chunks of the response. Returns whether the stream is complete. */
  async *read(response: Response): AsyncGenerator<ChatCompletionChunk, boolean> {
    const frames = readFrames(response);
    try {
      for (;;) {
        const next = await frames.next().catch((error: unknown) => {
          if (this.#request.signal?.aborted) throw error;
          return undefined; // the connection broke
        });
        if (!next || next.done) return false;
        const { data, id } = next.value;
        if (data === "[DONE]") return true;
        const frame = JSON.parse(data) as ChatCompletionChunk | ErrorEnvelope;
        if ("error" in frame) throw new AgentApiError(0, frame.error);
        this.#count(frame, id);
        yield frame;
      }
    } finally {
      await frames.return(undefined);
    }
  }

  #count(chunk: ChatCompletionChunk, id: string | undefined): void {
    if (this.#first) this.#unnumbered += 1;
    this.#first ??= chunk;
    if (chunk.choices[0]?.delta.reasoning_content !== undefined) this.#showsReasoning = true;
    if (id === undefined) return;
    this.#last = Number(id);
    this.#unnumbered = 0;
  }

  async *resume(
    options: ClientOptions,
    { response, runId, isDetached }: Posted,
  ): AsyncGenerator<ChatCompletionChunk, void> {
    const head = this.#headOf(response);
    if (runId === undefined || !head || !isDetached) throw new StreamCutError(runId);
    const streamOptions: { include_usage?: unknown; include_progress?: unknown } =
      this.#body.stream_options ?? {};
    const { response_format: format } = this.#body;
    const chunks = new ChatChunks(head, {
      includeUsage: streamOptions.include_usage === true,
      includeProgress: streamOptions.include_progress === true,
      showReasoning: this.#showsReasoning || this.#last === 0,
      hasFormat: format != null && format.type !== "text",
    });
    if (!this.#first) yield chunks.first();
    for await (const event of streamRunEvents(options, runId, this.#request)) {
      const made = chunks.of(event);
      if (event.seq <= this.#last) continue;
      yield* made.slice(this.#unnumbered);
      if (made.length > 0) this.#unnumbered = 0;
      if (isFinal(event) && event.event !== "run.completed")
        throw endedBadly("error" in event ? event.error : undefined);
    }
  }

  /** Returns the head of the first chunk; without one, as much as the response headers contain. */
  #headOf({ headers }: Response): ChatHead | undefined {
    const first = this.#first;
    if (first) {
      return first.agent && { id: first.id, created: first.created, model: first.model, agent: first.agent };
    }
    const run_id = headers.get("x-agent-run-id");
    if (run_id === null) return undefined;
    const session_id = headers.get("x-agent-session-id") ?? "";
    return {
      id: `chatcmpl_${run_id.slice("run_".length)}`,
      created: Math.floor(Date.parse(headers.get("date") ?? "") / 1000) || 0,
      model: String(this.#body.model ?? headers.get("x-agent-model")),
      agent: { run_id, session_id },
    };
  }
}

const stopped = { code: "agent_incomplete", message: "The run was stopped before it finished." };

function endedBadly({ code, message }: { readonly code: string; readonly message: string } = stopped) {
  return new AgentApiError(0, { message, type: "server_error", param: null, code });
}
