import { waitAtMost } from "../../base/deadline.ts";
import type { FileChange } from "../../../generated/http/client/types.gen.ts";
import type { ToolCall } from "../engine.ts";
import { shownChanges } from "./shown-changes.ts";
import type { ToolCallScope } from "./scope.ts";
import type { Tool } from "./tool.ts";

/** A call is not kept waiting for longer by what people would like to see of it. */
const MAX_PREVIEW_MS = 1_000;

/** What a call would change in files, redacted; undefined when that cannot be told, or not soon. */
export async function previewOf(
  tool: Tool,
  call: ToolCall,
  { cwd, files, signal, clock }: Pick<ToolCallScope, "cwd" | "files" | "signal" | "clock">,
): Promise<FileChange[] | undefined> {
  if (!tool.preview) return undefined;
  try {
    const context = { cwd, signal, ...(files ? { files } : {}) };
    const changes = await waitAtMost(clock, MAX_PREVIEW_MS, tool.preview(call.input as never, context));
    return changes && changes.length > 0 ? shownChanges(changes) : undefined;
  } catch {
    // The call itself says what is wrong.
    return undefined;
  }
}
