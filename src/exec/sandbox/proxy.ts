/**
 * The way out of a sandbox: an HTTP proxy on a Unix socket that connects to allowed hosts only, by the addresses that
 * the guard has checked. Touches the machine: connects to other machines.
 */
import { chmod, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { checkedAddresses, type GuardOptions } from "../../base/net/fetch.ts";

export interface SandboxProxyOptions extends Pick<GuardOptions, "allowedPrivateHosts" | "lookup"> {
  /** Path of the socket; its folder exists and belongs to this user alone. */
  readonly socketPath: string;
  /** Returns whether commands may reach `host`, in lower case and without a port. */
  readonly isAllowed: (host: string) => boolean;
  /** Called for each refused host. */
  readonly onRefused: (host: string) => void;
}

export interface SandboxProxy {
  /** Closes the socket and every connection. */
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 64;
const CONNECT_MS = 10_000;
const IDLE_MS = 120_000;

/** Starts the proxy. Rejects when the socket cannot be made. */
export async function startSandboxProxy(options: SandboxProxyOptions): Promise<SandboxProxy> {
  const open = new Set<Duplex>();
  const track = (socket: Duplex) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    // The other side may disconnect at any time.
    socket.on("error", () => socket.destroy());
  };
  const server = createServer({ requestTimeout: 0 }, (incoming, response) => {
    void forward(incoming, response, options);
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", track);
  server.on("connect", (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    void tunnel(incoming, { client, head }, { options, track });
  });
  await listen(server, options.socketPath);
  await chmod(options.socketPath, 0o600);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      await closed;
      await rm(options.socketPath, { force: true });
    },
  };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => resolve());
  });
}

/** CONNECT (RFC 9110, 9.3.6): a tunnel to `host:port`. */
async function tunnel(
  { url = "" }: IncomingMessage,
  { client, head }: { readonly client: Duplex; readonly head: Buffer },
  { options, track }: { readonly options: SandboxProxyOptions; readonly track: (socket: Duplex) => void },
): Promise<void> {
  const target = URL.canParse(`https://${url}`) ? new URL(`https://${url}`) : undefined;
  const addresses = target === undefined ? undefined : await allowedAddresses(target, options);
  if (target === undefined || addresses === undefined) {
    client.end(`HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\n\r\n${refusalOf(url)}\n`);
    return;
  }
  const upstream = await connectToOne(addresses, Number(target.port || 443));
  if (upstream === undefined) {
    client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    return;
  }
  track(upstream);
  upstream.setTimeout(IDLE_MS, () => upstream.destroy());
  client.once("close", () => upstream.destroy());
  upstream.once("close", () => client.destroy());
  client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
  upstream.write(head);
  upstream.pipe(client);
  client.pipe(upstream);
}

/** A plain request with the whole address in its first line (RFC 9112, 3.2.2). */
async function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  options: SandboxProxyOptions,
): Promise<void> {
  const target = URL.canParse(incoming.url ?? "") ? new URL(incoming.url ?? "") : undefined;
  const addresses = target?.protocol === "http:" ? await allowedAddresses(target, options) : undefined;
  const [address] = addresses ?? [];
  if (target === undefined || address === undefined) {
    response.writeHead(403, { "content-type": "text/plain" }).end(`${refusalOf(incoming.url ?? "")}\n`);
    return;
  }
  const { "proxy-connection": _, "proxy-authorization": __, connection: ___, ...headers } = incoming.headers;
  const outgoing = request({
    host: address,
    port: Number(target.port || 80),
    method: incoming.method,
    path: `${target.pathname}${target.search}`,
    headers: { ...headers, host: target.host, connection: "close" },
    timeout: IDLE_MS,
  });
  outgoing.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  outgoing.once("timeout", () => outgoing.destroy());
  outgoing.once("error", () => {
    if (!response.headersSent) response.writeHead(502);
    response.end();
  });
  response.once("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}

/** Undefined for a host that is not allowed, whose name has no address, or whose address is not public. */
async function allowedAddresses(
  url: URL,
  options: SandboxProxyOptions,
): Promise<readonly string[] | undefined> {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  if (!options.isAllowed(host)) {
    options.onRefused(host);
    return undefined;
  }
  const { allowedPrivateHosts, lookup } = options;
  const signal = AbortSignal.timeout(CONNECT_MS);
  try {
    return await checkedAddresses(url, { allowedPrivateHosts, ...(lookup ? { lookup } : {}), signal });
  } catch {
    options.onRefused(host);
    return undefined;
  }
}

function refusalOf(target: string): string {
  return `agentd: the sandbox does not allow ${target.slice(0, 256)}. Allow the host in terminal.sandbox_hosts, or ask for approval to run the command outside the sandbox.`;
}

/** Resolves to a connection to the first address that accepts one. */
async function connectToOne(addresses: readonly string[], port: number): Promise<Socket | undefined> {
  for (const address of addresses) {
    const socket = await connectTo(address, port);
    if (socket) return socket;
  }
  return undefined;
}

function connectTo(host: string, port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS });
    const fail = () => {
      socket.destroy();
      resolve(undefined);
    };
    socket.once("error", fail);
    socket.once("timeout", fail);
    socket.once("connect", () => {
      socket.off("timeout", fail);
      resolve(socket);
    });
  });
}
