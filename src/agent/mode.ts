/** How freely the agent works in a session, as people choose it; policy.ts says what it means to a call. Pure. */

export const MODES = ["ask", "accept_edits", "dont_ask", "plan"] as const;

/** `ask` goes by the configuration; nobody chose otherwise. */
export type SessionMode = (typeof MODES)[number];

/** As people read it. */
export const MODE_TEXTS: Readonly<
  Record<SessionMode, { readonly name: string; readonly description: string }>
> = {
  ask: { name: "Ask", description: "Asks before what is risky, as it is configured" },
  accept_edits: {
    name: "Accept edits",
    description: "Changes files of the workspace without asking; asks for the rest",
  },
  dont_ask: {
    name: "Don't ask",
    description: "Asks only before it touches secrets, start-up files or its own files",
  },
  plan: { name: "Plan", description: "Reads and searches only, and presents a plan" },
};

export function isMode(text: string): text is SessionMode {
  return MODES.some((mode) => mode === text);
}

/** For the model, from the first step of a turn in plan mode. */
export const PLAN_INSTRUCTIONS =
  "You are in plan mode: read, search, fetch and ask, but change nothing. End with a plan of what you would do, in " +
  "steps that can be checked. The user has it carried out by choosing another mode.";
