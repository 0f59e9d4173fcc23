/** What the process reports about itself: log lines and spans, with secrets redacted. Touches the machine (stderr). */
import process from "node:process";
import { isExactNumber } from "./data.ts";

// Redaction: everything that leaves the process as text or JSON passes through here

/** Replaces a secret. */
export const MASK = "[redacted]";
/** Shorter values would redact ordinary words. */
const MIN_SECRET_LENGTH = 8;
/** For a password that is hidden only while one command runs. */
const SHORTEST_SECRET = 4;
const MAX_SECRETS = 1000;

/**
 * Shapes of well-known credentials. Each alternative has a fixed prefix and one bounded run of characters. An
 * alternative that could restart within its own run must not be preceded by that run's characters, so a search is
 * linear for any text.
 */
const SHAPES = new RegExp(
  [
    String.raw`\bsk-[A-Za-z0-9_-]{16,256}`, // OpenAI, Anthropic, OpenRouter
    String.raw`\bgh[pousr]_[A-Za-z0-9]{20,255}`, // GitHub
    String.raw`\bgithub_pat_[A-Za-z0-9_]{20,255}`,
    String.raw`\bglpat-[A-Za-z0-9_-]{16,255}`, // GitLab
    String.raw`\bxox[abeoprs]-[A-Za-z0-9-]{10,255}`, // Slack
    String.raw`\bAKIA[A-Z0-9]{16}\b`, // AWS
    String.raw`\bAIza[A-Za-z0-9_-]{30,60}`, // Google
    String.raw`\bnpm_[A-Za-z0-9]{30,60}`,
    String.raw`(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}`, // JSON Web Token
  ].join("|"),
  "g",
);
const AUTHORIZATION = /\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{12,4096})/gi;
/** "Basic authentication" and "bearer tokens/cookies." are not credentials. */
const PROSE = /^(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-./](?:[A-Z]?[a-z]+|[A-Z]+)?)*$/;
const URL_PASSWORD = /\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@"']{0,256}):[^\s/@"']{1,256}@/gi;
/** Matches only characters of a PEM body, even as JSON text, so text that merely mentions a header stays. */
const PRIVATE_KEY =
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\sA-Za-z0-9+/=\\:,.-]){0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?/g;
const CREDENTIALS = [PRIVATE_KEY, SHAPES, AUTHORIZATION, URL_PASSWORD];
/** Part of every shape; text without it, the usual case, needs one scan only. */
const MAYBE = /sk-|gh[pousr]_|github_pat_|glpat-|xox|AKIA|AIza|npm_|eyJ|bearer|basic|:\/\/|PRIVATE KEY/i;

/** Replaces a known secret during the search for credentials: it must not end a credential around it. */
const HOLE = "0redactedSecret0";

/** Known secrets with the number of their registrations. */
const secrets = new Map<string, number>();
let known: RegExp | undefined;
/** Called before a search, to register new secrets. */
const sources = new Set<() => void>();
/** Interval between calls of the sources: text may come in a thousand pieces a second. */
const ASK_EVERY_MS = 5;
let askedAtMs = Number.NEGATIVE_INFINITY;
/** True when the secrets changed since the patterns were built. */
let isStale = false;
/** Forms of the known secrets by their first character, and the length of the longest. */
let formsByStart = new Map<string, string[]>();
let longestForm = 0;

/**
 * Redacts `value` from now on: as it is, as JSON text and percent-encoded. Base64 is redacted only in a `Basic` header:
 * a secret has three base64 forms, depending on the text before it. Ignores values shorter than `minLength` (8; at
 * least 4 for one-time values): they would redact ordinary words.
 */
export function registerSecret(value: string, options: { readonly minLength?: number } = {}): void {
  const minLength = Math.max(options.minLength ?? MIN_SECRET_LENGTH, SHORTEST_SECRET);
  const holders = secrets.get(value) ?? 0;
  if (value.length < minLength || (holders === 0 && secrets.size >= MAX_SECRETS)) return;
  secrets.set(value, holders + 1);
  if (holders === 0) isStale = true;
}

/** Reverts one {@link registerSecret}, for one-time values. */
export function forgetSecret(value: string): void {
  const holders = secrets.get(value) ?? 0;
  if (holders > 1) secrets.set(value, holders - 1);
  else if (secrets.delete(value)) isStale = true;
}

/** Reverts every {@link registerSecret}, for a process that runs one service after another. */
export function forgetSecrets(): void {
  secrets.clear();
  isStale = true;
}

/**
 * Calls `look` before text is redacted, at most every 5 ms: it registers new secrets, and must be fast. Call the
 * returned function to stop.
 */
export function beforeRedacting(look: () => void): () => void {
  sources.add(look);
  return () => void sources.delete(look);
}

function askSources(): void {
  if (sources.size === 0) return;
  const nowMs = performance.now();
  if (nowMs - askedAtMs < ASK_EVERY_MS) return;
  askedAtMs = nowMs;
  for (const look of sources) look();
}

/** Rebuilds lazily: many secrets may be registered at once. */
function compile(): void {
  askSources();
  if (!isStale) return;
  isStale = false;
  // Longest first: a secret that contains another must be redacted as a whole.
  const sorted = [...new Set([...secrets.keys()].flatMap(formsOf))].sort((a, b) => b.length - a.length);
  known =
    sorted.length === 0 ? undefined : new RegExp(sorted.map((form) => RegExp.escape(form)).join("|"), "g");
  formsByStart = Map.groupBy(sorted, (form) => form.charAt(0));
  longestForm = sorted[0]?.length ?? 0;
}

function formsOf(secret: string): readonly string[] {
  const json = JSON.stringify(secret).slice(1, -1);
  // A lone surrogate has no percent-encoding.
  if (!secret.isWellFormed()) return [secret, json];
  const percent = encodeURIComponent(secret);
  return [secret, json, percent, percent.replaceAll("%20", "+")];
}

/** Returns how many characters at the end of `text` may begin a known secret. */
export function secretTail(text: string): number {
  compile();
  for (let at = Math.max(0, text.length - longestForm + 1); at < text.length; at += 1) {
    const forms = formsByStart.get(text.charAt(at));
    if (!forms) continue;
    const tail = text.slice(at);
    if (forms.some((form) => form.length > tail.length && form.startsWith(tail))) return tail.length;
  }
  return 0;
}

/** Returns how many characters at the start of `text` may end a known secret. */
export function secretHead(text: string): number {
  compile();
  let length = 0;
  for (const form of [...formsByStart.values()].flat()) {
    for (let size = Math.min(form.length - 1, text.length); size > length; size -= 1) {
      if (text.startsWith(form.slice(-size))) length = size;
    }
  }
  return length;
}

/** Returns `at`, or the start of the secret that contains it: text split there can be redacted in two parts. */
function spanStart(text: string, at: number): number {
  if (at <= 0 || at >= text.length) return at;
  compile();
  const patterns = [...(known ? [known] : []), ...(MAYBE.test(text) ? CREDENTIALS : [])];
  for (const pattern of patterns) {
    for (const match of text.matchAll(pattern)) {
      if (match.index >= at) break;
      if (match.index + match[0].length > at) return spanStart(text, match.index);
    }
  }
  return at;
}

/** Returns `text` with every known secret and everything that looks like a credential replaced by `[redacted]`. */
export function redact(text: string): string {
  compile();
  const clean = known ? text.replace(known, HOLE) : text;
  if (!MAYBE.test(clean)) return clean.replaceAll(HOLE, MASK);
  return clean
    .replace(PRIVATE_KEY, MASK)
    .replace(SHAPES, MASK)
    .replace(AUTHORIZATION, (whole, scheme: string, gap: string, token: string) =>
      PROSE.test(token) ? whole : `${scheme}${gap}${MASK}`,
    )
    .replace(URL_PASSWORD, `$1:${MASK}@`)
    .replaceAll(HOLE, MASK);
}

/** Returns whether the whole `text` has the shape of a well-known credential, such as `ghp_…`. */
export function looksLikeCredential(text: string): boolean {
  return text.replace(SHAPES, "") === "" && text !== "";
}

/** Returns a copy of a JSON value with every string redacted; strings under secret names are replaced as a whole. */
export function redactValue(value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (Array.isArray(value)) return value.map(redactValue);
  if (typeof value !== "object" || value === null || isExactNumber(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      typeof item === "string" && SECRET_NAME.test(key) ? MASK : redactValue(item),
    ]),
  );
}

