/** Risks of a call: who must be asked, and how long the answer may be remembered. Pure. */

/** How long a grant may be remembered, shortest first. */
export type Remember = "never" | "session" | "always";

export type Risk = keyof typeof risks;

interface RiskRule {
  readonly remember: Remember;
  /** True when every session mode asks and `approvals.allow` does not lift it. */
  readonly isAlwaysAsked?: true;
  /** True when the sandbox keeps the call from doing harm: inside it no approval is needed. */
  readonly isContained?: true;
}

/**
 * How long a grant for each risk may be remembered. Calls that destroy, touch secrets, control later commands or cannot
 * be checked ask every time.
 */
const risks = {
  /** Permanently deletes or overwrites something, or stops the machine. */
  destructive: { remember: "never" },
  /** Reads or writes secrets, or files that run when shells and tools start. */
  sensitive: { remember: "never", isAlwaysAsked: true },
  /** Changes this service (configuration, keys, jobs, routes), or starts another agent. */
  own: { remember: "never", isAlwaysAsked: true },
  /** Writes files that control later sessions, editors, hooks or pipelines. */
  steering: { remember: "never", isAlwaysAsked: true },
  /** Too long or too deeply nested to be checked: its effect is unknown. */
  unchecked: { remember: "never", isAlwaysAsked: true },
  /** May be anything: only known at run time, or piped from another program. */
  unclear: { remember: "never", isContained: true },
  /** Code in the command or in a file; the words are the signature. */
  code: { remember: "session", isContained: true },
  /** Deletes named files of the workspace. */
  deletion: { remember: "session" },
  /** Fetches code from elsewhere, and may run it. */
  fetching: { remember: "session", isContained: true },
  /** Applies or publishes files, whose content may change although the words stay the same. */
  applying: { remember: "session" },
  /** Rewrites history that only the reflog keeps. */
  rewriting: { remember: "session" },
  /** Edits a file in a session that asks before every edit. */
  edit: { remember: "session" },
  /** A changing command in a session that asks before every change; the text is the signature. */
  change: { remember: "always" },
  process: { remember: "session", isContained: true },
  /** Runs a task that the workspace declares, such as its tests. */
  task: { remember: "always", isContained: true },
  /** Takes another user's rights. */
  escalating: { remember: "always", isContained: true },
  /** Sends, publishes, or acts on another machine. */
  outward: { remember: "always" },
  /** Reaches a host that the sandbox does not allow yet. */
  reaching: { remember: "always" },
  /** Changes a folder that the sandbox does not allow yet. */
  opening: { remember: "always" },
  /** Reaches an address that is not public. The proxy of the sandbox refuses these by itself. */
  local: { remember: "always", isContained: true },
  /** Writes outside the workspace. */
  outside: { remember: "always", isContained: true },
  /** Changes the machine: software, services, rights. */
  system: { remember: "always", isContained: true },
  /** An unknown program. */
  unknown: { remember: "always", isContained: true },
  /** A tool with an unknown effect. */
  foreign: { remember: "always" },
} as const satisfies Readonly<Record<string, RiskRule>>;

/** A reason to ask about a call or to deny it. A grant covers `shape`. */
export interface Finding {
  readonly outcome: "ask" | "deny";
  readonly reason: string;
  readonly shape: string;
  readonly risk: Risk;
}

/** Returns a finding that asks. Without a `risk` the answer is never remembered. */
export const ask = (reason: string, shape: string, risk: Risk = "unclear"): Finding => ({
  outcome: "ask",
  reason,
  shape,
  risk,
});

export const deny = (reason: string): Finding => ({
  outcome: "deny",
  reason,
  shape: "never",
  risk: "destructive",
});

/** Returns whether every session mode asks and no setting lifts it: secrets, the service itself, unchecked text. */
export function isAlwaysAsked({ risk }: Pick<Finding, "risk">): boolean {
  const rule: RiskRule = risks[risk];
  return rule.isAlwaysAsked === true;
}

/**
 * Returns whether the sandbox takes the harm out of a call, so that it needs no approval. Without a network nothing can
 * be sent out of it.
 */
export function isContained(
  { risk }: Pick<Finding, "risk">,
  { network }: { readonly network: boolean },
): boolean {
  const rule: RiskRule = risks[risk];
  return rule.isContained === true || (risk === "outward" && !network);
}

/** Longer signatures are not worth storing: such a call hardly recurs. */
const MAX_SIGNATURE_CHARACTERS = 2_000;

const order: readonly Remember[] = ["never", "session", "always"];

/** Returns how long a grant may be remembered for a call with these findings: the strictest decides. */
export function rememberOf(found: readonly Finding[], signature: string): Remember {
  if (signature.length > MAX_SIGNATURE_CHARACTERS) return "never";
  const strictest = found.map(({ risk }) => order.indexOf(risks[risk].remember));
  return order[Math.min(...strictest, order.length - 1)] ?? "never";
}
