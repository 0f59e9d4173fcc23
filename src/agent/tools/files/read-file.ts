import { refuseOwn } from "../../../base/system/own-files.ts";
import {
  closedObject,
  integer,
  defineTool,
  type Tool,
  type ToolContext,
  ToolError,
} from "../../tool/tool.ts";
import { editedText } from "./edited-file.ts";
import {
  filePath,
  readsOf,
  realPath,
  resolvePath,
  statOf,
  suggestNames,
  toToolError,
  openApproved,
} from "./paths.ts";

interface ReadFileInput {
  readonly path: string;
  readonly offset?: number;
  readonly limit?: number;
}

const DEFAULT_LINES = 1_000;
const MAX_LINES = 5_000;
const MAX_LINE_CHARACTERS = 2_000;
const MAX_TEXT_CHARACTERS = 100_000;
/** How far into a file the tool searches for the first line. */
const MAX_SCANNED_BYTES = 268_435_456;
const CHUNK_BYTES = 262_144;
const BINARY_PROBE_BYTES = 8_192;

/** The tool that reads lines of a text file. */
export function createReadFile(): Tool {
  return defineTool<ReadFileInput>({
    name: "read_file",
    toolset: "files",
    kind: "read",
    description:
      "Reads a text file; each line is its number, a tab and its text. " +
      `Lines above ${MAX_LINE_CHARACTERS} characters are cut, and one call returns at most ${MAX_TEXT_CHARACTERS} ` +
      "characters: read on with offset.",
    parameters: closedObject(
      {
        path: filePath,
        offset: { type: "integer", minimum: 1, description: "First line to read, from 1. Default 1." },
        limit: integer(1, MAX_LINES, `Lines to read. Default ${DEFAULT_LINES}, at most ${MAX_LINES}.`),
      },
      ["path"],
    ),
    inspect: (input, { cwd }) => ({
      kind: "file",
      title: `Read: ${input.path}`,
      reads: readsOf(input.path, cwd),
    }),
    run,
  });
}

async function run(input: ReadFileInput, context: ToolContext): Promise<string> {
  const path = resolvePath(input.path, context.cwd);
  const sizeBytes = await sizeOf(path, input.path);
  const window = new LineWindow({
    first: input.offset ?? 1,
    maxLines: input.limit ?? DEFAULT_LINES,
    maxLineCharacters: MAX_LINE_CHARACTERS,
    maxCharacters: MAX_TEXT_CHARACTERS,
  });
  const edited = await editedText(realPath(input.path, context.cwd), sizeBytes, context);
  const scannedBytes =
    edited === undefined ? await scan(path, window, context) : take(Buffer.from(edited), window);
  if (window.lines.length > 0) return `${window.lines.join("\n")}\n${trailer(window)}`;
  if (scannedBytes === 0 && (sizeBytes === 0 || edited === "")) return "The file is empty.";
  if (scannedBytes >= MAX_SCANNED_BYTES) {
    throw new ToolError(
      `Line ${window.first} is beyond the first ${MAX_SCANNED_BYTES} bytes; use the terminal instead.`,
    );
  }
  throw new ToolError(`The file has ${window.seenLines} lines; offset ${window.first} is beyond its end.`);
}

/** Feeds the file to the window until it is full; resolves to the bytes read. */
async function scan(path: string, window: LineWindow, context: ToolContext): Promise<number> {
  const { signal } = context;
  let scannedBytes = 0;
  try {
    await using file = await openApproved(path, context);
    for (;;) {
      signal.throwIfAborted();
      const chunk = Buffer.alloc(CHUNK_BYTES);
      const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, null);
      if (bytesRead === 0) break;
      if (scannedBytes === 0) assertText(chunk.subarray(0, bytesRead), path);
      scannedBytes += bytesRead;
      if (window.push(chunk.subarray(0, bytesRead)) || scannedBytes >= MAX_SCANNED_BYTES) return scannedBytes;
    }
    window.end();
    return scannedBytes;
  } catch (error) {
    signal.throwIfAborted();
    throw toToolError(error, path);
  }
}

