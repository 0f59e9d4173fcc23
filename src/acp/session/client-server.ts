/** A server of the Model Context Protocol as a client names it. Pure. */
import type { McpServer } from "@agentclientprotocol/sdk/unstable";
import { invalidParams } from "../wire/error.ts";

/** Those of kinds that are served. */
export type ClientServer = Extract<McpServer, { type: "http" }> | Exclude<McpServer, { type: string }>;

const MAX_SERVERS = 32;
const SECRET_NAME = /key|token|secret|passw|pwd|auth|credential|cookie|session|signature|_pat$|^pat$/i;
/** Headers that say what is spoken, not who speaks. */
const PLAIN_HEADER =
  /^(accept(-.*)?|content-.*|user-agent|host|origin|referer|cache-control|connection|mcp-protocol-version)$/i;
/** Letters and digits in one piece, as no address or setting is written. */
const RANDOM_VALUE = /^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_+/=]{24,}$/;
/** Such as SSH_AUTH_SOCK has. */
const PATH = /^\/[\w.@-]+(\/[\w.@-]*)+$/;

/**
 * The servers, with nothing but what makes them: `_meta` may be another one each time. RequestError -32602 for kinds of
 * servers that are not served, for too many and for addresses that are none.
 */
export function checkServers(servers: readonly McpServer[]): readonly ClientServer[] {
  if (servers.length > MAX_SERVERS) {
    throw invalidParams("mcpServers", `A session takes at most ${MAX_SERVERS} servers.`);
  }
  return servers.map(checkServer);
}

/** What must not be told to anybody but the server: also without the word that stands before it in a header. */
export function serverSecrets(server: ClientServer): readonly string[] {
  if ("url" in server) {
    return server.headers
      .filter(({ name }) => !PLAIN_HEADER.test(name))
      .flatMap(({ value }) => [...new Set([value, value.replace(/^\w+ +/, "")])]);
  }
  return server.env
    .filter(({ name, value }) => !PATH.test(value) && (SECRET_NAME.test(name) || RANDOM_VALUE.test(value)))
    .map(({ value }) => value);
}

function checkServer(server: McpServer): ClientServer {
  const { name } = server;
  if (!("type" in server)) {
    const { command, args, env } = server;
    return { name, command, args, env: env.map(plain) };
  }
  const { type } = server;
  if (type !== "http") {
    const known = "name a command, or a server of type http";
    throw invalidParams(
      "mcpServers",
      `The MCP server ${name} is of type ${type}, which is not served: ${known}.`,
    );
  }
  if (!/^https?:$/.test(URL.parse(server.url)?.protocol ?? "")) {
    throw invalidParams("mcpServers", `The url of the MCP server ${name} is no address of http or https.`);
  }
  return { type, name, url: server.url, headers: server.headers.map(plain) };
}

const plain = ({ name, value }: { readonly name: string; readonly value: string }) => ({ name, value });
