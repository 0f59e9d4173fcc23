import { defineTool, ToolError, type Tool, type ToolContext } from "../tool.ts";
import { readsOf, realPath } from "./paths.ts";
import { stageFile } from "./staged-file.ts";

interface WriteFileInput {
  readonly path: string;
  readonly content: string;
}

const MAX_BYTES = 5_242_880;

/** The tool that creates a file or replaces all of it. */
export function createWriteFile(): Tool {
  return defineTool<WriteFileInput>({
    name: "write_file",
    toolset: "files",
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

async function run(input: WriteFileInput, context: ToolContext): Promise<string> {
  const sizeBytes = Buffer.byteLength(input.content);
  if (sizeBytes > MAX_BYTES) {
    throw new ToolError(`The content has ${sizeBytes} bytes; the limit is ${MAX_BYTES}. Write it in parts.`);
  }
  const staged = await stageFile(realPath(input.path, context.cwd), input.content);
  if (context.signal.aborted) {
    await staged.discard();
    throw context.signal.reason;
  }
  await staged.commit();
  return `${staged.existed ? "Replaced" : "Created"} ${input.path} (${sizeBytes} bytes).`;
}