const SECRET_NAME =
  /^(?:.*[_-])?(?:password|passwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token|private[_-]?key)$/i;

// Redaction of a stream

/** Limit of the buffered part of an unfinished credential; PEM keys and longer secrets may buffer more. */
const MAX_HELD_CHARACTERS = 4_096;
const MAX_KEY_CHARACTERS = 24_000;

/** Prefixes of credentials without whitespace, in lower case. */
const markers = "sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox akia aiza npm_ eyj bearer basic".split(
  " ",
);
const marker = new RegExp(String.raw`${markers.join("|")}|[a-z][a-z0-9+.-]{1,20}:\/\/`, "i");
const longestMarker = Math.max(...markers.map((text) => text.length));
const schemeTail = /(?<!\w)[a-z][a-z0-9+.-]{0,20}(?::\/{0,2})?$/i;
const authorizationTail = /\b(?:bearer|basic)\s{1,200}\S{0,4096}$/i;
const keyTail = new RegExp(
  String.raw`^-----(?:B|BE|BEG|BEGI|BEGIN|BEGIN [A-Z ]{0,60}-{0,4})?$|` +
    String.raw`^-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\sA-Za-z0-9+/=\\:,.-])*(?:-----[A-Z -]{0,60})?$`,
);
const keyEnd = /-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----$/;

