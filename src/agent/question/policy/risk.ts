/** What may be wrong with a call, who has to be asked about it, and how long the answer may be kept. Pure. */

/** How long a grant may be kept, from the shortest. */
export type Remember = "never" | "session" | "always";

/** The kinds of risk. */
export type Risk = keyof typeof risks;

interface RiskRule {
  readonly remember: Remember;
  /** People are asked in every session mode, and `approvals.allow` does not lift it. */
  readonly isAlwaysAsked?: true;
}

/**
 * How long a grant for a risk may be kept. What destroys, what touches secrets or what steers later commands, and what
 * cannot be read from the text, is asked for every time.
 */
const risks = {
  /** Deletes or overwrites what cannot be had back, or stops the machine. */
  destructive: { remember: "never" },
  /** Reads or writes secrets, or the files that shells and tools run when they start. */
  sensitive: { remember: "never", isAlwaysAsked: true },
  /** Changes this service: its configuration, keys, jobs, routes; or starts another agent. */
  own: { remember: "never", isAlwaysAsked: true },
  /** Writes what later sessions, editors, hooks or pipelines obey. */
  steering: { remember: "never", isAlwaysAsked: true },
  /** Too much or too deep to be looked through: what it touches is not known. */
  unchecked: { remember: "never", isAlwaysAsked: true },
  /** May be anything: worked out at run time, or fed by another program. */
  unclear: { remember: "never" },
  /** Code in the command or in a file: its words are the signature. */
  code: { remember: "session" },
  /** Deletes named files of the workspace. */
  deletion: { remember: "session" },
  /** Fetches code from elsewhere, and may run it. */
  fetching: { remember: "session" },
  /** Rewrites history that only the reflog keeps. */
  rewriting: { remember: "session" },
  /** Edits a file, where the session asks before each. */
  edit: { remember: "session" },
  /** A command that changes something, where the session asks before each: its text is the signature. */
  change: { remember: "always" },
  /** Ends processes. */
  process: { remember: "session" },
  /** Runs a task that the workspace declares, such as its tests. */
  task: { remember: "always" },
  /** Takes another user's rights. */
  escalating: { remember: "always" },
  /** Sends, publishes, or acts on another machine. */
  outward: { remember: "always" },
  /** Writes outside the workspace. */
  outside: { remember: "always" },
  /** Changes the machine: software, services, rights. */
  system: { remember: "always" },
  /** A program of which nothing is known. */
  unknown: { remember: "always" },
  /** A tool of which nothing is known but its name. */
  foreign: { remember: "always" },
} as const satisfies Readonly<Record<string, RiskRule>>;

/** Something that speaks against a call. `shape` is what a grant for it covers. */
export interface Finding {
  readonly verdict: "ask" | "deny";
  readonly reason: string;
  readonly shape: string;
  readonly risk: Risk;
}

/** A question. Without a `risk` it is one whose answer is never kept. */
export const ask = (reason: string, shape: string, risk: Risk = "unclear"): Finding => ({
  verdict: "ask",
  reason,
  shape,
  risk,
});

export const deny = (reason: string): Finding => ({
  verdict: "deny",
  reason,
  shape: "never",
  risk: "destructive",
});

/** Whether people are asked in every session mode, and no setting lifts it: secrets, the service's own, the unchecked. */
export function isAlwaysAsked({ risk }: Pick<Finding, "risk">): boolean {
  const rule: RiskRule = risks[risk];
  return rule.isAlwaysAsked === true;
}

/** Signatures longer than this are not worth keeping: such a call hardly comes again. */
const MAX_SIGNATURE_CHARACTERS = 2_000;

const order: readonly Remember[] = ["never", "session", "always"];

/** How long a grant may be kept for a call with all of `found`: as the strictest says. */
export function rememberOf(found: readonly Finding[], signature: string): Remember {
  if (signature.length > MAX_SIGNATURE_CHARACTERS) return "never";
  const strictest = found.map(({ risk }) => order.indexOf(risks[risk].remember));
  return order[Math.min(...strictest, order.length - 1)] ?? "never";
}
