/** Why a run is stopped: the reason of its abort signal, and what its end is made of. */
export class RunStop extends Error {
  override readonly name = "RunStop";
  /**
   * cancelled: somebody asked. timeout: its time is over. shutdown: the process ends. failure: it cannot be recorded.
   * parked: the process ends, and another takes the run up as it is.
   */
  readonly kind: "cancelled" | "timeout" | "shutdown" | "failure" | "parked";

  constructor(kind: RunStop["kind"], message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}

/** Whether a signal was aborted so that everything stays as it is in the store. */
export function isParked({ reason }: AbortSignal): boolean {
  return reason instanceof RunStop && reason.kind === "parked";
}
