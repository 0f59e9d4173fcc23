/** The gateway of the home on this machine, for commands that use its HTTP API. Touches the machine. */
import type { AgentClient } from "../../client/http.ts";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolveSecret } from "../../config/home.ts";
import { UsageError } from "./arguments.ts";
import { currentContext, type CliContext } from "./context.ts";
import { textOption } from "./options.ts";
import { hideSecrets } from "../../config/secret-values.ts";

export const gatewayPortOption = textOption(
  "number",
  "Port of the gateway on this machine. Default: api_server.port",
);

/** Where the gateway of the home listens, and its key. The same options that the client of the HTTP API takes. */
export interface LocalGateway {
  readonly baseUrl: string;
  readonly apiKey?: string;
}

/**
 * Returns where the gateway of the home is expected to listen, and the key of the home. Requests nothing. ServiceError
 * `invalid_config`; UsageError for an invalid `port`.
 */
export async function findLocalGateway(
  port?: string,
  { home, env }: CliContext = currentContext(),
): Promise<LocalGateway> {
  const loaded = await loadConfig({ home, env });
  const { host, port: configured, key, keys } = requireValid(loaded).api_server;
  hideSecrets(loaded);
  const secret = key ?? keys[0]?.key;
  return {
    baseUrl: urlOf({ host, port: port === undefined ? configured : numberOf(port) }),
    ...(secret === undefined ? {} : { apiKey: resolveSecret(secret, loaded.env, "api_server.key") }),
  };
}

/**
 * Runs `work` with a client of the gateway of the home. Asks without the key first, so that another program on the port
 * does not get it. ServiceError that says what to do when no gateway answers, when it refuses the key, and for its
 * error responses.
 */
export async function withGateway<T>(
  port: string | undefined,
  work: (client: AgentClient, gateway: LocalGateway) => Promise<T>,
): Promise<T> {
  const gateway = await findLocalGateway(port);
  const occupant = await occupantOf(gateway.baseUrl);
  if (occupant.kind === "free") throw noGateway(gateway);
  if (!isAgentd(occupant)) {
    const hint = "Pass --port, or set api_server.port.";
    throw new ServiceError("not_found", `Another program listens at ${gateway.baseUrl}. ${hint}`);
  }
  const { createAgentClient, AgentApiError, AgentdError } = await import("../../client/http.ts");
  try {
    return await work(createAgentClient(gateway), gateway);
  } catch (error) {
    if (error instanceof AgentApiError && error.status === 401) throw wrongKey(gateway, error);
    if (error instanceof AgentdError) throw new ServiceError("not_found", error.message, { cause: error });
    throw error;
  }
}

export function wrongKey({ baseUrl }: LocalGateway, cause?: unknown): ServiceError {
  const hint = "It may serve another home: pass --port or --profile, or set AGENTD_HOME.";
  const message = `The gateway at ${baseUrl} refuses the key of this home. ${hint}`;
  return new ServiceError("not_found", message, { cause });
}

function noGateway({ baseUrl }: LocalGateway): ServiceError {
  const hint = "Start it with `agentd gateway`, or pass --port if it listens on another one.";
  return new ServiceError("not_found", `No gateway listens at ${baseUrl}. ${hint}`);
}

function numberOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`--port must be a number from 1 to 65535, not ${JSON.stringify(text)}.`);
}

interface Address {
  readonly host: string;
  readonly port: number;
}

const EVERYWHERE = ["0.0.0.0", "::", "[::]", ""];

/** Returns the URL at which a listener is reachable from this machine. */
export function urlOf({ host, port }: Address): string {
  const address = EVERYWHERE.includes(host) ? "127.0.0.1" : host.replace(/^\[(.*)\]$/, "$1");
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}

/** What listens at an address. other: a program without the health endpoint of agentd. */
type Occupant = { readonly kind: "free" | "other" } | { readonly kind: "health"; readonly body: object };

const TIMEOUT_MS = 5_000;

/** Requests `/health` of the server at `url`, without a key. Never rejects. */
export async function occupantOf(url: string, timeoutMs: number = TIMEOUT_MS): Promise<Occupant> {
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await fetch(`${url}/health`, { signal, redirect: "error" });
    const body: unknown = await response.json();
    return typeof body === "object" && body !== null ? { kind: "health", body } : { kind: "other" };
  } catch (error) {
    return { kind: isRefused(error) ? "free" : "other" };
  }
}

/** Returns whether agentd answered. A server that shuts down answers with an error, and still serves its runs. */
export function isAgentd(occupant: Occupant): boolean {
  if (occupant.kind !== "health") return false;
  const { body } = occupant;
  return ("platform" in body && body.platform === "agent") || isDraining(body);
}

function isDraining(body: object): boolean {
  return JSON.stringify(body).includes('"server_draining"');
}

function isRefused(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return /refused/i.test(`${String(error)} ${String(cause)} ${String(cause?.code)}`);
}
