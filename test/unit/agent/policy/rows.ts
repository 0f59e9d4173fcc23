/**
 * Commands, and what the policy says to them in mode `ask` in a home as `agentd setup` makes it:
 *
 * - `look` runs, in plan mode too; `run` runs, but not in plan mode;
 * - `ask never`, `ask session`, `ask always` ask, and a grant is kept no longer than that;
 * - `deny` is refused in every mode.
 */
export interface Row {
  readonly expected: "look" | "run" | "ask never" | "ask session" | "ask always" | "deny";
  /** Why, in words that a person would sign. */
  readonly reason: string;
  readonly commands: readonly string[];
}

export const home = {
  home: "/home/ada",
  agentHome: "/home/ada/.agentd",
  workspace: "/home/ada/.agentd/workspace",
} as const;
