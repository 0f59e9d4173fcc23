/** What gh printed, and what it means for the message. Pure. */
import type { SendFailure } from "../../platform/call.ts";
import { cleanText } from "../../text/text.ts";
import { parseRetryAfter } from "../../../base/net/retry-after.ts";
import type { GhEnd } from "./gh.ts";

/** What `gh api -i` prints of an answer. */
export interface GhAnswer {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

const MAX_SAID_CHARACTERS = 200;
/** GitHub asks for at least a minute where it gives no figure: REST API, Rate limits, Exceeding the rate limit. */
const SECONDARY_LIMIT_MS = 60_000;
const MAX_RESET_MS = 3_600_000;
/** gh's own exit code for commands that need a login: gh help exit-codes. */
const NOT_SIGNED_IN = 4;
/** It never got as far as sending. */
const NOT_SENT = /proxyconnect|dial tcp|no such host|connection refused|x509|tls:|certificate|lookup /i;

/** Undefined when it printed no status. */
export function parseAnswer(output: string): GhAnswer | undefined {
  const [, status] = /^HTTP\/[\d.]+ (\d{3})\b/.exec(output) ?? [];
  if (status === undefined) return undefined;
  const end = /\r?\n\r?\n/.exec(output);
  const head = output.slice(0, end?.index ?? output.length);
  const headers = head.split(/\r?\n/).flatMap((line): [string, string][] => {
    const colon = line.indexOf(":");
    return colon < 0 ? [] : [[line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]];
  });
  const body = end ? output.slice(end.index + end[0].length) : "";
  return { status: Number(status), headers: new Map(headers), body };
}

/** Of a run that did not get the answer that it was for. */
export function failureOf(end: GhEnd, nowMs: number): SendFailure {
  if (end.kind === "absent") return { status: "retry", error: absence(end.code) };
  if (end.kind === "killed")
    return {
      status: "unknown",
      error: "gh gave no answer in time. The comment may have arrived; it is looked for first.",
    };
  const answer = parseAnswer(end.output);
  if (answer) return failureOfAnswer(answer, nowMs);
  if (end.code === NOT_SIGNED_IN) {
    return {
      status: "retry",
      error: "gh is not signed in: run `gh auth login` on the gateway's host as its user, or set GH_TOKEN.",
    };
  }
  const said = shown(end.complaint) || `exit code ${end.code ?? "unknown"}`;
  if (NOT_SENT.test(end.complaint)) return { status: "retry", error: `gh could not reach GitHub: ${said}.` };
  return {
    status: "unknown",
    error: `gh failed: ${said}. The comment may have arrived; it is looked for first.`,
  };
}

function failureOfAnswer(answer: GhAnswer, nowMs: number): SendFailure {
  const { status } = answer;
  const message = messageOf(answer);
  const said = `GitHub answered ${status}${message === "" ? "" : `: ${message}`}.`;
  const throttledMs = throttleOf(answer, message, nowMs);
  if (throttledMs !== undefined)
    return { status: "retry", error: said, isThrottled: true, afterMs: throttledMs };
  if (status < 400 && /\bhtml\b/i.test(answer.headers.get("content-type") ?? "")) {
    return {
      status: "retry",
      error: `GitHub answered ${status} with a web page. Is something else in between?`,
    };
  }
  if (status === 408 || status >= 500) return { status: "retry", error: said };
  return { status: "permanent", error: `${said} ${hintOf(status)}` };
}

function hintOf(status: number): string {
  if (status === 401)
    return "There is no token or not a valid one: run `gh auth login` on the gateway's host, or set GH_TOKEN.";
  if (status === 403) return "Has the token the right to comment there, and is the conversation unlocked?";
  if (status === 404) return "Is there such a number in that repository, and may the token see it?";
  if (status === 410) return "Comments are switched off there.";
  if (status === 422) return "GitHub does not take this text.";
  // A redirect that gh followed has become a look at something: nothing was written.
  if (status < 400) return "That is no new comment. Has the repository moved? Give its present name.";
  return "See the comments API of GitHub.";
}

/** What GitHub asks to wait, milliseconds; undefined when it is no matter of waiting. */
function throttleOf({ status, headers }: GhAnswer, message: string, nowMs: number): number | undefined {
  if (status !== 403 && status !== 429) return undefined;
  const askedMs = parseRetryAfter(headers.get("retry-after"), nowMs);
  if (askedMs !== undefined) return askedMs;
  if (headers.get("x-ratelimit-remaining") === "0") {
    const resetMs = Number(headers.get("x-ratelimit-reset")) * 1000 - nowMs;
    return Number.isFinite(resetMs) ? Math.min(Math.max(resetMs, 1000), MAX_RESET_MS) : SECONDARY_LIMIT_MS;
  }
  const isLimit = status === 429 || /secondary rate limit|abuse detection/i.test(message);
  return isLimit ? SECONDARY_LIMIT_MS : undefined;
}

function absence(code: string): string {
  const hint =
    "Install GitHub CLI (https://cli.github.com) on the gateway's host, or set platforms.github_comment.program.";
  return code === "ENOENT"
    ? `The program gh is not there. ${hint}`
    : `The program gh could not be started (${code}). ${hint}`;
}

function messageOf({ body }: GhAnswer): string {
  try {
    const { message } = Object(JSON.parse(body)) as { readonly message?: unknown };
    return typeof message === "string" ? shown(message) : "";
  } catch {
    return "";
  }
}

/** One line of what somebody else said. */
function shown(text: string): string {
  const line = cleanText(text).replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line.slice(0, MAX_SAID_CHARACTERS);
}
