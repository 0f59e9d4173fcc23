/** Why a run is stopped: the reason of its abort signal, and what its end is made of. */
export class RunStop extends Error {
  override readonly name = "RunStop";
  /** cancelled: somebody asked. timeout: its time is over. shutdown: the process ends. failure: it cannot be recorded. */
  readonly kind: "cancelled" | "timeout" | "shutdown" | "failure";

  constructor(kind: RunStop["kind"], message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}
