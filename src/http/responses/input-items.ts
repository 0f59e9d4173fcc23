import type { InputItem, MessageContent } from "../../../generated/http/client/types.gen.ts";
import type { AssistantPart, Message } from "../../agent/engine.ts";
import { isRecord } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import {
  attachTo,
  parseArguments,
  splitContent,
  textContent,
  type PendingAttachments,
  checkText,
} from "../prompt/fields.ts";
import type { HttpDeps } from "../deps.ts";
import type { Store } from "../../store/store.ts";
import { inputItemsOf, outputItemsOf } from "./queries.ts";

/** The items of a request, translated for the agent. */
export interface ItemConversation {
  /** Text of system and developer messages; empty without any. */
  readonly instructions: string;
  /** In the order of the items. Consecutive output of the agent is one message. */
  readonly messages: readonly Message[];
  /** Tool results whose calls are not among the items. The session must know the calls. */
  readonly answers: readonly UnmatchedResult[];
}

/** The result of a call that an earlier request returned. */
export interface UnmatchedResult {
  readonly callId: string;
  /** Path of its call_id in the request. */
  readonly param: string;
}

export interface ItemOptions {
  /** Path of the list in the request, such as `input`. */
  readonly param: string;
  readonly deps: HttpDeps;
  readonly signal: AbortSignal;
  /** True: the items continue a session, which has the calls of the agent's own tools. */
  readonly continues?: boolean;
}

/** Tool name of a {@link UnmatchedResult} until its call is found. */
export const UNKNOWN_TOOL = "unknown";

/**
 * Reads input items, and messages of the chat format. It skips `reasoning`, which only its provider can read, and
 * `mcp_call` in a session that has its own record of the agent's calls. ServiceError `invalid_request`, `unsupported_parameter` and those of content parts, with the
 * item.
 */
export async function toConversation(
  items: readonly InputItem[],
  { param, deps, signal, continues = false }: ItemOptions,
): Promise<ItemConversation> {
  const reader = new ItemReader(deps, { continues });
  for (const [index, item] of items.entries()) reader.take(item, `${param}[${index}]`);
  return reader.conversation({ maxBytes: deps.settings.maxBodyBytes, signal });
}

class ItemReader {
  readonly #deps: HttpDeps;
  readonly #instructions: string[] = [];
  readonly #messages: Message[] = [];
  readonly #calls = new Map<string, string>();
  readonly #answers: UnmatchedResult[] = [];
  readonly #attached: PendingAttachments[] = [];
  readonly #continues: boolean;

  constructor(deps: HttpDeps, { continues }: { readonly continues: boolean }) {
    this.#deps = deps;
    this.#continues = continues;
  }

  take(item: InputItem, path: string): void {
    switch (item.type ?? (item.role === undefined ? undefined : "message")) {
      case "message":
        return this.#message(item, path);
      case "function_call":
        return this.#call(item, path);
      case "function_call_output":
        return this.#answer(item, path);
      case "mcp_call":
        return this.#continues ? undefined : this.#ownCall(item, path);
      case "reasoning":
      case "mcp_list_tools":
        return;
      case "mcp_approval_response":
        throw invalid(path, "is not supported here; answer approvals with POST /v1/runs/{run_id}/approval");
      case undefined:
        throw invalid(path, "needs a type, or a role and content");
      default: {
        const shown = JSON.stringify(item.type?.slice(0, 64));
        throw invalid(`${path}.type`, `is ${shown}, which is not supported here`);
      }
    }
  }

