/**
 * The log file of a gateway: one current file and one older, both private and bounded. Writing never fails its caller.
 * Touches the machine.
 */
import {
  chmodSync,
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
  type Stats,
} from "node:fs";
import { dirname, join } from "node:path";

export function logPath(home: string): string {
  return join(home, "logs", "gateway.log");
}

/** Returns where the older file is: what was the current file until it was full. */
export function olderLogPath(path: string): string {
  return path.replace(/\.log$/, ".1.log");
}

export interface LogFileOptions {
  readonly path: string;
  /** The current file becomes the older one before it would exceed this. */
  readonly maxBytes: number;
  /** Receives a clause about the first line that cannot be written, such as on a full disk. */
  readonly onProblem: (reason: string) => void;
  /** Called when lines can be written again. */
  readonly onRecovery: (lostLines: number) => void;
}

interface OpenFile {
  readonly descriptor: number;
  readonly inode: number;
  bytes: number;
}

const LINE_FEED = 10;
const FILE_MODE = 0o600;
const OTHERS = 0o077;
const FOLDER_MODE = 0o700;

/** Appends lines. Several gateways may write to the same path, and anyone may move the file away. */
export class LogFile {
  readonly #options: LogFileOptions;
  #file: OpenFile | undefined;
  /** The file ends within a line. */
  #isTorn = false;
  #lostLines = 0;

  constructor(options: LogFileOptions) {
    this.#options = options;
  }

  /** Appends a line that ends with a line feed. A line that cannot be written is lost. */
  write(line: string): void {
    try {
      this.#append(Buffer.from(line));
    } catch (error) {
      if (this.#lostLines === 0) this.#options.onProblem(reasonOf(error));
      this.#lostLines += 1;
      return;
    }
    const lost = this.#lostLines;
    this.#lostLines = 0;
    if (lost > 0) this.#options.onRecovery(lost);
  }

  close(): void {
    if (this.#file) closeSync(this.#file.descriptor);
    this.#file = undefined;
  }

  #append(line: Buffer): void {
    const { maxBytes } = this.#options;
    if (line.length > maxBytes) throw new Error(`a line of ${line.length} bytes exceeds the limit`);
    let file = this.#current();
    if (file.bytes > 0 && file.bytes + line.length + 1 > maxBytes) file = this.#rotate();
    if (this.#isTorn) file.bytes += writeSync(file.descriptor, "\n");
    this.#isTorn = false;
    for (let written = 0; written < line.length;) {
      const count = writeSync(file.descriptor, line, written);
      written += count;
      file.bytes += count;
      // A disk that fills up takes a part of the line, then fails.
      this.#isTorn = written < line.length;
    }
  }

  /** Returns the file at the path, opened again if another process rotated or removed it. */
  #current(): OpenFile {
    const { path } = this.#options;
    if (this.#file && statIfThere(path)?.ino === this.#file.inode) return this.#file;
    this.close();
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    const descriptor = openSync(path, "a+", FILE_MODE);
    const { ino: inode, size: bytes, mode } = fstatSync(descriptor);
    if ((mode & OTHERS) !== 0 && lstatSync(path).isFile()) chmodSync(path, FILE_MODE);
    this.#isTorn = bytes > 0 && lastByte(descriptor, bytes) !== LINE_FEED;
    return (this.#file = { descriptor, inode, bytes });
  }

  #rotate(): OpenFile {
    renameSync(this.#options.path, olderLogPath(this.#options.path));
    return this.#current();
  }
}

function lastByte(descriptor: number, bytes: number): number | undefined {
  const last = Buffer.alloc(1);
  readSync(descriptor, last, 0, 1, bytes - 1);
  return last[0];
}

function statIfThere(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return "code" in error ? String(error.code) : error.message;
}
