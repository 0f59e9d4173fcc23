import type { Clock } from "../../../base/time.ts";
import { registerSecret } from "../../../base/observe.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import {
  readMessage,
  sendParts,
  type Platform,
  type Delivery,
  type SendOptions,
  type SendOutcome,
  type Target,
} from "../../target.ts";
import { Pace } from "../../platform/robot-webhook.ts";
import { renderParts } from "../../text/parts.ts";
import { failureOf, findGhProblem, parseAnswer, createRunGh, type RunGh } from "./gh.ts";

type Settings = PlatformSettings<"github_comment">;

const NAME = "github_comment";
const DEFAULT_PROGRAM = "gh";
/** GitHub: body is too long (maximum is 65536 characters). */
const TEXT_LIMIT = 65_536;
const MAX_PARTS = 10;
/**
 * Pause between the comments of one text: GitHub, Best practices for using the REST API, Pause between mutative
 * requests.
 */
const PAUSE_MS = 1_000;
/** An older message may have been sent by a process that stopped meanwhile. */
const FRESH_MS = 10_000;
/** How far GitHub's clock may be behind ours. */
const CLOCK_SKEW_MS = 600_000;
const PER_PAGE = 100;
const MAX_PAGES = 10;
/** GitHub, Best practices: avoid concurrent requests. Each request is also a process. */
const CONCURRENCY = 2;
const ID = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Comments on a pull request or an issue through GitHub's command-line client. The comments API treats every pull
 * request as an issue, so one call serves both.
 *
 * A hidden mark at the end of each comment contains the message's id. Before a retry, the comments since the message
 * was enqueued are searched for the mark, so that no comment appears twice.
 */
export const githubComment: Platform<Settings> = {
  name: NAME,
  missing: () => [],
  problem: ({ program = DEFAULT_PROGRAM }, env) => findGhProblem({ program, env }),
  create(settings, { clock, env }) {
    for (const name of ["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"]) {
      registerSecret(env[name] ?? "");
    }
    const gh = createRunGh({ program: settings.program ?? DEFAULT_PROGRAM, env, clock });
    return createTarget(settings, { gh, clock });
  },
};

interface Tools {
  readonly gh: RunGh;
  readonly clock: Clock;
}

function createTarget(settings: Settings, tools: Tools): Target {
  const { clock } = tools;
  // Only blocks by GitHub count; sent comments do not.
  const pace = new Pace({ clock, limit: Infinity, windowMs: 0 });
  return {
    name: NAME,
    concurrency: CONCURRENCY,
    supportsIdempotency: true,
    // Limits apply to the token, whatever the repository.
    isReady: () => pace.waitMs === 0,
    async send(delivery, options) {
      const outcome = await sendMessage(settings, tools, { delivery, options });
      if (outcome.status === "retry" && outcome.isThrottled) pace.hold(outcome.afterMs ?? 0);
      return outcome;
    },
  };
}

interface Sending {
  readonly delivery: Delivery;
  readonly options: SendOptions;
}

async function sendMessage(settings: Settings, tools: Tools, sending: Sending): Promise<SendOutcome> {
  const { delivery, options } = sending;
  const message = readMessage(NAME, delivery);
  if (!message) return { status: "permanent", error: "The message has no text." };
  if (!ID.test(delivery.id))
    return { status: "permanent", error: "The message's id is not valid in a comment." };
  const address = readAddress(message.extra, settings.host);
  if ("problem" in address) return { status: "permanent", error: address.problem };
  const parts = renderParts(message.text, {
    format: "commonmark",
    limit: Math.max((settings.text_limit ?? TEXT_LIMIT) - markOf(delivery.id, MAX_PARTS).length, 16),
    unit: "utf16",
    maxParts: MAX_PARTS,
  });
  const found = await findParts(address, tools, sending);
  if ("status" in found) return found;
  let posted = 0;
  return sendParts(parts, sending, async ({ text }, index) => {
    if (found.has(index)) return { status: "delivered" };
    if (posted++ > 0) await tools.clock.sleep(PAUSE_MS, { signal: options.signal });
    const mark = markOf(delivery.id, parts.length > 1 ? index + 1 : undefined);
    return post(address, `${text}${mark}`, { ...tools, options });
  });
}

function markOf(id: string, part: number | undefined): string {
  return `\n\n<!-- agent-delivery:${id}${part === undefined ? "" : `#${part}`} -->`;
}

