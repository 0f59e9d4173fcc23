/** The frames of a streamed chat completion, checked as far as they are read. */
import { JSONParseError, TypeValidationError } from "@ai-sdk/provider";
import { isRecord } from "../../../base/data.ts";

export interface Chunk {
  /** Present when the provider reports a failure in the middle of its answer. */
  readonly error?: unknown;
  readonly choices?: readonly Choice[];
  readonly usage?: ChunkUsage | null;
}

interface Choice {
  readonly delta?: Delta | null;
  readonly finish_reason?: string | null;
}

export interface Delta {
  readonly content?: string | readonly ContentPart[] | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  /** Some servers send values of other types, which mean nothing. */
  readonly refusal?: unknown;
  readonly tool_calls?: readonly ToolCallDelta[] | null;
}

export interface ContentPart {
  readonly type: string;
  readonly text?: unknown;
  readonly thinking?: unknown;
}

export interface ToolCallDelta {
  readonly index?: number | null;
  readonly id?: string | null;
  readonly function: { readonly name?: string | null; readonly arguments?: string | null };
  readonly extra_content?: { readonly google?: { readonly thought_signature?: string | null } | null } | null;
}

export interface ChunkUsage {
  readonly prompt_tokens?: number | null;
  readonly completion_tokens?: number | null;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number | null } | null;
  readonly completion_tokens_details?: { readonly reasoning_tokens?: number | null } | null;
}

/** Returns the chunk of a frame. Throws the SDK's JSONParseError or TypeValidationError for any other text. */
export function parseChunk(text: string): Chunk {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new JSONParseError({ text, cause });
  }
  if (isChunk(value)) return value;
  if (isErrorFrame(value)) return value;
  throw new TypeValidationError({ value, cause: new Error("the frame is not a chunk of a chat completion") });
}

/** Returns whether a value is an error as OpenAI's API describes it. */
export function isErrorFrame(value: unknown): value is { readonly error: { readonly message: string } } {
  const error = isRecord(value) ? value["error"] : undefined;
  if (!isRecord(error) || typeof error["message"] !== "string") return false;
  const { type, code } = error;
  return isText(type) && (isText(code) || isNumber(code));
}

function isChunk(value: unknown): value is Chunk {
  if (!isRecord(value)) return false;
  const { id, created, model, choices, usage } = value;
  if (!isText(id) || !isNumber(created) || !isText(model)) return false;
  return Array.isArray(choices) && choices.every(isChoice) && (isNone(usage) || isUsage(usage));
}

function isChoice(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { delta, finish_reason: finish } = value;
  return isText(finish) && (isNone(delta) || isDelta(delta));
}

function isDelta(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { role, content, reasoning_content: thoughts, reasoning, tool_calls: calls } = value;
  if (!isNone(role) && role !== "assistant" && role !== "") return false;
  if (!isText(content) && !(Array.isArray(content) && content.every(isContentPart))) return false;
  if (!isText(thoughts) || !isText(reasoning)) return false;
  return isNone(calls) || (Array.isArray(calls) && calls.every(isToolCallDelta));
}

function isContentPart(value: unknown): boolean {
  return isRecord(value) && typeof value["type"] === "string";
}

function isToolCallDelta(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { index, id, function: called, extra_content: extra } = value;
  if (!isNumber(index) || !isText(id) || !isRecord(called)) return false;
  if (!isText(called["name"]) || !isText(called["arguments"])) return false;
  if (isNone(extra)) return true;
  const google = isRecord(extra) ? extra["google"] : false;
  return isNone(google) || (isRecord(google) && isText(google["thought_signature"]));
}

function isUsage(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = value;
  const counts = [value["prompt_tokens"], value["completion_tokens"], value["total_tokens"]];
  return (
    counts.every(isNumber) &&
    isCounts(prompt, ["cached_tokens"]) &&
    isCounts(completion, ["reasoning_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens"])
  );
}

function isCounts(value: unknown, names: readonly string[]): boolean {
  return isNone(value) || (isRecord(value) && names.every((name) => isNumber(value[name])));
}

function isNone(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** Servers leave fields out, or send null for them. */
function isText(value: unknown): boolean {
  return typeof value === "string" || isNone(value);
}

function isNumber(value: unknown): boolean {
  return Number.isFinite(value) || isNone(value);
}
