/** What the blocks of a prompt say to the model. */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import type { UserMessage } from "../agent/message.ts";
import type { AcpConnection } from "./connection.ts";
import { invalidParams } from "./error.ts";
import type { AcpSession } from "./session.ts";

export interface ContentCall {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  /** Aborts when the prompt is cancelled. */
  readonly signal: AbortSignal;
}

/** RequestError -32602 that names the block and the limit for one that cannot be taken. */
export async function toMessage(blocks: readonly ContentBlock[], _call: ContentCall): Promise<UserMessage> {
  const texts = blocks.map((block) => {
    switch (block.type) {
      case "text":
        return block.text;
      case "resource_link":
        return `[${block.name}](${block.uri})`;
      case "resource":
        return "text" in block.resource
          ? `${block.resource.uri}:\n${block.resource.text}`
          : block.resource.uri;
      default:
        throw invalidParams("prompt", `Blocks of type ${block.type} are not taken.`);
    }
  });
  return { role: "user", text: texts.join("\n\n") };
}