  async conversation(options: { readonly maxBytes: number; readonly signal: AbortSignal }) {
    const messages = [...this.#messages];
    await attachTo(messages, this.#attached, options);
    return { instructions: this.#instructions.join("\n\n"), messages, answers: this.#answers };
  }

  #message({ role, content, ...item }: InputItem, path: string): void {
    const param = `${path}.content`;
    if (role === "tool") return this.#answer({ ...item, output: content }, path);
    if (role === undefined) throw invalid(`${path}.role`, "is missing: user, assistant, system or developer");
    if (role === "user") {
      const { text, sources } = splitContent(contentOf(content, param), param);
      checkText(text, param, this.#deps);
      if (sources.length > 0) this.#attached.push({ at: this.#messages.length, sources });
      this.#messages.push({ role: "user", text });
      return;
    }
    const { tool_calls: calls } = item;
    const text = calls && content == null ? "" : textContent(contentOf(content, param), param);
    checkText(text, param, this.#deps);
    if (role !== "assistant") return void this.#instructions.push(text);
    this.#append({ type: "text", text });
    for (const [index, call] of (calls ?? []).entries()) {
      this.#call({ ...call.function, call_id: call.id }, `${path}.tool_calls[${index}]`);
    }
  }

  #call({ call_id: callId, name, arguments: json }: InputItem, path: string): void {
    if (callId === undefined || callId === "") throw invalid(`${path}.call_id`, "is missing");
    if (name === undefined || name === "") throw invalid(`${path}.name`, "is missing");
    checkText(json ?? "", `${path}.arguments`, this.#deps);
    this.#calls.set(callId, name);
    this.#append({ type: "tool_call", callId, tool: name, input: parseArguments(json ?? "{}") });
  }

  /** Reads a call of the agent's own tools with its result, so that the model knows what it did. */
  #ownCall({ id, name, arguments: json, output, ...item }: InputItem, path: string): void {
    // Some clients send references to items that are gone.
    if (name === undefined || name === "") return;
    const callId = id?.replace(/^mcp_/, "") || `call_${this.#messages.length}`;
    const { error } = item as { readonly error?: unknown };
    const isFailed = error !== undefined && error !== null;
    const text = isFailed ? failureText(error) : typeof output === "string" ? output : NO_OUTPUT;
    checkText(json ?? "", `${path}.arguments`, this.#deps);
    checkText(text, `${path}.output`, this.#deps);
    this.#append({ type: "tool_call", callId, tool: name, input: parseArguments(json ?? "{}") });
    this.#messages.push({ role: "tool", callId, tool: name, status: isFailed ? "error" : "ok", text });
  }

  /** Reads a tool result of either format. */
  #answer({ call_id, tool_call_id, output, type }: InputItem, path: string): void {
    const isChat = type !== "function_call_output";
    const param = `${path}.${isChat ? "tool_call_id" : "call_id"}`;
    const callId = isChat ? (tool_call_id ?? "") : (call_id ?? "");
    if (callId === "") throw invalid(param, "is missing");
    const at = `${path}.${isChat ? "content" : "output"}`;
    const content = contentOf(output, at);
    const { text, sources } = isChat
      ? { text: textContent(content, at), sources: [] }
      : splitContent(content, at);
    checkText(text, at, this.#deps);
    const known = this.#calls.get(callId);
    if (known === undefined) this.#answers.push({ callId, param });
    this.#messages.push({ role: "tool", callId, tool: known ?? UNKNOWN_TOOL, status: "ok", text });
    if (sources.length === 0) return;
    // Most providers take text alone as the result of a call, so the images and files follow in a message.
    this.#attached.push({ at: this.#messages.length, sources });
    this.#messages.push({ role: "user", text: `Attachments of the result of the call ${callId}:` });
  }

  /** Appends to the last answer. Providers want all calls of an answer in one message, before any result. */
  #append(part: AssistantPart): void {
    if (part.type === "text" && part.text === "") return;
    const last = this.#messages.at(-1);
    if (last?.role !== "assistant") this.#messages.push({ role: "assistant", parts: [part] });
    else this.#messages[this.#messages.length - 1] = { ...last, parts: [...last.parts, part] };
  }
}

const NO_OUTPUT = "The call has no output.";

/** Returns the text of an `mcp_call` error, which has several forms. */
function failureText(error: unknown): string {
  if (typeof error === "string") return error;
  const { content, message } = error as { readonly content?: unknown; readonly message?: unknown };
  const parts: readonly unknown[] = Array.isArray(content) ? content : [];
  const texts = parts.map((part) => (isRecord(part) && typeof part["text"] === "string" ? part["text"] : ""));
  return texts.join("") || (typeof message === "string" ? message : "The call failed.");
}

function contentOf(content: unknown, param: string): MessageContent {
  if (typeof content === "string") return content;
  const isParts = Array.isArray(content) && content.every(isPart);
  if (isParts) return content as MessageContent;
  throw invalid(param, "must be text or a list of content parts, each with a type");
}

function isPart(part: unknown): boolean {
  return isRecord(part) && typeof part["type"] === "string";
}

function invalid(param: string, what: string): ServiceError {
  return new ServiceError("invalid_request", `${param} ${what}.`, { param });
}

/** Replaces each `item_reference` by its item. ServiceError `invalid_request` when the item is not stored. */
export async function resolveReferences(
  store: Store,
  items: readonly InputItem[],
  owner: string,
): Promise<readonly InputItem[]> {
  const wanted = items.flatMap((item) => (isReference(item) ? [item.id ?? ""] : []));
  if (wanted.length === 0) return items;
  const inputs = await inputItemsOf(store, owner);
  const isOpen = wanted.some((id) => !inputs.has(id) && ignoredType(id) === undefined);
  const outputs = isOpen ? await outputItemsOf(store, owner, new Set(wanted)) : new Map<string, InputItem>();
  return items.map((item, index) => {
    if (!isReference(item)) return item;
    const id = item.id ?? "";
    const type = ignoredType(id);
    const found = inputs.get(id) ?? outputs.get(id) ?? (type === undefined ? undefined : { type, id });
    if (found) return found;
    const param = `input[${index}].id`;
    const what = `${param} refers to ${JSON.stringify(id)}, which is not stored here. Send the item itself.`;
    throw new ServiceError("invalid_request", what, { param });
  });
}

function isReference({ type, role, content, id }: InputItem): boolean {
  if (type === "item_reference") return true;
  return type === undefined && role === undefined && content === undefined && typeof id === "string";
}

/** Returns the type of items that may be missing: reasoning, and calls of the agent's own tools. */
function ignoredType(id: string): "reasoning" | "mcp_call" | undefined {
  if (id.startsWith("rs_")) return "reasoning";
  return id.startsWith("mcp_") ? "mcp_call" : undefined;
}
