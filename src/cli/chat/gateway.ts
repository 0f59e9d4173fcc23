/** The gateway that `agentd chat` talks to: one that runs, or one of its own. */
import process from "node:process";
import { spawnTransport, webSocketTransport, type GatewayTransport } from "../../client/gateway.ts";
import { ownProgram } from "../../base/system/own-program.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";

const MAX_NOTES = 20;
const MAX_NOTE_CHARACTERS = 2_000;

/** The last lines of the child's log, for when it fails: the reason stands at the end. */
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
 * `--url` names a gateway, `--attach` means the one of this home; without either, `agentd rpc` is started, which has the
 * same home and the same sessions. A gateway that merely answers on the usual port is not attached to unasked: whoever
 * came first to the port would get the key.
 */
export async function chatTransport(wanted: Wanted, note: (line: string) => void): Promise<ChatGateway> {
  const { url, attach } = wanted;
  if (url !== undefined && attach) throw new UsageError("Give either --url or --attach.");
  if (wanted.token !== undefined && url === undefined) throw new UsageError("--token goes with --url.");
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
  throw new UsageError(
    `--url must be an address such as http://127.0.0.1:8642, not ${JSON.stringify(text)}.`,
  );
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

/** Where something that listens everywhere is reached from here. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::" || host === "[::]") return "[::1]";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
