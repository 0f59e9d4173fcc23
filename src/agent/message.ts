import type { ToolEndCode } from "../../generated/http/client/types.gen.ts";

/** The transcript's own message form: what is stored, compressed and handed to any engine. JSON throughout. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage;

/** Instructions that came with a request. */
export interface SystemMessage {
  readonly role: "system";
  readonly text: string;
}

export interface UserMessage {
  readonly role: "user";
  readonly text: string;
  readonly name?: string;
  /** Absent: a prompt. steer: added to a running turn. summary: replaces older messages. */
  readonly origin?: "steer" | "summary";
  /** Images and files of the message. */
  readonly attachments?: readonly Attachment[];
}

export interface Attachment {
  readonly type: "image" | "file";
  /** Sniffed, such as `image/png`. */
  readonly mediaType: string;
  readonly name?: string;
  /** Base64. */
  readonly data: string;
}

export interface AssistantMessage {
  readonly role: "assistant";
  readonly parts: readonly AssistantPart[];
  /** True when the turn was cut before the message was complete. */
  readonly interrupted?: boolean;
}

export type AssistantPart =
  | {
      readonly type: "text";
      readonly text: string;
      /** Message id of its deltas. */
      readonly id?: string;
      readonly provider?: ProviderData;
    }
  | { readonly type: "reasoning"; readonly text: string; readonly provider?: ProviderData }
  | {
      readonly type: "tool_call";
      readonly callId: string;
      readonly tool: string;
      readonly input: unknown;
      readonly provider?: ProviderData;
    };

/** What a provider wants to see again unchanged with a part: signatures, encrypted reasoning. Opaque to us. */
export type ProviderData = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** The answer to one tool call. Every tool_call part is followed by exactly one of these before the next turn. */
export interface ToolMessage {
  readonly role: "tool";
  readonly callId: string;
  readonly tool: string;
  readonly status: ToolStatus;
  readonly text: string;
  /** Why the call failed. */
  readonly code?: ToolEndCode;
  /** The reason that a person gave for a denial. */
  readonly reason?: string;
}

/** pending: the client makes the call; its answer follows as another message of the same call. */
export type ToolStatus = "ok" | "error" | "denied" | "aborted" | "pending";

/** Returns the visible text of a message. */
export function textOf(message: Message): string {
  if (message.role !== "assistant") return message.text;
  return message.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}
