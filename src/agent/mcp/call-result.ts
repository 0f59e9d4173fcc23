import type { MCPClient } from "@ai-sdk/mcp";
import { ToolError } from "../tool/tool.ts";

const MAX_RESULT_CHARACTERS = 100_000;

type CallResult = Awaited<ReturnType<MCPClient["callTool"]>>;

/** What the model reads of an answer, cut where it is too long. ToolError for what the server calls an error. */
export function textOf(result: CallResult): string {
  const parts = Array.isArray(result.content) ? (result.content as readonly ContentPart[]) : [];
  const whole =
    parts.length > 0 ? parts.map(describe).join("\n") : JSON.stringify(result["structuredContent"] ?? "");
  const text =
    whole.length > MAX_RESULT_CHARACTERS
      ? `${whole.slice(0, MAX_RESULT_CHARACTERS)}\n[... ${whole.length - MAX_RESULT_CHARACTERS} characters cut ...]`
      : whole;
  if (result.isError === true) throw new ToolError(text === "" ? "The tool failed." : text);
  return text === "" ? "Done." : text;
}

interface ContentPart {
  readonly type: string;
  readonly text?: string;
  readonly mimeType?: string;
  readonly data?: string;
  readonly uri?: string;
  readonly resource?: { readonly uri?: string; readonly text?: string };
}

function describe(part: ContentPart): string {
  if (part.type === "text") return part.text ?? "";
  if (part.type === "resource") return part.resource?.text ?? `[resource ${part.resource?.uri ?? ""}]`;
  if (part.type === "resource_link") return `[resource ${part.uri ?? ""}]`;
  return `[${part.type} ${part.mimeType ?? ""}, ${bytesOf(part.data ?? "")} bytes]`;
}

function bytesOf(base64: string): number {
  return Math.floor((base64.replace(/={1,2}$/, "").length * 3) / 4);
}
