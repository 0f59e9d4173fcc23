/** What the blocks of a prompt say to the model. */
import type { ContentBlock } from "@agentclientprotocol/sdk/unstable";
import type { UserMessage } from "../agent/message.ts";
import { invalidParams } from "./error.ts";

export function toMessage(blocks: readonly ContentBlock[]): UserMessage {
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
