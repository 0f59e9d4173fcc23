/** Whether the agent has a model that it can ask, before a session needs one. */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { formatModel, isReady, type ModelCatalog } from "../agent/model.ts";
import { toServiceError } from "../base/errors.ts";
import { authMethodsFor } from "./wire/client.ts";
import type { AcpConnection } from "./wire/connection.ts";
import type { AcpDeps } from "./deps.ts";

/**
 * The loaded agent, when its default model can be asked; the built-in demo model can. When it cannot, the configuration
 * may have been mended since. RequestError -32000 that says what is missing and what to do, and how to authenticate.
 */
export async function requireProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.deps());
  return missingProvider(deps.agent.deps.models) === undefined ? deps : refreshProvider(connection);
}

/** As {@link requireProvider}, with the configuration read again. */
export async function refreshProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.refresh());
  const missing = missingProvider(deps.agent.deps.models);
  if (missing !== undefined) throw authRequired(connection, missing);
  return deps;
}

/** A configuration that is not valid has no usable provider. Whatever else keeps the agent from loading is thrown. */
async function loaded(connection: AcpConnection, load: () => Promise<AcpDeps>): Promise<AcpDeps> {
  try {
    return await load();
  } catch (error) {
    const { code, message } = toServiceError(error);
    throw code === "invalid_config" ? authRequired(connection, message) : error;
  }
}

/** What keeps the default model from being asked, and what to do; undefined when nothing does. */
export function missingProvider(models: ModelCatalog): string | undefined {
  const { default: model } = models;
  const provider = models.list().find(({ isDefault }) => isDefault);
  if (provider && isReady(provider)) return undefined;
  const setup = provider ? `\`agentd setup --provider ${provider.type}\`` : "`agentd setup`";
  return `${formatModel(model)} cannot be asked: its provider has no key. Run ${setup}, or put the key into \`.env\` of the home of agentd.`;
}

function authRequired(connection: AcpConnection, message: string): RequestError {
  return new RequestError(AUTH_REQUIRED, message, { authMethods: authMethodsFor(connection) });
}

const AUTH_REQUIRED = -32_000;
