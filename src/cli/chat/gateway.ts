/** Connects `agentd chat` to a running gateway or to a child process. */
import process from "node:process";
import {
  spawnTransport,
  TransportError,
  webSocketTransport,
  type GatewayTransport,
} from "../../client/gateway.ts";
import { ownProgram } from "../../base/system/machine.ts";
import { redact } from "../../base/observe.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";

const MAX_NOTES = 20;
const MAX_NOTE_CHARACTERS = 2_000;

/** Keeps the last lines of the child's log, which contain the reason when it fails. */
export class ChildLog {
  readonly #lines: string[] = [];

  get lines(): readonly string[] {
    return this.#lines;
  }

  readonly add = (line: string): void => {
    this.#lines.push(line.slice(0, MAX_NOTE_CHARACTERS));
    if (this.#lines.length > MAX_NOTES) this.#lines.shift();
  };
}

interface Wanted {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  readonly attach?: boolean | undefined;
}

interface ChatGateway {
  readonly transport: GatewayTransport;
}

/**
 * Returns the transport: to the gateway at `--url`, with `--attach` to the gateway of this home, otherwise to a child
 * process `agentd rpc` with the same home and sessions. A gateway on the default port is never used implicitly: any
 * program that holds the port would get the key.
 */
export async function chatTransport(wanted: Wanted, note: (line: string) => void): Promise<ChatGateway> {
  const { url, attach } = wanted;
  if (url !== undefined && attach) throw new UsageError("Give either --url or --attach.");
  if (url !== undefined) {
    const hints = { absent: "Check the address.", key: "Set API_SERVER_KEY to a key of that gateway." };
    return { transport: socketTransport({ url: parseUrl(url), ...tokenOf(wanted) }, hints) };
  }
  if (attach) return { transport: await homeTransport() };
  const [command = "", ...args] = ownProgram();
  return { transport: spawnTransport({ command, args: [...args, "rpc"], onStderr: note }) };
}

function tokenOf({ token = process.env["API_SERVER_KEY"] }: Wanted): { token?: string } {
  return token === undefined || token === "" ? {} : { token };
}

function parseUrl(text: string): string {
  const url = URL.parse(text);
  if (url && /^(?:https?|wss?):$/.test(url.protocol)) return url.href;
  throw new UsageError(`--url must be a URL such as http://127.0.0.1:8642, not ${JSON.stringify(text)}.`);
}

async function homeTransport(): Promise<GatewayTransport> {
  const { home, env } = currentContext();
  const [{ loadConfig, requireValid }, { resolveSecret }] = await Promise.all([
    import("../../config/config.ts"),
    import("../../config/home.ts"),
  ]);
  const loaded = await loadConfig({ home, env });
  const { host, port, key } = requireValid(loaded).api_server;
  const token = key === undefined ? {} : { token: resolveSecret(key, loaded.env, "api_server.key") };
  const absent = "Start it with `agentd gateway`, or check api_server.port.";
  const elsewhere = "It may serve another home: pass --profile, or set AGENTD_HOME.";
  return socketTransport({ url: `http://${reachable(host)}:${port}`, ...token }, { absent, key: elsewhere });
}

interface SocketAddress {
  readonly url: string;
  readonly token?: string;
}

/** What to do when no gateway answers, and when it refuses the key. */
interface Hints {
  readonly absent: string;
  readonly key: string;
}

/**
 * Returns a transport that asks for a ticket before each connection: a refused web socket cannot say why, and the key
 * stays out of addresses. The path of a proxy without the ticket's endpoint gets the key itself.
 */
function socketTransport({ url, token }: SocketAddress, hints: Hints): GatewayTransport {
  const base = /^(?<base>[^?#]*?)\/(?:api\/ws)?$/.exec(new URL(url).href.replace(/^ws/, "http"))?.groups?.[
    "base"
  ];
  if (base === undefined) return webSocketTransport({ url, ...(token === undefined ? {} : { token }) });
  return webSocketTransport({
    url,
    ticket: () => getTicket({ url: base, ...(token === undefined ? {} : { token }) }, hints),
  });
}

const TICKET_TIMEOUT_MS = 10_000;

/** Rejects with a TransportError that says whether no gateway answers, the key is wrong, or one is needed. */
async function getTicket({ url, token }: SocketAddress, hints: Hints): Promise<string> {
  const { isAgentd, occupantOf } = await import("../kit/local-gateway.ts");
  const shown = redact(url);
  // Without the key first: another program on the port must not get it.
  const occupant = await occupantOf(url, TICKET_TIMEOUT_MS);
  if (occupant.kind === "free") throw new TransportError(`No gateway listens at ${shown}. ${hints.absent}`);
  if (!isAgentd(occupant)) throw new TransportError(`No gateway answers at ${shown}. ${hints.absent}`);
  const headers = new Headers(token === undefined ? {} : { authorization: `Bearer ${token}` });
  const signal = AbortSignal.timeout(TICKET_TIMEOUT_MS);
  const answer = await fetch(`${url}/api/auth/ws-ticket`, {
    method: "POST",
    headers,
    signal,
    redirect: "error",
  }).catch((cause: unknown) => {
    throw new TransportError(`The gateway at ${shown} does not answer.`, { cause });
  });
  const body = (await answer.json().catch(() => ({}))) as {
    readonly ticket?: string;
    readonly error?: { readonly message?: string };
  };
  if (answer.ok && body.ticket !== undefined) return body.ticket;
  const retryable = answer.status >= 500 || answer.status === 429;
  throw new TransportError(
    refusalText(answer.status, { url: shown, token, hints, message: body.error?.message }),
    {
      retryable,
    },
  );
}

interface TicketRefusal {
  readonly url: string;
  readonly token: string | undefined;
  readonly hints: Hints;
  readonly message: string | undefined;
}

function refusalText(status: number, { url, token, hints, message }: TicketRefusal): string {
  if (status !== 401) return `The gateway at ${url} refuses the connection: ${message ?? `status ${status}`}`;
  return token === undefined
    ? `The gateway at ${url} needs a key. ${hints.key}`
    : `The key is wrong: the gateway at ${url} refuses it. ${hints.key}`;
}

/** Returns the address at which a listener on all interfaces is reachable from this machine. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::" || host === "[::]") return "[::1]";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
