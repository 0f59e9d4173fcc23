import { responseIdOf } from "../../agent/run/run.ts";
import type {
  ResponseObject,
  ResponseError,
  ResponseUsage,
  ResponseStatus,
  ResponseStreamEvent,
  RunEvent,
  RunUsage,
} from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import {
  FunctionCallWriter,
  McpCallWriter,
  MessageWriter,
  ReasoningWriter,
  RefusalWriter,
  type ItemEvent,
  type ItemPosition,
  type ItemWriter,
} from "./output-item.ts";
import { refusalOf } from "../../../generated/http/chat.gen.ts";
import { failureOf } from "../prompt/submission.ts";

export type { ResponseObject };

/**
 * The part of a response that its request decides, and how to show its items. Stored, so that a replay gives the
 * same response.
 */
export interface ResponseRequest {
  readonly echo: ResponseEcho;
  readonly toolItems: ToolItems;
  readonly showReasoning: boolean;
}

/** How to show calls of the agent's own tools. */
export type ToolItems = "mcp_call" | "function_call" | "none";

type OwnFields =
  | "id"
  | "object"
  | "created_at"
  | "completed_at"
  | "status"
  | "incomplete_details"
  | "output"
  | "error"
  | "usage"
  | "agent";

export type ResponseEcho = Omit<ResponseObject, OwnFields>;

/** The state of a response, without the fields of its request and its output. */
interface State {
  readonly status: ResponseStatus;
  readonly created_at: number;
  readonly completed_at: number | null;
  readonly incomplete_details: ResponseObject["incomplete_details"];
  readonly error: ResponseError | null;
  readonly usage: ResponseObject["usage"];
  readonly sessionId: string;
}

/**
 * Projects the events of a run to the events of its response. It depends on nothing else: the same events give the
 * same response and the same numbers, live, replayed, or in another process.
 */
export class ResponseReducer {
  readonly id: string;
  readonly #runId: string;
  readonly #request: ResponseRequest;
  readonly #output: ItemWriter[] = [];
  readonly #ids = new Set<string>();
  /** Open calls of the agent's own tools, by call id. */
  readonly #calls = new Map<string, McpCallWriter>();
  #state: State;
  #message: MessageWriter | undefined;
  #reasoning: ReasoningWriter | undefined;
  #isStarted = false;
  #isOver = false;
  #next = 0;
  #lastSeq = 0;