/**
 * Redacts text that comes in pieces, also secrets split between two of them. Buffers only a tail that could begin a
 * secret (a known one, the shape of a credential up to the next whitespace, or a PEM key) and returns the rest at once.
 * A credential of more than 4 KiB that is known by its shape alone may leak.
 */
export class RedactStream {
  #buffered = "";

  /** Returns the text that can be shown now. */
  push(text: string): string {
    const all = this.#buffered + text;
    const at = safeEnd(all);
    this.#buffered = all.slice(at);
    return redact(all.slice(0, at));
  }

  /** Returns the rest and resets the stream. */
  end(): string {
    const rest = redact(this.#buffered);
    this.#buffered = "";
    return rest;
  }
}

function safeEnd(text: string): number {
  const shapeFrom = Math.min(runStart(text), authorizationStart(text));
  const bounded = Math.max(shapeFrom, text.length - MAX_HELD_CHARACTERS);
  const at = Math.min(bounded, keyStart(text), text.length - secretTail(text));
  return spanStart(text, at);
}

/** Returns where a credential begins in the last run without whitespace; the end of the text when none does. */
function runStart(text: string): number {
  const limit = Math.max(0, text.length - 2 * MAX_HELD_CHARACTERS);
  let from = text.length;
  while (from > limit && /\S/.test(text[from - 1] ?? "")) from -= 1;
  const run = text.slice(from);
  const found = marker.exec(run)?.index ?? partialMarker(run);
  const scheme = schemeTail.exec(run.slice(-32));
  const schemeAt = scheme ? Math.max(0, run.length - 32) + scheme.index : run.length;
  let at = Math.min(found, schemeAt);
  // The character before decides whether it is a credential: `sk-` in `task-force` is not.
  while (at > 0 && /[\w-]/.test(run[at - 1] ?? "")) at -= 1;
  return from + at;
}

/** Returns where the run ends in the beginning of a marker. */
function partialMarker(run: string): number {
  const lower = run.slice(-longestMarker).toLowerCase();
  for (let at = 0; at < lower.length; at += 1) {
    if (markers.some((text) => text.startsWith(lower.slice(at)))) return run.length - lower.length + at;
  }
  return run.length;
}

function authorizationStart(text: string): number {
  const from = Math.max(0, text.length - MAX_HELD_CHARACTERS - 256);
  const index = authorizationTail.exec(text.slice(from))?.index;
  return index === undefined ? text.length : from + index;
}

/** Returns where an unfinished key begins. */
function keyStart(text: string): number {
  const dashes = /-{1,5}$/.exec(text.slice(-5))?.[0].length ?? 0;
  const from = text.length - MAX_KEY_CHARACTERS;
  for (const mark of ["-----BEGIN ", "-----B"]) {
    const at = text.lastIndexOf(mark);
    if (at < 0 || at < from) continue;
    const tail = text.slice(at);
    if (keyTail.test(tail) && !keyEnd.test(tail)) return at;
  }
  return text.length - dashes;
}

// Log: one structured line per event, on stderr, since stdout belongs to protocols and data

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Returns a log that adds `fields` to each line. */
  with(fields: LogFields): Log;
  /** Changes the level of this log and of those that {@link Log.with} returned. Absent: it is fixed. */
  setLevel?(level: LogLevel): void;
  /** Also writes each line to `write`, until the returned function is called. */
  copyTo?(write: (line: string) => void): () => void;
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** Creates a log that writes JSON lines at or above `level`. Errors become their name, message, stack and cause. */
export function createLog(
  level: LogLevel,
  write: (line: string) => void = (line) => void process.stderr.write(line),
): Log {
  return logOf({ level, writers: new Set([write]) }, {});
}

/** What a log and those with more fields share. */
interface LogOutput {
  level: LogLevel;
  readonly writers: Set<(line: string) => void>;
}

function logOf(output: LogOutput, base: LogFields): Log {
  const emit =
    (at: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (RANK[at] < RANK[output.level]) return;
      const entry = { time: new Date().toISOString(), level: at, message, ...base, ...fields };
      const line = `${toLine(entry)}\n`;
      for (const write of output.writers) write(line);
    };
  return {
    debug: emit("debug"),
    info: emit("info"),
    warn: emit("warn"),
    error: emit("error"),
    with: (fields) => logOf(output, { ...base, ...fields }),
    setLevel: (level) => {
      output.level = level;
    },
    copyTo: (write) => {
      output.writers.add(write);
      return () => output.writers.delete(write);
    },
  };
}

export const silentLog: Log = createLog("error", () => {});

/** Omits fields that cannot be written as JSON, such as circular ones: a log never fails its caller. */
function toLine(entry: LogFields): string {
  try {
    return JSON.stringify(entry, plain).replaceAll(STEERING, escaped);
  } catch (error) {
    const { time, level, message } = entry;
    const problem = error instanceof RangeError ? "nested without end" : "no JSON";
    return JSON.stringify({ time, level, message, problem: `the fields are left out: ${problem}` }, plain);
  }
}

/** Control characters that JSON does not escape and terminals interpret: logged text may be hostile. */
const STEERING = /[\u007f-\u009f]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Redacts strings one by one: in the finished line a replacement could remove the quotes. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === "string") return redact(value);
  if (value instanceof Error) {
    return { name: value.name, message: value.message, stack: value.stack, cause: value.cause };
  }
  return typeof value === "bigint" ? value.toString() : value;
}

