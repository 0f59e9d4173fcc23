/** What one look of `agentd doctor` came to. */
export interface Finding {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What to do about it. */
  readonly fix?: string;
}

export type Verdict = Omit<Finding, "name">;

/** Who listens at an address, for `agentd doctor`. Touches the machine. */

export interface Place {
  readonly host: string;
  readonly port: number;
}

/** free: nobody listens. other: somebody does who does not say what agentd says. */
export type Occupant =
  | { readonly kind: "free" | "other" }
  | { readonly kind: "health"; readonly body: object };

const TIMEOUT_MS = 1_000;
const EVERYWHERE = ["0.0.0.0", "::", "[::]", ""];

/** Asks for `/health` at the address; never rejects. */
export async function occupantOf({ host, port }: Place): Promise<Occupant> {
  const address = EVERYWHERE.includes(host) ? "127.0.0.1" : host.replace(/^\[(.*)\]$/, "$1");
  const url = `http://${address.includes(":") ? `[${address}]` : address}:${port}/health`;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    const body: unknown = await response.json();
    return typeof body === "object" && body !== null ? { kind: "health", body } : { kind: "other" };
  } catch (error) {
    return { kind: isRefused(error) ? "free" : "other" };
  }
}

function isRefused(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return /refused/i.test(`${String(error)} ${String(cause)} ${String(cause?.code)}`);
}
