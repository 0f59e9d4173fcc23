/** What one look of `agentd doctor` came to. */
export interface Finding {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What to do about it. */
  readonly fix?: string;
}

export type Verdict = Omit<Finding, "name">;
