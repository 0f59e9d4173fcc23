import type {
  FunctionCallItem,
  McpCallItem,
  MessageItem,
  OutputItem,
  OutputText,
  ReasoningItem,
  ResponseStreamEvent,
  RunEvent,
} from "../../../generated/http/client/types.gen.ts";

type WithoutNumber<E> = E extends unknown ? Omit<E, "sequence_number"> : never;

/** An event of a response without its sequence number. */
export type ItemEvent = WithoutNumber<ResponseStreamEvent>;

/** The id of an item, and its index in the output. Items are indexed in the order in which they start. */
export interface ItemPosition {
  readonly item_id: string;
  readonly output_index: number;
}

/** An output item that is being written. Each method returns the events of its change. */
export interface ItemWriter {
  readonly isOpen: boolean;
  /** Returns the current item. */
  item(): OutputItem;
  /** Closes an item that stays incomplete. */
  cut(): ItemEvent[];
}

/** Writes a message with one text part. */
export class MessageWriter implements ItemWriter {
  readonly #position: ItemPosition;
  #status: MessageItem["status"] = "in_progress";
  #text = "";

  constructor(position: ItemPosition) {
    this.#position = position;
  }

  get isOpen(): boolean {
    return this.#status === "in_progress";
  }

  item(): MessageItem {
    const { item_id: id } = this.#position;
    return {
      id,
      type: "message",
      status: this.#status,
      role: "assistant",
      content: [outputText(this.#text)],
    };
  }

  begin(): ItemEvent[] {
    const part = { ...this.#position, content_index: 0, part: outputText("") };
    return [
      added(this.#position, { ...this.item(), content: [] }),
      { type: "response.content_part.added", ...part },
    ];
  }

  add(delta: string): ItemEvent[] {
    if (delta === "") return [];
    this.#text += delta;
    const position = { ...this.#position, content_index: 0 };
    return [{ type: "response.output_text.delta", ...position, delta, logprobs: [] }];
  }

  /** `text` is the whole text; its deltas may not have covered the end. */
  end(text: string): ItemEvent[] {
    return [...this.add(missing(this.#text, text)), ...this.#close("completed")];
  }

  cut(): ItemEvent[] {
    return this.#close("incomplete");
  }

  #close(status: MessageItem["status"]): ItemEvent[] {
    this.#status = status;
    const position = { ...this.#position, content_index: 0 };
    return [
      { type: "response.output_text.done", ...position, text: this.#text, logprobs: [] },
      { type: "response.content_part.done", ...position, part: outputText(this.#text) },
      done(this.#position, this.item()),
    ];
  }
}

/** Writes a reasoning item with one summary part. */
export class ReasoningWriter implements ItemWriter {
  readonly #position: ItemPosition;
  #status: ReasoningItem["status"] = "in_progress";
  #text = "";

  constructor(position: ItemPosition) {
    this.#position = position;
  }

  get isOpen(): boolean {
    return this.#status === "in_progress";
  }

  item(): ReasoningItem {
    const { item_id: id } = this.#position;
    return { id, type: "reasoning", summary: [summaryText(this.#text)], status: this.#status };
  }

  begin(): ItemEvent[] {
    const part = { ...this.#position, summary_index: 0, part: summaryText("") };
    return [
      added(this.#position, { ...this.item(), summary: [] }),
      { type: "response.reasoning_summary_part.added", ...part },
    ];
  }

  add(delta: string): ItemEvent[] {
    if (delta === "") return [];
    this.#text += delta;
    return [{ type: "response.reasoning_summary_text.delta", ...this.#position, summary_index: 0, delta }];
  }

  end(text: string): ItemEvent[] {
    return [...this.add(missing(this.#text, text)), ...this.#close("completed")];
  }

  cut(): ItemEvent[] {
    return this.#close("incomplete");
  }

  #close(status: ReasoningItem["status"]): ItemEvent[] {
    this.#status = status;
    const position = { ...this.#position, summary_index: 0 };
    return [
      { type: "response.reasoning_summary_text.done", ...position, text: this.#text },
      { type: "response.reasoning_summary_part.done", ...position, part: summaryText(this.#text) },
      done(this.#position, this.item()),
    ];
  }
}

/** `server_label` of every call of the agent's own tools. */
const SERVER_LABEL = "agentd";

/** Writes a call to one of the agent's own tools. */
export class McpCallWriter implements ItemWriter {
  readonly #position: ItemPosition;
  #item: McpCallItem;

  constructor(position: ItemPosition, name: string) {
    this.#position = position;
    this.#item = {
      id: position.item_id,
      type: "mcp_call",
      server_label: SERVER_LABEL,
      name,
      arguments: "",
      status: "in_progress",
      output: null,
      error: null,
      approval_request_id: null,
    };
  }

  get isOpen(): boolean {
    return this.#item.status === "in_progress";
  }

  item(): McpCallItem {
    return this.#item;
  }

  begin(json: string): ItemEvent[] {
    const first = added(this.#position, this.#item);
    this.#item = { ...this.#item, arguments: json };
    return [
      first,
      { type: "response.mcp_call.in_progress", ...this.#position },
      { type: "response.mcp_call_arguments.delta", ...this.#position, delta: json },
      { type: "response.mcp_call_arguments.done", ...this.#position, arguments: json },
    ];
  }

  end({ error, result, preview }: Extract<RunEvent, { event: "tool.completed" }>): ItemEvent[] {
    const text = result ?? preview ?? "";
    if (!error) {
      this.#item = { ...this.#item, status: "completed", output: text };
      return [{ type: "response.mcp_call.completed", ...this.#position }, done(this.#position, this.#item)];
    }
    const content = [{ type: "text", text }];
    return this.#fail({ status: "failed", error: { type: "mcp_tool_execution_error", content } });
  }

  cut(): ItemEvent[] {
    return this.#fail({ status: "incomplete" });
  }

  #fail(set: Partial<McpCallItem>): ItemEvent[] {
    this.#item = { ...this.#item, ...set };
    return [{ type: "response.mcp_call.failed", ...this.#position }, done(this.#position, this.#item)];
  }
}

/**
 * Writes a call that is complete from the start: a call for the client, or one that represents a call of the
 * agent.
 */
export class FunctionCallWriter implements ItemWriter {
  readonly isOpen = false;
  readonly #position: ItemPosition;
  readonly #item: FunctionCallItem;

  constructor(
    position: ItemPosition,
    call: { readonly id: string; readonly name: string; readonly json: string },
  ) {
    const { id, name, json } = call;
    this.#position = position;
    this.#item = {
      id: position.item_id,
      type: "function_call",
      call_id: id,
      name,
      arguments: json,
      status: "completed",
    };
  }

  item(): FunctionCallItem {
    return this.#item;
  }

  begin(): ItemEvent[] {
    const { name, arguments: json } = this.#item;
    return [
      added(this.#position, { ...this.#item, arguments: "", status: "in_progress" }),
      { type: "response.function_call_arguments.delta", ...this.#position, delta: json },
      { type: "response.function_call_arguments.done", ...this.#position, name, arguments: json },
      done(this.#position, this.#item),
    ];
  }

  cut(): ItemEvent[] {
    return [];
  }
}

/** Writes a message that is a refusal, complete from the start. */
export class RefusalWriter implements ItemWriter {
  readonly isOpen = false;
  readonly #position: ItemPosition;
  readonly #refusal: string;

  constructor(position: ItemPosition, refusal: string) {
    this.#position = position;
    this.#refusal = refusal;
  }

  item(): MessageItem {
    const { item_id: id } = this.#position;
    const content = [{ type: "refusal" as const, refusal: this.#refusal }];
    return { id, type: "message", status: "completed", role: "assistant", content };
  }

  begin(): ItemEvent[] {
    const position = { ...this.#position, content_index: 0 };
    const refusal = this.#refusal;
    return [
      added(this.#position, { ...this.item(), status: "in_progress", content: [] }),
      { type: "response.content_part.added", ...position, part: { type: "refusal", refusal: "" } },
      { type: "response.refusal.delta", ...position, delta: refusal },
      { type: "response.refusal.done", ...position, refusal },
      { type: "response.content_part.done", ...position, part: { type: "refusal", refusal } },
      done(this.#position, this.item()),
    ];
  }

  cut(): ItemEvent[] {
    return [];
  }
}

function added({ output_index }: ItemPosition, item: OutputItem): ItemEvent {
  return { type: "response.output_item.added", output_index, item };
}

function done({ output_index }: ItemPosition, item: OutputItem): ItemEvent {
  return { type: "response.output_item.done", output_index, item };
}

const outputText = (text: string): OutputText => ({
  type: "output_text",
  text,
  annotations: [],
  logprobs: [],
});

const summaryText = (text: string) => ({ type: "summary_text" as const, text });

/** Returns the part of the whole text that no delta contained. */
function missing(said: string, whole: string): string {
  return whole.startsWith(said) ? whole.slice(said.length) : "";
}
