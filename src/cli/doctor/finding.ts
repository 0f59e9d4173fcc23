/** The result of one check of `agentd doctor`. */
export interface Finding {
  readonly name: string;
  /** skip: another check must pass first. */
  readonly status: "ok" | "warn" | "fail" | "skip";
  readonly detail: string;
  /** What to do. */
  readonly fix?: string;
}

export type CheckResult = Omit<Finding, "name">;
