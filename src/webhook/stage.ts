/** What the stages of the pipeline found, as the record of a delivery keeps it. */
export interface StageVerdict {
  readonly stage:
    | "signature"
    | "rate"
    | "parse"
    | "known"
    | "events"
    | "filters"
    | "script"
    | "render"
    | "admit";
  readonly verdict: "pass" | "stop";
  /** For people: which scheme, which filter, how a script ended. Without what is secret. */
  readonly detail?: string;
}
