/** Slash commands that come as prompts. */
import type { ContentBlock, PromptResponse } from "@agentclientprotocol/sdk/unstable";
import type { UserMessage } from "../agent/message.ts";
import type { AcpConnection } from "./connection.ts";
import type { AcpSession } from "./session.ts";

export interface DispatchCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly blocks: readonly ContentBlock[];
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** What became of a command: it is answered, or the model is to be asked something. */
export type Dispatched =
  | { readonly type: "answer"; readonly response: PromptResponse }
  | { readonly type: "prompt"; readonly message: UserMessage };

/** Undefined: the prompt is no command. Does not wait for a turn at work. */
export async function dispatchCommand(_call: DispatchCall): Promise<Dispatched | undefined> {
  return undefined;
}
