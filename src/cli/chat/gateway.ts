/** Connects `agentd chat` to a running gateway or to a child process. */
import process from "node:process";
import { spawnTransport, webSocketTransport, type GatewayTransport } from "../../client/gateway.ts";
import { ownProgram } from "../../base/system/own-program.ts";
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
  if (wanted.token !== undefined && url === undefined) throw new UsageError("--token needs --url.");
  if (url !== undefined) return { transport: webSocketTransport({ url: parseUrl(url), ...tokenOf(wanted) }) };
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
    import("../../config/secrets/reference.ts"),
  ]);
  const loaded = await loadConfig({ home, env });
  const { host, port, key } = requireValid(loaded).api_server;
  const token = key === undefined ? {} : { token: resolveSecret(key, loaded.env, "api_server.key") };
  return webSocketTransport({ url: `http://${reachable(host)}:${port}`, ...token });
}

/** Returns the address at which a listener on all interfaces is reachable from this machine. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::" || host === "[::]") return "[::1]";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