  constructor(runId: string, request: ResponseRequest) {
    this.#runId = runId;
    this.id = responseIdOf(runId);
    this.#request = request;
    this.#state = {
      status: request.echo.background ? "queued" : "in_progress",
      created_at: 0,
      completed_at: null,
      incomplete_details: null,
      error: null,
      usage: null,
      sessionId: "",
    };
  }

  /** Number of events so far, which is the number of the next one. */
  get count(): number {
    return this.#next;
  }

  /** Number of the last run event that was applied. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** True after the last event. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The response after the events so far. */
  get response(): ResponseObject {
    const { sessionId, ...state } = this.#state;
    return {
      id: this.id,
      object: "response",
      ...state,
      ...this.#request.echo,
      output: this.#output.map((writer) => writer.item()),
      agent: { run_id: this.#runId, session_id: sessionId },
    };
  }

  /** Returns the response events of a run event: none, one or several. */
  take(event: RunEvent): ResponseStreamEvent[] {
    if (this.#isOver) return [];
    this.#lastSeq = event.seq;
    return this.#events(event).map((made) => this.#number(made));
  }

  #number(made: ItemEvent): ResponseStreamEvent {
    const { type, ...data } = made;
    return { type, sequence_number: this.#next++, ...data } as ResponseStreamEvent;
  }

  #events(event: RunEvent): ItemEvent[] {
    switch (event.event) {
      case "run.queued":
        return this.#create(event);
      case "run.started":
        return this.#start();
      case "message.started":
      case "message.delta":
      case "message.completed":
        return this.#say(event);
      case "reasoning.delta":
      case "reasoning.completed":
        return this.#request.showReasoning ? this.#reason(event) : [];
      case "tool.started":
        return this.#call(event);
      case "tool.completed":
        return this.#answer(event);
      case "tool.requested":
        return this.#ask(event);
      case "run.completed":
      case "run.failed":
      case "run.cancelled":
      case "run.interrupted":
        return this.#end(event);
      default:
        return [];
    }
  }

  #create({ timestamp, session_id: sessionId }: EventOf<"run.queued">): ItemEvent[] {
    this.#state = { ...this.#state, created_at: Math.floor(timestamp), sessionId };
    const { response } = this;
    const created: ItemEvent = { type: "response.created", response };
    return response.background ? [created, { type: "response.queued", response }] : [created];
  }

  /** A run that another process resumes starts again; its response does not. */
  #start(): ItemEvent[] {
    if (this.#isStarted) return this.#closeText();
    this.#isStarted = true;
    this.#state = { ...this.#state, status: "in_progress" };
    return [{ type: "response.in_progress", response: this.response }];
  }

  #say(event: EventOf<"message.started" | "message.delta" | "message.completed">): ItemEvent[] {
    const events: ItemEvent[] = [];
    if (event.event === "message.started" || !this.#message) {
      events.push(...(this.#message?.cut() ?? []));
      this.#message = this.#open(event.message_id, (position) => new MessageWriter(position));
      events.push(...this.#message.begin());
    }
    if (event.event === "message.delta") events.push(...this.#message.add(event.delta));
    if (event.event === "message.completed") {
      events.push(...this.#message.end(event.text));
      this.#message = undefined;
    }
    return events;
  }

  #reason(event: EventOf<"reasoning.delta" | "reasoning.completed">): ItemEvent[] {
    const events: ItemEvent[] = [];
    if (!this.#reasoning) {
      const id = `rs_${this.id.slice("resp_".length)}_${this.#output.length}`;
      this.#reasoning = this.#open(id, (position) => new ReasoningWriter(position));
      events.push(...this.#reasoning.begin());
    }
    if (event.event === "reasoning.delta") return [...events, ...this.#reasoning.add(event.delta)];
    events.push(...this.#reasoning.end(event.text));
    this.#reasoning = undefined;
    return events;
  }

  #call({ tool_call_id: id, tool: name, arguments: input }: EventOf<"tool.started">): ItemEvent[] {
    const { toolItems } = this.#request;
    if (toolItems === "none" || this.#calls.get(id)?.isOpen) return [];
    const json = JSON.stringify(input ?? {});
    if (toolItems === "function_call") {
      const call = { id, name, json };
      const writer = this.#open(`fc_${id}`, (position) => new FunctionCallWriter(position, call));
      return writer.begin();
    }
    const writer = this.#open(`mcp_${id}`, (position) => new McpCallWriter(position, name));
    this.#calls.set(id, writer);
    return writer.begin(json);
  }

  #answer(event: EventOf<"tool.completed">): ItemEvent[] {
    const writer = this.#calls.get(event.tool_call_id);
    return writer?.isOpen ? writer.end(event) : [];
  }

  #ask({ tool_call_id: id, tool: name, arguments: json }: EventOf<"tool.requested">): ItemEvent[] {
    const writer = this.#open(`fc_${id}`, (position) => new FunctionCallWriter(position, { id, name, json }));
    return writer.begin();
  }

  #end(event: FinalEvent): ItemEvent[] {
    this.#isOver = true;
    const cut = this.#output.flatMap((writer) => (writer.isOpen ? writer.cut() : []));
    const refused = this.#refuse(event);
    const { type, ...state } = refused.length > 0 ? COMPLETED : endOf(event);
    const usage = "usage" in event && event.usage ? toResponseUsage(event.usage as RunUsage) : noUsage;
    this.#state = { ...this.#state, ...state, usage, completed_at: Math.floor(event.timestamp) };
    return [...cut, ...refused, { type, response: this.response }];
  }

  /** In a request with a text format, a refusal is an answer of its own kind. */
  #refuse(event: FinalEvent): ItemEvent[] {
    const hasFormat = this.#request.echo.text.format.type !== "text";
    const refusal = hasFormat && event.event === "run.completed" ? refusalOf(event) : undefined;
    if (refusal === undefined) return [];
    const id = `msg_${this.id.slice("resp_".length)}_refusal`;
    return this.#open(id, (position) => new RefusalWriter(position, refusal)).begin();
  }

  /** Closes text that the previous process of a resumed run left open. */
  #closeText(): ItemEvent[] {
    const events = [...(this.#reasoning?.cut() ?? []), ...(this.#message?.cut() ?? [])];
    this.#reasoning = undefined;
    this.#message = undefined;
    return events;
  }

  /** Opens an item. Some providers reuse call ids in each step, so an id may need a suffix. */
  #open<W extends ItemWriter>(wanted: string, make: (position: ItemPosition) => W): W {
    let id = wanted;
    for (let again = 2; this.#ids.has(id); again++) id = `${wanted}_${again}`;
    this.#ids.add(id);
    const writer = make({ item_id: id, output_index: this.#output.length });
    this.#output.push(writer);
    return writer;
  }
}

type EventOf<N extends RunEvent["event"]> = Extract<RunEvent, { event: N }>;
type FinalEvent = EventOf<"run.completed" | "run.failed" | "run.cancelled" | "run.interrupted">;

type End = Pick<State, "status"> &
  Partial<State> & { readonly type: "response.completed" | "response.incomplete" | "response.failed" };

const COMPLETED: End = { type: "response.completed", status: "completed" };

function endOf(event: FinalEvent): End {
  if (event.event === "run.cancelled") return { type: "response.incomplete", status: "cancelled" };
  if (event.event !== "run.completed") return failed(event);
  if (event.stop === "end" || event.stop === "tool_calls") {
    return COMPLETED;
  }
  const reason = event.stop === "refusal" ? "content_filter" : "max_output_tokens";
  return { type: "response.incomplete", status: "incomplete", incomplete_details: { reason } };
}

function failed(event: EventOf<"run.failed" | "run.interrupted">): End {
  const failure = failureOf(event) ?? new ServiceError("internal_error", event.error.message);
  const { type } = failure.row;
  const error: ResponseError = { code: codeOf(type), message: failure.message, type, param: null };
  return { type: "response.failed", status: "failed", error };
}

function codeOf(type: ServiceError["row"]["type"]): ResponseError["code"] {
  if (type === "rate_limit_error") return "rate_limit_exceeded";
  return type === "invalid_request_error" ? "invalid_prompt" : "server_error";
}

function toResponseUsage(usage: RunUsage): ResponseUsage {
  return {
    input_tokens: usage.input_tokens,
    input_tokens_details: {
      cached_tokens: usage.cached_input_tokens,
      cache_write_tokens: usage.cache_write_tokens,
    },
    output_tokens: usage.output_tokens,
    output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
    total_tokens: usage.total_tokens,
  };
}

/** Usage of a response that ended before the first model call. */
const noUsage: ResponseUsage = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};
