/** What the status of an answer means where the platform says nothing more telling. Pure. */
import type { PlatformAnswer, SendFailure } from "./call.ts";
import { cleanText } from "../text/text.ts";

export interface OutcomeWords {
  /** The platform as people write it. */
  readonly title: string;
  /** Its name in the configuration. */
  readonly name: string;
  /** What the platform itself said is wrong. */
  readonly reason?: string | undefined;
  /** Key of the settings that holds the platform's address; default base_url. */
  readonly addressKey?: string;
}

const MAX_REASON_CHARACTERS = 200;
/** Something in between has given up waiting for the platform: RFC 9110, and Cloudflare's own. */
const GATEWAY_TIMEOUTS: ReadonlySet<number> = new Set([504, 524]);

const MAY_HAVE_ARRIVED = "The message may have arrived.";

/** Of an answer that is no success. For a 2xx whose body is not the platform's own too. */
export function outcomeOfAnswer(answer: PlatformAnswer<unknown>, words: OutcomeWords): SendFailure {
  const { status, retryAfterMs } = answer;
  const { title, name, addressKey = "base_url" } = words;
  const said = `${title} answered ${status}${reasonOf(words)}.`;
  if (status < 300) return unclear(answer, words);
  if (status < 400) {
    return {
      status: "permanent",
      error: `${title} redirects elsewhere (${status}): set platforms.${name}.${addressKey} to where its API really is.`,
    };
  }
  if (status === 429) return throttled(said, retryAfterMs);
  if (GATEWAY_TIMEOUTS.has(status)) {
    return { status: "unknown", error: `${said} ${MAY_HAVE_ARRIVED}`, said };
  }
  if (status === 408 || status === 425 || status >= 500) {
    return { status: "retry", error: said, ...(retryAfterMs === undefined ? {} : { afterMs: retryAfterMs }) };
  }
  return { status: "permanent", error: `${said}${hintOf(status, `platforms.${name}`, addressKey)}` };
}

/** What was answered, as a sentence: for platforms whose own codes tell more than the status. */
export function saidIn({ status }: PlatformAnswer<unknown>, words: OutcomeWords): string {
  return `${words.title} answered ${status}${reasonOf(words)}.`;
}

/** The platform asks to slow down; without a figure the dispatcher decides for how long. */
export function throttled(error: string, afterMs: number | undefined): SendFailure {
  return { status: "retry", error, isThrottled: true, ...(afterMs === undefined ? {} : { afterMs }) };
}

/** A page for people comes from something else than the API; anything else may be the end of an answer that got lost. */
function unclear(
  { status, headers, text }: PlatformAnswer<unknown>,
  { title, name, addressKey = "base_url" }: OutcomeWords,
): SendFailure {
  const isPage = /\bhtml\b/i.test(headers["content-type"] ?? "") || /^\s*<(!doctype|html)\b/i.test(text);
  if (isPage) {
    return {
      status: "retry",
      error: `${title} answered ${status} with a web page. Is something else in between, or platforms.${name}.${addressKey} wrong?`,
    };
  }
  const said = `${title} answered ${status}, but not in its own form.`;
  return { status: "unknown", error: `${said} ${MAY_HAVE_ARRIVED}`, said };
}

function hintOf(status: number, settings: string, addressKey: string): string {
  if (status === 401) return ` Check the credentials of ${settings}.`;
  if (status === 403) return " Has the sender the right to write there?";
  if (status === 404) return ` Is the chat right, and ${settings}.${addressKey}?`;
  return "";
}

/** Secrets go before it is cut: of one that is cut in two the rest would stay. */
function reasonOf({ reason = "" }: OutcomeWords): string {
  const line = cleanText(reason).replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line === "" ? "" : `: ${line.slice(0, MAX_REASON_CHARACTERS)}`;
}
