/** Where a comment goes: `repo` and `pr_number` of `deliver_extra`, which may have come with an event. Pure. */

export interface CommentAddress {
  /** Undefined: gh's own choice, github.com unless it is told otherwise. */
  readonly host: string | undefined;
  /** `owner/name`. */
  readonly repo: string;
  readonly number: number;
}

/** Why there is no such place, a sentence that says what to do. */
export interface AddressProblem {
  readonly problem: string;
}

/** GitHub's own host is known to gh whatever the configuration says. */
const GITHUB = "github.com";
const PART = /^[A-Za-z0-9._-]{1,100}$/;
/** As numbers of pull requests are written. */
const NUMBER = /^[1-9]\d{0,9}$/;

/**
 * Reads `repo` as `owner/name` or `host/owner/name`. A host must be github.com or the configured one: gh would sign
 * what it sends to any other with whatever token it has, and events do not choose who gets that.
 */
export function readAddress(
  { repo, pr_number: number }: Readonly<Record<string, unknown>>,
  configuredHost: string | undefined,
): CommentAddress | AddressProblem {
  if (repo === undefined || number === undefined) {
    return {
      problem: "No pull request is named: set deliver_extra.repo (owner/name) and deliver_extra.pr_number.",
    };
  }
  const parts = typeof repo === "string" ? repo.trim().split("/") : [];
  const [owner = "", name = ""] = parts.slice(-2);
  const host = parts.length === 3 ? (parts[0] ?? "") : undefined;
  if (parts.length < 2 || parts.length > 3 || !isName(owner) || !isName(name) || host === "") {
    return { problem: "deliver_extra.repo names no repository: write owner/name, or host/owner/name." };
  }
  if (host !== undefined && !isKnown(host, configuredHost)) {
    return {
      problem:
        "deliver_extra.repo names a host that is not set up: set platforms.github_comment.host (GH_HOST) to it.",
    };
  }
  const digits =
    typeof number === "number" ? String(number) : typeof number === "string" ? number.trim() : "";
  if (!NUMBER.test(digits)) return { problem: "deliver_extra.pr_number must be a whole number from 1 on." };
  return { host: host?.toLowerCase() ?? configuredHost, repo: `${owner}/${name}`, number: Number(digits) };
}

/** Nothing that reads as an option or as a step through folders. */
function isName(text: string): boolean {
  return PART.test(text) && !text.startsWith("-") && text !== "." && text !== "..";
}

function isKnown(host: string, configuredHost: string | undefined): boolean {
  return [GITHUB, configuredHost?.toLowerCase()].includes(host.toLowerCase());
}
