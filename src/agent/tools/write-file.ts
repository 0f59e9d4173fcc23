import { readFile, stat } from "node:fs/promises";
import { defineTool, ToolError, type Tool, type ToolContext, type ToolOutput } from "../tool.ts";
import { fileChange } from "./file-diff.ts";
import { readsOf, realPath } from "./paths.ts";
import { stageFile } from "./staged-file.ts";

interface WriteFileInput {
  readonly path: string;
  readonly content: string;
}

const MAX_BYTES = 5_242_880;
const MAX_SHOWN_BYTES = 131_072;

/** The tool that creates a file or replaces all of it. */
export function createWriteFile(): Tool {
  return defineTool<WriteFileInput>({
    name: "write_file",
    toolset: "files",
    kind: "edit",
    description:
      "Creates a text file, with its missing parent directories, or replaces all of an existing one; its rights are " +
      `kept. At most ${MAX_BYTES} bytes. To change a part of a file use patch.`,
    parameters: {
      type: "object",
      additionalProperties: false,
      required: ["path", "content"],
      properties: {
        path: {
          type: "string",
          minLength: 1,
          maxLength: 4096,
          description: "The file, relative to the workspace or absolute; ~ is the user's home.",
        },
        content: {
          type: "string",
          maxLength: MAX_BYTES,
          description: "All of the new content, written as UTF-8.",
        },
      },
    },
    inspect: (input, { cwd }) => ({
      kind: "file",
      title: `Write: ${input.path}`,
      writes: readsOf(input.path, cwd),
    }),
    run,
  });
}

async function run(input: WriteFileInput, context: ToolContext): Promise<ToolOutput> {
  const sizeBytes = Buffer.byteLength(input.content);
  if (sizeBytes > MAX_BYTES) {
    throw new ToolError(`The content has ${sizeBytes} bytes; the limit is ${MAX_BYTES}. Write it in parts.`);
  }
  const target = realPath(input.path, context.cwd);
  const before = await textBefore(target);
  const staged = await stageFile(target, input.content);
  if (context.signal.aborted) {
    await staged.discard();
    throw context.signal.reason;
  }
  await staged.commit();
  const text = `${staged.existed ? "Replaced" : "Created"} ${input.path} (${sizeBytes} bytes).`;
  // Of what was no text, or too long to show, people learn only that it was replaced.
  if (staged.existed && before === undefined) return { text };
  return { text, changes: [fileChange(target, before, input.content)] };
}

/** Undefined for what is not there, is no text or is too long to be shown. */
async function textBefore(target: string): Promise<string | undefined> {
  try {
    const found = await stat(target);
    if (!found.isFile() || found.size > MAX_SHOWN_BYTES) return undefined;
    const bytes = await readFile(target);
    return bytes.includes(0) ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
