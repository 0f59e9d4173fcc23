/** How long leave may be kept, from the shortest. */
export type Remember = "never" | "session" | "always";

/** What is risky about a call. */
export type Risk = keyof typeof remembers;

/**
 * How long leave for a risk may be kept. What destroys, what touches secrets or what steers later commands, and what
 * cannot be read from the text, is asked for every time.
 */
const remembers = {
  /** Deletes or overwrites what cannot be had back, or stops the machine. */
  destructive: "never",
  /** Reads or writes secrets, the agent's home, or what shells and tools run when they start. */
  sensitive: "never",
  /** May be anything: worked out at run time, fed by another program, or downloaded. */
  unclear: "never",
  /** Too much or too deep to be looked through: what it touches is not known. */
  unchecked: "never",
  /** Code in the command itself, or settings that change what its programs do: its text is the signature. */
  code: "session",
  /** Ends processes. */
  process: "session",
  /** Edits a file in a session that asks before every edit. */
  edit: "session",
  /** Other users' rights. */
  escalating: "always",
  /** Sends, publishes, or acts on another machine. */
  outward: "always",
  /** Writes outside the workspace. */
  outside: "always",
  /** Changes the machine: software, services, rights. */
  system: "always",
  /** A tool of which nothing is known but its name. */
  foreign: "always",
  /** Nothing is minded; asked only because everything is. */
  none: "always",
} as const satisfies Readonly<Record<string, Remember>>;

/** Signatures longer than this are not worth keeping: such a call hardly comes again. */
const MAX_SIGNATURE_CHARACTERS = 2_000;

const order: readonly Remember[] = ["never", "session", "always"];

/** How long leave may be kept for a call with all of `risks`: as the strictest says. */
export function rememberOf(risks: readonly Risk[], signature: string): Remember {
  if (signature.length > MAX_SIGNATURE_CHARACTERS) return "never";
  return order[Math.min(...risks.map((risk) => order.indexOf(remembers[risk])), order.length - 1)] ?? "never";
}