async function post(
  address: CommentAddress,
  body: string,
  { gh, clock, options }: Tools & { readonly options: SendOptions },
): Promise<SendOutcome> {
  const end = await gh({
    args: ["api", "-i", "--method", "POST", commentsOf(address), "--input", "-"],
    input: JSON.stringify({ body }),
    host: address.host,
    signal: options.signal,
  });
  const status = end.kind === "exit" ? parseAnswer(end.output)?.status : undefined;
  options.span.set({ "http.response.status_code": status });
  // A response truncated after its status still confirms the comment.
  return status === 201 ? { status: "delivered" } : failureOf(end, clock.now());
}

/** Returns the indexes of parts that an earlier attempt posted, or the failure of the search. */
async function findParts(
  address: CommentAddress,
  { gh, clock }: Tools,
  { delivery, options }: Sending,
): Promise<ReadonlySet<number> | SendOutcome> {
  const { id, attempt, createdAtMs } = delivery;
  const found = new Set<number>();
  if (attempt <= 1 && clock.now() - createdAtMs < FRESH_MS) return found;
  const since = new Date(createdAtMs - CLOCK_SKEW_MS).toISOString();
  const mark = new RegExp(`<!-- agent-delivery:${id}(?:#(\\d+))? -->`, "g");
  const filter = `length, (.[] | .body // "" | scan("<!-- agent-delivery:${id}(?:#[0-9]+)? -->"))`;
  for (let page = 1; page <= MAX_PAGES; page++) {
    const query = `since=${encodeURIComponent(since)}&per_page=${PER_PAGE}&page=${page}`;
    const args = ["api", "-i", "--method", "GET", `${commentsOf(address)}?${query}`, "--jq", filter];
    const end = await gh({ args, input: "", host: address.host, signal: options.signal });
    const answer = end.kind === "exit" ? parseAnswer(end.output) : undefined;
    if (answer?.status !== 200) {
      const { error, ...failure } = failureOf(end, clock.now());
      // The search sends no comment.
      return { ...failure, status: failure.status === "unknown" ? "retry" : failure.status, error };
    }
    for (const [, part = "1"] of answer.body.matchAll(mark)) found.add(Number(part) - 1);
    if (Number(/^\d+/.exec(answer.body)?.[0] ?? 0) < PER_PAGE) break;
  }
  return found;
}

function commentsOf({ repo, number }: CommentAddress): string {
  return `repos/${repo}/issues/${number}/comments`;
}

/** Where a comment goes: `repo` and `pr_number` of `deliver_extra`, which may have come with an event. Pure. */

interface CommentAddress {
  /** Undefined: the default of gh, normally github.com. */
  readonly host: string | undefined;
  /** `owner/name`. */
  readonly repo: string;
  readonly number: number;
}

/** Why the address is invalid, and what to do. */
interface AddressProblem {
  readonly problem: string;
}

/** Always allowed. */
const GITHUB = "github.com";
const PART = /^[A-Za-z0-9._-]{1,100}$/;
/** A pull request number. */
const NUMBER = /^[1-9]\d{0,9}$/;

/**
 * Reads `repo` as `owner/name` or `host/owner/name`. The host must be github.com or the configured one: gh would send
 * its token to any other, and the extra may come from an event.
 */
function readAddress(
  { repo, pr_number: number }: Readonly<Record<string, unknown>>,
  configuredHost: string | undefined,
): CommentAddress | AddressProblem {
  if (repo === undefined || number === undefined) {
    return {
      problem:
        "The message has no pull request: set deliver_extra.repo (owner/name) and deliver_extra.pr_number.",
    };
  }
  const parts = typeof repo === "string" ? repo.trim().split("/") : [];
  const [owner = "", name = ""] = parts.slice(-2);
  const host = parts.length === 3 ? (parts[0] ?? "") : undefined;
  if (parts.length < 2 || parts.length > 3 || !isName(owner) || !isName(name) || host === "") {
    return { problem: "deliver_extra.repo is not a repository: use owner/name or host/owner/name." };
  }
  if (host !== undefined && !isKnown(host, configuredHost)) {
    return {
      problem:
        "The host in deliver_extra.repo is not configured: set platforms.github_comment.host (GH_HOST) to it.",
    };
  }
  const digits =
    typeof number === "number" ? String(number) : typeof number === "string" ? number.trim() : "";
  if (!NUMBER.test(digits)) return { problem: "deliver_extra.pr_number must be a positive integer." };
  return { host: host?.toLowerCase() ?? configuredHost, repo: `${owner}/${name}`, number: Number(digits) };
}

/** Rejects names that look like an option or a path. */
function isName(text: string): boolean {
  return PART.test(text) && !text.startsWith("-") && text !== "." && text !== "..";
}

function isKnown(host: string, configuredHost: string | undefined): boolean {
  return [GITHUB, configuredHost?.toLowerCase()].includes(host.toLowerCase());
}
