/** Reads the log file of a gateway, also while it grows and is rotated. Touches the machine. */
import { open, stat, type FileHandle } from "node:fs/promises";
import { Lines, type Line } from "../../base/text.ts";
import { olderLogPath } from "./log-file.ts";

interface ReadFile {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly lines: Lines;
  position: number;
}

const CHUNK_BYTES = 65_536;
const MAX_LINE_BYTES = 1_048_576;

/** Reads the lines of the older file and of the current one, then those that are added. */
export class LogReader {
  readonly #path: string;
  readonly #onLine: (line: string) => void;
  #file: ReadFile | undefined;
  #hasStarted = false;

  constructor(path: string, onLine: (line: string) => void) {
    this.#path = path;
    this.#onLine = onLine;
  }

  /** Reads what was added since the last call. Resolves to false while the file does not exist. */
  async read(): Promise<boolean> {
    if (!this.#file && !(await this.#start())) return false;
    while (this.#file) {
      await this.#drain(this.#file);
      const found = await stat(this.#path).catch(() => undefined);
      // Renamed, and not created again yet.
      if (!found) return true;
      if (found.ino === this.#file.inode) return true;
      await this.#next(this.#file);
    }
    return true;
  }

  async close(): Promise<void> {
    await this.#file?.handle.close();
    this.#file = undefined;
  }

  async #start(): Promise<boolean> {
    const current = await openIfThere(this.#path);
    if (!this.#hasStarted) await this.#readOlder(current?.inode);
    this.#hasStarted ||= current !== undefined;
    this.#file = current;
    return current !== undefined;
  }

  /** Continues from a file that was rotated to the file that replaced it. */
  async #next(file: ReadFile): Promise<void> {
    // The last lines may have come between reading and rotation.
    await this.#drain(file);
    this.#emit(file.lines.end());
    const current = await openIfThere(this.#path);
    // After two rotations since the last look, one whole file is between both.
    await this.#readOlder(current?.inode, file.inode);
    this.#file = current;
    // Until here, no other file can have its number.
    await file.handle.close();
  }

  /** Reads the older file, unless it is one of the files that are read anyway. */
  async #readOlder(...known: readonly (number | undefined)[]): Promise<void> {
    const older = await openIfThere(olderLogPath(this.#path));
    if (!older) return;
    try {
      if (known.includes(older.inode)) return;
      await this.#drain(older);
      this.#emit(older.lines.end());
    } finally {
      await older.handle.close();
    }
  }

  async #drain(file: ReadFile): Promise<void> {
    if ((await file.handle.stat()).size < file.position) file.position = 0;
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await file.handle.read(chunk, 0, chunk.length, file.position);
      if (bytesRead === 0) return;
      file.position += bytesRead;
      // The lines keep parts of the chunk until they are complete.
      this.#emit(file.lines.push(Uint8Array.prototype.slice.call(chunk, 0, bytesRead)));
    }
  }

  #emit(lines: Iterable<Line>): void {
    for (const line of lines) {
      if ("text" in line) this.#onLine(line.text);
      else this.#onLine(line.problem === "long" ? `${line.head}…` : "(a line that is not UTF-8 text)");
    }
  }
}

async function openIfThere(path: string): Promise<ReadFile | undefined> {
  try {
    const handle = await open(path);
    const { ino: inode } = await handle.stat();
    return { handle, inode, lines: new Lines(MAX_LINE_BYTES), position: 0 };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
