/** The result of one check of `agentd doctor`. */
export interface Finding {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What to do. */
  readonly fix?: string;
}

export type CheckResult = Omit<Finding, "name">;

/** Who listens at an address, for `agentd doctor`. Touches the machine. */

interface Address {
  readonly host: string;
  readonly port: number;
}

/** What listens at an address. other: a program without the health endpoint of agentd. */
type Occupant = { readonly kind: "free" | "other" } | { readonly kind: "health"; readonly body: object };

const TIMEOUT_MS = 1_000;
const EVERYWHERE = ["0.0.0.0", "::", "[::]", ""];

/** Requests `/health` at the address. Never rejects. */
export async function occupantOf({ host, port }: Address): Promise<Occupant> {
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