// Spans, and the context that links them across processes; independent of vendors

export type SpanKind = "internal" | "server" | "client" | "producer";
export type AttributeValue = string | number | boolean | readonly string[];
/** Undefined attributes are omitted. MUST NOT hold text of people or models, nor arguments or results of tools. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanOptions {
  /** Default: internal. */
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
}

/** One operation. Calls after its end are ignored; no method throws. */
export interface Span {
  /** W3C trace context for outgoing requests of this operation; undefined when there is none. */
  readonly traceparent: string | undefined;
  /** False: skip collecting attributes. */
  readonly isRecording: boolean;
  /** Starts a child span. */
  child(name: string, options?: SpanOptions): Span;
  set(attributes: Attributes): void;
  event(name: string, attributes?: Attributes): void;
  /** Marks the operation as failed, with a code or an error; only the error's code or name is recorded. */
  fail(error: unknown): void;
  end(): void;
}

export interface Tracer {
  /** False: the tracer records nothing and only propagates trace contexts. */
  readonly isOn: boolean;
  /** Starts a span; `parent` is the incoming trace context. An invalid one counts as absent. */
  start(name: string, options?: SpanOptions & { readonly parent?: string | undefined }): Span;
}

/** The fields of a `traceparent` header, W3C Trace Context 2, section 3.2. */
interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hex digits, not all zero. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MAX_CHARACTERS = 512;
const SAMPLED = 1;

/**
 * Parses a `traceparent` header; undefined when it is not valid. Reads only the fields of version 00 from later
 * versions, as the standard requires.
 */
export function parseTraceparent(header: string | null | undefined): TraceContext | undefined {
  if (header === null || header === undefined || header.length > MAX_CHARACTERS) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = TRACEPARENT.exec(header.trim()) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

/** Formats a context as version 00. */
export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Returns what `span.fail` records of an error: a code or a class, never its message, which may quote anything. */
export function errorType(error: unknown): string {
  if (typeof error === "string") return error;
  const { code, statusCode, name } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return code;
  // The provider's answer says more than the class of its client's error.
  if (typeof statusCode === "number") return String(statusCode);
  return typeof name === "string" ? name : "_OTHER";
}

/** The span of an operation that is not traced. */
export const noSpan: Span = passing(undefined);

/** Records nothing. Propagates the incoming context, if any. */
export const offTracer: Tracer = {
  isOn: false,
  start(_name, options) {
    const context = options?.parent === undefined ? undefined : parseTraceparent(options.parent);
    return context === undefined ? noSpan : passing(formatTraceparent(context));
  },
};

function passing(traceparent: string | undefined): Span {
  const span: Span = {
    traceparent,
    isRecording: false,
    child: () => span,
    set: () => {},
    event: () => {},
    fail: () => {},
    end: () => {},
  };
  return Object.freeze(span);
}
