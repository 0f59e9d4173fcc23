/** The HTTP API for commands: over the home's own database, or of a server. Every command is written once for both. */
import type { CommandApi } from "../../app/command-api.ts";
import {
  createAgentClient,
  AgentApiError,
  AgentConnectionError,
  type AgentClient,
} from "../../client/http.ts";
import { ServiceError, type ErrorCode } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { currentContext } from "./context.ts";
import { noDatabase } from "./database.ts";
import { warn } from "./output.ts";
import { currentTarget, type RemoteTarget } from "./target.ts";

/** A header that names whose data a request reaches. */
type OwnerHeader = { "X-Agent-Owner"?: string };

/** The API with what depends on who calls it. */
export interface Api {
  readonly client: AgentClient;
  /** What streams take. */
  readonly server: { readonly baseUrl: string; readonly apiKey?: string; readonly fetch?: typeof fetch };
  /** Absent: this machine. */
  readonly target?: RemoteTarget;
  /** For reads: the data of all owners, or that of the key's owner if it may not read more. */
  readonly anyOwner: OwnerHeader;
  /** For changes of one owner's data. */
  ownedBy(owner: string): OwnerHeader;
}

/**
 * Runs `work` with the API of the current target. ServiceError with the reason of an error response, and with what to do
 * when the server cannot be reached, refuses the key, or is not agentd.
 */
export async function withApi<T>(work: (api: Api) => Promise<T>): Promise<T> {
  const target = await currentTarget();
  try {
    return await (target ? remotely(target, work) : locally(work));
  } catch (error) {
    if (error instanceof AgentApiError) throw refused(error, target);
    if (target && error instanceof AgentConnectionError) throw unreachable(error, target);
    throw error;
  }
}

/** Returns what streams of an owner's data take. */
export function streamsOf({ server, ownedBy }: Api, owner: string): Api["server"] {
  const send = server.fetch ?? fetch;
  const named = Object.entries(ownedBy(owner));
  return {
    ...server,
    fetch: (input, init) => send(input, { ...init, headers: [...new Headers(init?.headers), ...named] }),
  };
}

/**
 * Like {@link withApi}, for what only a running gateway can do: on this machine, the one of the home, at `port` or as it is
 * configured. ServiceError that says how to start it.
 */
export async function withGatewayApi<T>(
  port: string | undefined,
  work: (api: Api) => Promise<T>,
): Promise<T> {
  if (await currentTarget()) return withApi(work);
  const { withGateway } = await import("./local-gateway.ts");
  return withGateway(port, async (client, server) => {
    const { auth } = (await client.getCapabilities()).data;
    return work({ client, server, ...ownersOf(auth.scopes) }).catch((error: unknown) => {
      throw error instanceof AgentApiError && error.status !== 401 ? refused(error, undefined) : error;
    });
  });
}

/** Operations that read the configuration and other files of the home. */
const WITHOUT_DATABASE =
  /^(get|list)(Platform|Route|Config|Variable|Provider|Model|Price|Skill|Tool|McpServer|Doctor|Log|Capabilities)/;

async function locally<T>(work: (api: Api) => Promise<T>): Promise<T> {
  const { CommandApi } = await import("../../app/command-api.ts");
  const api = await CommandApi.open(currentContext());
  const answer = async (...given: Parameters<typeof fetch>) => {
    await warnOnce();
    return api.fetch(new Request(...given));
  };
  let warned: Promise<void> | undefined;
  const warnOnce = () => (warned ??= warnWithoutDatabase(api));
  const server = { baseUrl: "http://localhost", fetch: answer };
  const ownedBy = (owner: string) => ({ "X-Agent-Owner": owner });
  const client = localClient(async (call) => {
    if (/^(get|list)/.test(call.operation) && !WITHOUT_DATABASE.test(call.operation)) await warnOnce();
    return api.perform(call);
  });
  try {
    return await work({ client, server, anyOwner: ownedBy("*"), ownedBy });
  } finally {
    await api.close();
  }
}

/** Returns a client whose calls are performed in this process, with the results and errors of the client of a server. */
function localClient(perform: CommandApi["perform"]): AgentClient {
  const call = async (operation: string, options: object = {}) => {
    try {
      const { body, raw, headers } = await perform({ ...options, operation });
      const data: unknown = raw === undefined ? JSON.parse(JSON.stringify(body ?? null)) : raw;
      return { data, response: { headers: { get: (name: string) => headers?.[name] ?? null } } };
    } catch (error) {
      throw error instanceof ServiceError ? toApiError(error) : error;
    }
  };
  const methods: ProxyHandler<object> = {
    get: (_, name) => (options?: object) => call(String(name), options),
  };
  return new Proxy({}, methods) as AgentClient;
}

function toApiError(error: ServiceError): AgentApiError {
  const { message, row, param = null, details } = error;
  const code = row.wire ?? error.code;
  const body = { code, message, type: row.type, param, ...(details === undefined ? {} : { details }) };
  return new AgentApiError(row.http, body);
}

async function warnWithoutDatabase(api: CommandApi): Promise<void> {
  if (!(await api.hasDatabase())) warn(noDatabase(api.home.paths.databaseUrl));
}

async function remotely<T>(target: RemoteTarget, work: (api: Api) => Promise<T>): Promise<T> {
  const { url: baseUrl, key } = target;
  const server = { baseUrl, ...(key === undefined ? {} : { apiKey: key }) };
  const client = createAgentClient(server);
  const { data: capabilities } = await client.getCapabilities();
  if (capabilities?.object !== "agent.api_server.capabilities") throw foreign(target);
  return work({ client, server, target, ...ownersOf(capabilities.auth.scopes) });
}

/** Only an admin may name an owner. */
function ownersOf(scopes: readonly string[]): Pick<Api, "anyOwner" | "ownedBy"> {
  const ownedBy = (owner: string) => (scopes.includes("admin") ? { "X-Agent-Owner": owner } : {});
  return { anyOwner: ownedBy("*"), ownedBy };
}

function unreachable(error: AgentConnectionError, { url, context }: RemoteTarget): ServiceError {
  const change = context === undefined ? "" : ` Its context is ${JSON.stringify(context)}.`;
  const what = `Cannot reach the server at ${url}.${change} ${error.message} Check the address and that the server runs.`;
  return new ServiceError("not_found", what, { cause: error });
}

function refused(error: AgentApiError, target: RemoteTarget | undefined): ServiceError {
  if (target === undefined || (error.status !== 401 && error.code !== "unknown_error"))
    return new ServiceError(error.code as ErrorCode, redact(error.message), { cause: error });
  return error.status === 401 ? wrongKey(error, target) : foreign(target, error);
}

function wrongKey(cause: AgentApiError, { url, key, context }: RemoteTarget): ServiceError {
  const what = key === undefined ? "requires an API key" : "refuses the API key";
  const how =
    context === undefined
      ? "Pass one with --token-stdin, or set API_SERVER_KEY."
      : `Store another with \`agentd context add ${context} --url ${url} --token-stdin\`.`;
  return new ServiceError("not_found", `The server at ${url} ${what}. ${how}`, { cause });
}

function foreign({ url }: RemoteTarget, cause?: AgentApiError): ServiceError {
  const status = cause === undefined ? "" : ` (status ${cause.status})`;
  const what = `The server at ${url} does not answer like agentd${status}. Check the address.`;
  return new ServiceError("not_found", what, { cause });
}
