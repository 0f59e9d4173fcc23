/**
 * Commands, and the policy's outcome in mode `ask` in a home as `agentd setup` creates it:
 *
 * - `look` runs, in plan mode too; `run` runs, but not in plan mode;
 * - `ask never`, `ask session`, `ask always` ask, and a grant is remembered at most that long;
 * - `deny` is refused in every mode.
 */
export interface Row {
  readonly expected: "look" | "run" | "ask never" | "ask session" | "ask always" | "deny";
  /** The reason in words for people. */
  readonly reason: string;
  readonly commands: readonly string[];
}

export const home = {
  home: "/home/ada",
  agentHome: "/home/ada/.agentd",
  workspace: "/home/ada/.agentd/workspace",
} as const;
