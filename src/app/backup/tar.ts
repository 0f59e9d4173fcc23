/** Tar archives, POSIX.1-2001 pax format: what a backup needs of it. Pure. */

const BLOCK = 512;
const MAX_NAME_BYTES = 100;
/** The largest size that eleven octal digits hold. */
const MAX_OCTAL = 0o77777777777;
/** A header with names; more is not from a backup. */
const MAX_PAX_BYTES = 65_536;

export type TarKind = "file" | "folder" | "link";

export interface TarHeader {
  readonly path: string;
  readonly kind: TarKind;
  readonly mode: number;
  /** In bytes; 0 unless it is a file. */
  readonly size: number;
  /** Where a link points. */
  readonly target?: string;
}

const FLAGS: Readonly<Record<TarKind, string>> = { file: "0", folder: "5", link: "2" };

/** Returns the blocks before the content of an entry. */
export function tarHeader({ path, kind, mode, size, target = "" }: TarHeader): Buffer {
  const records = [
    ...(isLong(path) ? [paxRecord("path", path)] : []),
    ...(isLong(target) ? [paxRecord("linkpath", target)] : []),
    ...(size > MAX_OCTAL ? [paxRecord("size", String(size))] : []),
  ];
  const own = block({ path, flag: FLAGS[kind], mode, size: size > MAX_OCTAL ? 0 : size, target });
  if (records.length === 0) return own;
  const pax = Buffer.concat(records);
  const before = block({ path: "pax", flag: "x", mode: 0o600, size: pax.length, target: "" });
  return Buffer.concat([before, pax, tarPadding(pax.length), own]);
}

/** Returns what follows `size` bytes of content. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The end of an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);

function isLong(text: string): boolean {
  return Buffer.byteLength(text) > MAX_NAME_BYTES;
}

/** Returns `<length> <key>=<value>\n`; the length counts itself. */
function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  length = rest + String(length).length;
  return Buffer.from(`${length} ${key}=${value}\n`);
}

interface Block {
  readonly path: string;
  readonly flag: string;
  readonly mode: number;
  readonly size: number;
  readonly target: string;
}

function block({ path, flag, mode, size, target }: Block): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    header.write(value.toString(8).padStart(digits, "0"), at);
  Buffer.from(path).copy(header, 0, 0, MAX_NAME_BYTES);
  octal(mode & 0o7777, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(0, 136, 11);
  header.fill(" ", 148, 156);
  header.write(flag, 156);
  Buffer.from(target).copy(header, 157, 0, MAX_NAME_BYTES);
  header.write("ustar\u000000", 257);
  octal(sumOf(header), 148, 6);
  header[154] = 0;
  return header;
}

function sumOf(header: Buffer): number {
  return header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);
}

/** An archive that no backup wrote, or that was changed or cut. The message is a clause. */
export class TarError extends Error {
  override readonly name = "TarError";
}

export interface TarEntry extends TarHeader {
  /** MUST be read to its end before the next entry. */
  readonly content: AsyncIterable<Buffer>;
}

/** Yields the entries of an archive. Throws {@link TarError}. */
export async function* readTar(source: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const bytes = new ByteSource(source);
  let pax: ReadonlyMap<string, string> = new Map();
  for (;;) {
    const header = await bytes.take(BLOCK);
    if (header.every((byte) => byte === 0)) return;
    if (readOctal(header, 148, 8) !== sumOf(header)) throw new TarError("it is not an intact tar archive");
    const size = Number(pax.get("size") ?? readOctal(header, 124, 12));
    const flag = String.fromCharCode(header[156] ?? 0);
    if (flag === "x") {
      if (size > MAX_PAX_BYTES) throw new TarError("an entry has too long a name");
      pax = readPax(await bytes.take(size));
      await bytes.take(tarPadding(size).length);
      continue;
    }
    const kind = (Object.keys(FLAGS) as TarKind[]).find((each) => FLAGS[each] === flag);
    if (kind === undefined) throw new TarError("it has entries that no backup has");
    yield {
      path: pax.get("path") ?? readText(header, 0),
      kind,
      mode: readOctal(header, 100, 8),
      size,
      ...(kind === "link" ? { target: pax.get("linkpath") ?? readText(header, 157) } : {}),
      content: bytes.stream(size),
    };
    await bytes.take(tarPadding(size).length);
    pax = new Map();
  }
}

function readText(header: Buffer, at: number): string {
  const field = header.subarray(at, at + MAX_NAME_BYTES);
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? MAX_NAME_BYTES : end);
}

function readOctal(header: Buffer, at: number, length: number): number {
  const text = header.toString("latin1", at, at + length).replace(/[\0 ].*$/s, "");
  return /^[0-7]+$/.test(text) ? Number.parseInt(text, 8) : Number.NaN;
}

function readPax(bytes: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < bytes.length;) {
    const length = Number.parseInt(bytes.toString("latin1", at, at + 10), 10);
    const [, key, value] = /^\d+ ([^=]+)=(.*)\n$/s.exec(bytes.toString("utf8", at, at + length)) ?? [];
    if (key === undefined || value === undefined) throw new TarError("a name in it cannot be read");
    records.set(key, value);
    at += length;
  }
  return records;
}

/** Takes exact numbers of bytes from chunks of any size. */
class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  async take(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.stream(count)) parts.push(part);
    return Buffer.concat(parts);
  }

  async *stream(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0;) {
      if (this.#rest.length === 0) this.#rest = await this.#next();
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }

  async #next(): Promise<Buffer> {
    const { done, value } = await this.#chunks.next();
    if (done === true) throw new TarError("it ends too early");
    return value;
  }
}
