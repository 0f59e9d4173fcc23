/**
 * Where the formats are called compatible, our types are assignable to those of the official package. Checked by
 * `npm run typecheck`, never run.
 */
import type { OpenAI } from "openai";
import type * as Ours from "../../generated/http/client/types.gen.ts";

declare const completion: Ours.ChatCompletion;
declare const chunk: Ours.ChatCompletionChunk;
declare const response: Ours.ResponseObject;
declare const streamEvent: Ours.ResponseStreamEvent;
declare const item: Ours.OutputItem;
declare const usage: Ours.CompletionUsage;
declare const model: Ours.Model;
declare const deleted: Ours.DeletedResponse;
declare const envelope: Ours.ErrorEnvelope;

export const chatCompletion: OpenAI.ChatCompletion = completion;
export const chatChunk: OpenAI.ChatCompletionChunk = chunk;
export const completionUsage: OpenAI.CompletionUsage = usage;
export const outputItem: OpenAI.Responses.ResponseOutputItem = item;
export const modelEntry: OpenAI.Models.Model = model;
export const error: { message: string; type: string; param: string | null; code: string | null } =
  envelope.error;
export const gone: { id: string; object: string; deleted: boolean } = deleted;

/** The package makes `output_text` itself, has `access_programs` in its types alone, and its types forbid the `usage: null` that the live API sends too. */
type WireResponse = Omit<OpenAI.Responses.Response, "output_text" | "usage" | "access_programs"> & {
  usage: OpenAI.Responses.ResponseUsage | null;
};
export const wireResponse: WireResponse = response;

type Events = OpenAI.Responses.ResponseStreamEvent;
type WithResponse = Extract<Events, { response: unknown }>;
type WireEvent =
  | Exclude<Events, WithResponse>
  | {
      [T in WithResponse["type"]]: { type: T; sequence_number: number; response: WireResponse };
    }[WithResponse["type"]];
export const wireEvent: WireEvent = streamEvent;

declare const chatParams: OpenAI.ChatCompletionCreateParams;
declare const tools: OpenAI.ChatCompletionFunctionTool[];
/** What the package sends is what we take; its own `null`s included. */
export const chatTools: Ours.ChatCompletionRequest["tools"] = tools;
export const chatModel: Ours.ChatCompletionRequest["model"] = chatParams.model;
