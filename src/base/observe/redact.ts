/** Redacts secrets: everything that leaves the process as text or JSON passes through here. */
import { isExactNumber } from "../json/exact-json.ts";

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
/** Matches only characters of a PEM body, also as JSON text, so text that merely mentions a header stays. */
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
 * Calls `look` before text is redacted, at most every 5 ms: it registers new secrets, and must be fast. The returned
 * function ends that.
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
export function spanStart(text: string, at: number): number {
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
