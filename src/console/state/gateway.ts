/** The page's one socket: calls, events, and how the connection stands. */
import {
  connectGateway,
  EventsLostError,
  TransportError,
  webSocketTransport,
  type GatewayClient,
  type GatewayClientEvent,
} from "../../client/gateway.ts";
import { AgentApiError, send } from "../../client/request.ts";
import { createStore, type WritableStore } from "./store.ts";
import { messageOf, signedFetch } from "./session.ts";

export interface Connection {
  readonly kind: "connecting" | "open" | "reconnecting" | "closed";
  /** Why there is none, in words. */
  readonly reason: string;
  /** Unix milliseconds: since when it has been like this. */
  readonly sinceMs: number;
}

type Listener = (event: GatewayClientEvent) => void;

/** Longest time between two attempts: a person is waiting. */
const MAX_WAIT_MS = 10_000;

const connected = Promise.withResolvers<GatewayClient>();
let client: GatewayClient | undefined;
const listeners = new Set<Listener>();

export const connection: WritableStore<Connection> = createStore<Connection>({
  kind: "connecting",
  reason: "",
  sinceMs: Date.now(),
});

/** Calls the gateway; waits until it is connected. */
export const call: GatewayClient["call"] = async (method, ...args) =>
  (await connected.promise).call(method, ...args);

/** Calls `listener` with each event. Returns a function that removes it. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Tries again at once instead of waiting for the next attempt. */
export function reconnectNow(): void {
  client?.reconnectNow();
}

/** Closes the socket for good, before the page leaves. */
export async function stopGateway(): Promise<void> {
  await client?.close();
}

/** Connects, and stays connected as long as the page lives. */
export async function startGateway(version: string): Promise<void> {
  globalThis.addEventListener("online", reconnectNow);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) reconnectNow();
  });
  try {
    client = await connectGateway({
      transport: webSocketTransport({ url: location.origin, ticket }),
      client: { name: "agentd-console", version },
      reconnect: { first: true, attempts: Number.POSITIVE_INFINITY, maxMs: MAX_WAIT_MS },
    });
  } catch (error) {
    become("closed", messageOf(error));
    return;
  }
  become("open", "");
  connected.resolve(client);
  await follow(client);
}

async function follow(gateway: GatewayClient): Promise<void> {
  try {
    for await (const event of gateway.events()) {
      if (event.type === "client.state") become(event.payload.state, event.payload.message ?? "");
      for (const listener of listeners) listener(event);
    }
  } catch (error) {
    if (!(error instanceof EventsLostError)) return become("closed", messageOf(error));
    // The listeners read again what the events stood for.
    for (const listener of listeners) listener(lostEvents(error));
    return follow(gateway);
  }
}

function lostEvents({ message }: EventsLostError): GatewayClientEvent {
  return { type: "client.state", ts: Date.now(), payload: { state: "open", attempt: 0, message } };
}

async function ticket(): Promise<string> {
  try {
    const sent = { baseUrl: location.origin, fetch: signedFetch };
    const response = await send(sent, "/api/auth/ws-ticket", { method: "POST" });
    return ((await response.json()) as { readonly ticket: string }).ticket;
  } catch (error) {
    const isRefused = error instanceof AgentApiError && (error.status === 401 || error.status === 403);
    const message = error instanceof AgentApiError ? error.message : "The gateway does not answer.";
    throw new TransportError(message, { retryable: !isRefused, cause: error });
  }
}

function become(kind: Connection["kind"], reason: string): void {
  connection.update((before) =>
    before.kind === kind && before.reason === reason
      ? before
      : { kind, reason, sinceMs: before.kind === kind ? before.sinceMs : Date.now() },
  );
}
