/** The stages behind the body, in the order in which a request goes through them. */
export const STAGES = [
  "signature",
  "rate",
  "parse",
  "known",
  "events",
  "filters",
  "script",
  "render",
  "admit",
] as const;

export type StageName = (typeof STAGES)[number];

/** What a stage found, as the record of a delivery keeps it. */
export interface StageResult {
  readonly stage: StageName;
  readonly verdict: "pass" | "stop";
  /** For people: which scheme, which filter, how a script ended. Without what is secret. */
  readonly detail?: string;
}
