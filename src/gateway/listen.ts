/** The listener: one h3 app on one address, with graceful drain. Sockets live here. */
import { waitAtMost, type Clock } from "../base/time.ts";
import type { IncomingMessage, Server as NodeServer, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { serve, type H3 } from "h3";
import { ServiceError } from "../base/errors.ts";
import type { SocketGate } from "../rpc/connection/socket.ts";

export interface ListenOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Above the limit of every route. The runtime itself rejects larger bodies. */
  readonly maxBodyBytes: number;
  readonly clock: Clock;
  /** Accepts WebSockets. */
  readonly sockets?: Pick<SocketGate, "plugin">;
}

export interface Listener {
  /** Base address without a trailing slash, such as `http://127.0.0.1:8642`. */
  readonly url: string;
  /**
   * Stops accepting connections, lets open answers finish for `graceMs`, then cuts them. Deno cannot cut an
   * answer: one that takes longer stays open until the process ends, but is no longer waited for.
   */
  close(graceMs: number): Promise<void>;
}

const MAX_HEADER_BYTES = 16_384;
const HEADERS_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 120_000;
/** Longer than the 60 seconds for which proxies keep idle connections: a request on a connection that closes just then fails. */
const KEEP_ALIVE_MS = 75_000;
/** How long to wait for a forced close. */
const FORCE_MS = 500;

/** Starts to listen. ServiceError `invalid_config` when the port is taken or the address is not local. */
export async function listen(app: H3, options: ListenOptions): Promise<Listener> {
  const { host: hostname, clock } = options;
  const server = await open(app, options);
  const node = server.node?.server as NodeServer | undefined;
  // Handles sockets that break while their upgrade is refused.
  node?.on("upgrade", (_request, socket: Duplex) => socket.on("error", () => socket.destroy()));
  const answering = node && openAnswers(node);
  const close = async (graceMs: number): Promise<void> => {
    const closed = server.close();
    await waitAtMost(clock, graceMs, answering ? answering.none() : closed);
    await waitAtMost(clock, FORCE_MS, server.close(true));
  };
  return { url: addressOf(server.url, node, hostname), close };
}

async function open(app: H3, { host: hostname, port, maxBodyBytes, sockets }: ListenOptions) {
  const plugins = sockets ? [await sockets.plugin()] : [];
  try {
    // Node reports a taken port when the server is ready, Deno throws at once.
    const server = serve(app, {
      hostname,
      port,
      silent: true,
      gracefulShutdown: false,
      maxRequestBodySize: maxBodyBytes,
      trustProxy: false,
      plugins,
      node: {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: HEADERS_TIMEOUT_MS,
        requestTimeout: REQUEST_TIMEOUT_MS,
        keepAliveTimeout: KEEP_ALIVE_MS,
        // Requests to upgrade to another protocol get a plain HTTP answer.
        shouldUpgradeCallback: ({ headers }: IncomingMessage) =>
          sockets !== undefined && headers.upgrade?.toLowerCase() === "websocket",
      },
    });
    return await server.ready();
  } catch (cause) {
    throw cannotListen(cause, hostname, port);
  }
}

/**
 * Counts open answers. Node's own close also waits for connections that never sent a request, such as those that
 * browsers open in advance.
 */
function openAnswers(node: NodeServer): { none(): Promise<void> } {
  let open = 0;
  let whenNone: (() => void) | undefined;
  node.on("request", (_request, response: ServerResponse) => {
    open += 1;
    response.once("close", () => {
      open -= 1;
      if (open === 0) whenNone?.();
    });
  });
  return {
    none: () =>
      new Promise((resolve) => {
        if (open === 0) return resolve();
        whenNone = resolve;
      }),
  };
}

function addressOf(url: string | undefined, node: NodeServer | undefined, hostname: string): string {
  const address = node?.address() as AddressInfo | null | undefined;
  if (address) return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${address.port}`;
  return (url ?? "").replace(/\/$/, "");
}

function cannotListen(cause: unknown, hostname: string, port: number): ServiceError {
  const code = (cause as { code?: string }).code;
  const taken = code === "EADDRINUSE" || (cause as Error).name === "AddrInUse";
  const what = taken
    ? `Cannot listen on ${hostname}:${port}: the port is in use. Stop the other process, or choose a port with --port or api_server.port.`
    : `Cannot listen on ${hostname}:${port}${code === undefined ? "" : ` (${code})`}. Check api_server.host and api_server.port.`;
  return new ServiceError("invalid_config", what, { cause });
}
