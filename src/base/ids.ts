/**
 * Sortable ids. Later ids sort later, which keeps the tables' indexes append-only (random keys halve the insert rate).
 */

export type IdPrefix =
  | "run"
  | "ask"
  | "msg"
  | "evt"
  | "dlv"
  | "occ"
  | "out"
  | "req"
  | "call"
  | "prc"
  | "str"
  | "con";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"; // Crockford base 32, lower case

/**
 * Returns `<prefix>_` and 26 characters in the ULID layout: 48 bits of milliseconds, a counter of 20 bits within the
 * millisecond, 60 random bits. Ids of one prefix that a process creates in one millisecond sort in the order of their
 * creation.
 */
export function createId(prefix: IdPrefix, nowMs: number = Date.now()): string {
  return `${prefix}_${stamp.of(nowMs)}${base32(numberWithin(prefix, nowMs), 4)}${randomBase32(12)}`;
}

const counts = new Map<IdPrefix, { ms: number; number: number }>();

/** Counts from a random number, so ids of several processes seldom collide. */
function numberWithin(prefix: IdPrefix, ms: number): number {
  const last = counts.get(prefix);
  if (last?.ms === ms && last.number < LAST_NUMBER) return (last.number += 1);
  const [a = 0, b = 0, c = 0] = take(3);
  const number = ((a << 16) | (b << 8) | c) & FIRST_NUMBER_BITS;
  counts.set(prefix, { ms, number });
  return number;
}

const LAST_NUMBER = 2 ** 20 - 1;
/** Half of the numbers are reserved for counting. */
const FIRST_NUMBER_BITS = 2 ** 19 - 1;

/** Returns a text that sorts before every id created at `nowMs` or later, and after every earlier one. */
export function firstIdAt(prefix: IdPrefix, nowMs: number): string {
  return `${prefix}_${base32(nowMs, 10)}`;
}

/** Returns `YYYYMMDD_HHMMSS_` and 12 hex digits: milliseconds of the second, then 36 random bits. */
export function createSessionId(nowMs: number = Date.now()): string {
  return dayAndTime.of(nowMs) + randomHex(9);
}

/** Returns whether a text has the form of {@link createSessionId}. */
export function isSessionId(text: string): boolean {
  return /^\d{8}_\d{6}_[0-9a-f]{12}$/.test(text);
}

/** The part of an id that depends on the time alone, computed once a millisecond. */
class Stamp {
  readonly #make: (nowMs: number) => string;
  #ms = Number.NaN;
  #text = "";

  constructor(make: (nowMs: number) => string) {
    this.#make = make;
  }

  of(nowMs: number): string {
    if (nowMs !== this.#ms) {
      this.#text = this.#make(nowMs);
      this.#ms = nowMs;
    }
    return this.#text;
  }
}

const stamp = new Stamp((nowMs) => base32(nowMs, 10));
const dayAndTime = new Stamp((nowMs) => {
  const digits = new Date(nowMs).toISOString().replace(/[-:]/g, "");
  return `${digits.slice(0, 8)}_${digits.slice(9, 15)}_${(nowMs % 1000).toString(16).padStart(3, "0")}`;
});

function base32(value: number, length: number): string {
  let rest = value;
  let text = "";
  for (let i = 0; i < length; i++) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

// One system call fills the pool for many ids: a call for each id costs more than the id itself.
const POOL_BYTES = 4096;
const pool = new Uint8Array(POOL_BYTES);
let used = POOL_BYTES;

function take(count: number): Uint8Array {
  if (used + count > POOL_BYTES) {
    crypto.getRandomValues(pool);
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
