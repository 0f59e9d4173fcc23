import { stat } from "node:fs/promises";
import type { FileChange } from "../../../../generated/http/client/types.gen.ts";
import {
  closedObject,
  freeText,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
  type ToolOutput,
  type ToolPreviewContext,
} from "../../tool/tool.ts";
import { readForeign } from "../../../base/system/own-files.ts";
import { editedText, stageText } from "./edited-file.ts";
import { fileChange, MAX_SHOWN_BYTES } from "./file-diff.ts";
import { filePath, readsOf, realPath, approvedOf } from "./paths.ts";

interface WriteFileInput {
  readonly path: string;
  readonly content: string;
}

const MAX_BYTES = 5_242_880;

/** The tool that creates a file or replaces its content. */
export function createWriteFile(): Tool {
  return defineTool<WriteFileInput>({
    name: "write_file",
    toolset: "files",
    kind: "edit",
    description:
      "Creates a text file, with its missing parent directories, or replaces the content of an existing one and keeps its " +
      `permissions. At most ${MAX_BYTES} bytes. To change a part of a file use patch.`,
    parameters: closedObject(
      {
        path: filePath,
        content: freeText(MAX_BYTES, "The complete new content, written as UTF-8."),
      },
      ["path", "content"],
    ),
    inspect: (input, { cwd }) => ({
      kind: "file",
      title: `Write: ${input.path}`,
      writes: readsOf(input.path, cwd),
    }),
    preview,
    run,
  });
}

async function run(input: WriteFileInput, context: ToolContext): Promise<ToolOutput> {
  const sizeBytes = Buffer.byteLength(input.content);
  if (sizeBytes > MAX_BYTES) {
    throw new ToolError(`The content has ${sizeBytes} bytes; the limit is ${MAX_BYTES}. Write it in parts.`);
  }
  const target = realPath(input.path, context.cwd);
  const changes = await preview(input, context);
  const approved = approvedOf(context);
  const staged = await stageText(target, input.content, { ...context, ...(approved ? { approved } : {}) });
  if (context.signal.aborted) {
    await staged.discard();
    throw context.signal.reason;
  }
  await staged.commit();
  const text = `${staged.existed ? "Replaced" : "Created"} ${input.path} (${sizeBytes} bytes).`;
  return { text, changes };
}

async function preview(input: WriteFileInput, context: ToolPreviewContext): Promise<readonly FileChange[]> {
  const target = realPath(input.path, context.cwd);
  const before = await textBefore(target, context);
  if (typeof before !== "object") return [fileChange(target, before, input.content)];
  return [{ path: target, diff: "", ...before }];
}

/** Resolves to undefined for a missing file, or to the reason why a binary or large file is not shown. */
async function textBefore(
  target: string,
  context: ToolPreviewContext,
): Promise<string | undefined | Required<Pick<FileChange, "omitted" | "size">>> {
  const found = await stat(target).catch(() => undefined);
  if (!found?.isFile()) return undefined;
  const { size } = found;
  if (size > MAX_SHOWN_BYTES) return { omitted: "large", size };
  try {
    const bytes = await readForeign(target);
    const edited = await editedText(target, size, context);
    if (edited !== undefined) return edited;
    return bytes.includes(0)
      ? { omitted: "binary", size }
      : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    context.signal.throwIfAborted();
    return { omitted: "binary", size };
  }
}
