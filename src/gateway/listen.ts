/** The listener: one h3 app on one address, with graceful drain. Sockets live here. */
import type { AddressInfo, Server as NodeServer } from "node:net";
import { serve, type H3 } from "h3";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";

export interface ListenOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Above every limit a route has: beyond it the runtime itself refuses. */
  readonly maxBodyBytes: number;
  readonly clock: Clock;
}

export interface Listener {
  /** Base address without a trailing slash, such as `http://127.0.0.1:8642`. */
  readonly url: string;
  /** Stops taking connections, lets open answers end for `graceMs`, then cuts them. */
  close(graceMs: number): Promise<void>;
}

const MAX_HEADER_BYTES = 16_384;
const HEADERS_TIMEOUT_MS = 15_000;
const REQUEST_TIMEOUT_MS = 120_000;
const KEEP_ALIVE_MS = 5_000;
/** How long a forced close may take before it is given up. */
const FORCE_MS = 500;

/** Starts to listen. ServiceError `invalid_config` when the address is taken or not ours. */
export async function listen(app: H3, options: ListenOptions): Promise<Listener> {
  const { host: hostname, port, clock } = options;
  const server = serve(app, {
    hostname,
    port,
    silent: true,
    gracefulShutdown: false,
    maxRequestBodySize: options.maxBodyBytes,
    trustProxy: false,
    node: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
  });
  try {
    await server.ready();
  } catch (cause) {
    throw cannotListen(cause, hostname, port);
  }
  const node = server.node?.server as (NodeServer & { closeIdleConnections?(): void }) | undefined;
  const close = async (graceMs: number): Promise<void> => {
    const sweep = setInterval(() => node?.closeIdleConnections?.(), 25);
    const patience = new AbortController();
    const closed = server.close();
    const late = clock.sleep(graceMs, { signal: patience.signal }).then(
      () => true,
      () => false,
    );
    const forced = await Promise.race([closed.then(() => false), late]);
    patience.abort();
    if (forced) await Promise.race([server.close(true), clock.sleep(FORCE_MS)]);
    clearInterval(sweep);
  };
  return { url: addressOf(server.url, node, hostname), close };
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
    ? `The port ${port} on ${hostname} is in use. Stop the other program, or choose a port with --port or api_server.port.`
    : `Cannot listen on ${hostname}:${port}${code === undefined ? "" : ` (${code})`}. Check api_server.host and api_server.port.`;
  return new ServiceError("invalid_config", what, { cause });
}
