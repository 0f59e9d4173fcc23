/** Sortable ids. Ids made later sort later, which keeps the tables' indexes append-only (random keys halve the insert rate). */
import { randomBytes } from "node:crypto";

export type IdPrefix =
  | "run"
  | "ask"
  | "msg"
  | "evt"
  | "dlv"
  | "job"
  | "out"
  | "turn"
  | "req"
  | "call"
  | "prc";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"; // Crockford base 32, lower case

/** `<prefix>_` and 26 characters: 48 bits of milliseconds, 80 random bits, the ULID layout. */
export function createId(prefix: IdPrefix, nowMs: number = Date.now()): string {
  return `${prefix}_${base32(nowMs, 10)}${randomBase32(16)}`;
}

/** Session ids read `YYYYMMDD_HHMMSS_` and 12 hex digits: milliseconds of the second, then 36 random bits. */
export function createSessionId(nowMs: number = Date.now()): string {
  const [day = "", time = ""] = new Date(nowMs).toISOString().split("T");
  const clock = time.slice(0, 8).replaceAll(":", "");
  const tail = (nowMs % 1000).toString(16).padStart(3, "0") + randomHex(9);
  return `${day.replaceAll("-", "")}_${clock}_${tail}`;
}

function base32(value: number, length: number): string {
  let rest = value;
  let text = "";
  for (let i = 0; i < length; i++) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

// One system call fills the pool for many ids: asking for 16 bytes an id costs more than the id itself.
const POOL_BYTES = 4096;
let pool = randomBytes(POOL_BYTES);
let used = 0;

function take(count: number): Uint8Array {
  if (used + count > POOL_BYTES) {
    pool = randomBytes(POOL_BYTES);
    used = 0;
  }
  used += count;
  return pool.subarray(used - count, used);
}

function randomBase32(length: number): string {
  let text = "";
  for (const byte of take(length)) text += ALPHABET.charAt(byte & 31);
  return text;
}

function randomHex(length: number): string {
  let text = "";
  for (const byte of take(length)) text += (byte & 15).toString(16);
  return text;
}