/** As {@link scan}, for bytes in memory. */
function take(bytes: Buffer, window: LineWindow): number {
  if (!window.push(bytes)) window.end();
  return bytes.length;
}

async function sizeOf(path: string, given: string): Promise<number> {
  const found = await statOf(path);
  if (!found) throw new ToolError(`${given}: no such file exists.${await suggestNames(path)}`);
  if (found.isDirectory())
    throw new ToolError(`${given} is a directory. List it with search_files or the terminal.`);
  // Pipes and devices could block forever or never end.
  if (!found.isFile()) throw new ToolError(`${given} is not a regular file.`);
  try {
    refuseOwn(path, found);
  } catch (error) {
    throw toToolError(error, given);
  }
  return found.size;
}

function assertText(start: Buffer, path: string): void {
  if (!start.subarray(0, BINARY_PROBE_BYTES).includes(0)) return;
  throw new ToolError(`${path} is a binary file. Inspect it with the terminal, such as file or xxd.`);
}

function trailer(window: LineWindow): string {
  if (!window.more) return `(end of file, ${window.seenLines} lines)`;
  const last = window.first + window.lines.length - 1;
  return `(lines ${window.first} to ${last}; more follows: read on with offset ${last + 1})`;
}

interface WindowLimits {
  /** Number of the first requested line, from 1. */
  readonly first: number;
  readonly maxLines: number;
  readonly maxLineCharacters: number;
  readonly maxCharacters: number;
}

const LINE_FEED = 10;

/** Picks numbered lines from a stream of bytes, in memory bounded by the limits however long a line is. */
export class LineWindow {
  readonly #limits: WindowLimits;
  readonly lines: string[] = [];
  /** True once content after the picked lines was seen. */
  more = false;
  #kept: Uint8Array[] = [];
  #keptBytes = 0;
  #lineBytes = 0;
  #characters = 0;
  #ended = 0;

  constructor(limits: WindowLimits) {
    this.#limits = limits;
  }

  get first(): number {
    return this.#limits.first;
  }

  /** Number of complete lines so far. */
  get seenLines(): number {
    return this.#ended;
  }

  /** Adds bytes; returns true when the window is full. */
  push(chunk: Buffer): boolean {
    let start = 0;
    while (start < chunk.length) {
      if (this.#isFull()) {
        this.more = true;
        return true;
      }
      const feed = chunk.indexOf(LINE_FEED, start);
      this.#extend(chunk.subarray(start, feed === -1 ? chunk.length : feed));
      if (feed === -1) return false;
      this.#finishLine();
      start = feed + 1;
    }
    return false;
  }

  /** Ends the stream: a last line without a line feed counts. */
  end(): void {
    if (this.#lineBytes > 0 && !this.#isFull()) this.#finishLine();
  }

  #isFull(): boolean {
    return this.lines.length >= this.#limits.maxLines || this.#characters >= this.#limits.maxCharacters;
  }

  #extend(part: Uint8Array): void {
    this.#lineBytes += part.length;
    // At most four bytes a character, plus one character that shows that the line is too long.
    const freeBytes = (this.#limits.maxLineCharacters + 1) * 4 - this.#keptBytes;
    if (freeBytes <= 0 || this.#ended + 1 < this.#limits.first) return;
    const kept = part.slice(0, freeBytes);
    this.#kept.push(kept);
    this.#keptBytes += kept.length;
  }

  #finishLine(): void {
    this.#ended += 1;
    if (this.#ended >= this.#limits.first) this.#keep();
    this.#kept = [];
    this.#keptBytes = 0;
    this.#lineBytes = 0;
  }

  #keep(): void {
    const { maxLineCharacters } = this.#limits;
    const whole = new TextDecoder().decode(Buffer.concat(this.#kept)).replace(/\r$/, "");
    const isLong = whole.length > maxLineCharacters || this.#lineBytes > this.#keptBytes;
    const cut = whole.slice(0, maxLineCharacters).replace(/[\uD800-\uDBFF]$/, "");
    const text = isLong ? `${cut} [... line cut, ${this.#lineBytes} bytes in total]` : whole;
    this.lines.push(`${this.#ended}\t${text}`);
    this.#characters += text.length + 8;
  }
}
