/** How much the agent may do in a session without asking, as people choose it; policy.ts applies it to calls. Pure. */

export const MODES = ["ask", "accept_edits", "dont_ask", "plan"] as const;

export type SessionMode = (typeof MODES)[number];

/** Names and descriptions that people read. */
export const MODE_TEXTS: Readonly<
  Record<SessionMode, { readonly name: string; readonly description: string }>
> = {
  ask: { name: "Ask", description: "Asks before every edit and every command that may change something" },
  accept_edits: {
    name: "Accept edits",
    description: "Edits files in the working folder without asking; asks before risky commands",
  },
  dont_ask: {
    name: "Don't ask",
    description: "Asks only before it touches secrets, start-up files or its own files",
  },
  plan: { name: "Plan", description: "Reads and searches only, and presents a plan" },
};

/**
 * Returns the mode that describes best what happens in a session where nobody chose one: by default edits in the working
 * folder need no approval; where the configuration asks for everything, they do.
 */
export function unchosenMode(configured: "ask" | "always_ask" | "yolo"): SessionMode {
  return configured === "always_ask" ? "ask" : "accept_edits";
}

export function isMode(text: string): text is SessionMode {
  return MODES.some((mode) => mode === text);
}

/** For the model, from the first step of a turn in plan mode. */
export const PLAN_INSTRUCTIONS =
  "You are in plan mode: read, search, fetch and ask, but change nothing. End with a plan of what you would do, in " +
  "steps that can be checked. The user has it carried out by choosing another mode.";
