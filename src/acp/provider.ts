/** Checks that the agent has a usable model before a session needs one. */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { formatModel, isReady, type ModelCatalog } from "../agent/model.ts";
import { toServiceError } from "../base/errors.ts";
import { authMethodsFor } from "./wire/client.ts";
import type { AcpConnection } from "./wire/connection.ts";
import type { AcpDeps } from "./deps.ts";

/**
 * Returns the loaded agent if its default model is usable; the built-in demo model always is. Otherwise reads the
 * configuration again. RequestError -32000 says what is missing, what to do and how to authenticate.
 */
export async function requireProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.deps());
  return missingProvider(deps.agent.deps.models) === undefined ? deps : refreshProvider(connection);
}

/** Reads the configuration again and returns the agent. Fails like {@link requireProvider}. */
export async function refreshProvider(connection: AcpConnection): Promise<AcpDeps> {
  const deps = await loaded(connection, () => connection.refresh());
  const missing = missingProvider(deps.agent.deps.models);
  if (missing !== undefined) throw authRequired(connection, missing);
  return deps;
}

/** Reports an invalid configuration as a missing provider; rethrows other errors. */
async function loaded(connection: AcpConnection, load: () => Promise<AcpDeps>): Promise<AcpDeps> {
  try {
    return await load();
  } catch (error) {
    const { code, message } = toServiceError(error);
    throw code === "invalid_config" ? authRequired(connection, message) : error;
  }
}

/** Returns why the default model is unusable and what to do, or undefined. */
export function missingProvider(models: ModelCatalog): string | undefined {
  const { default: model } = models;
  const provider = models.list().find(({ isDefault }) => isDefault);
  if (provider && isReady(provider)) return undefined;
  const setup = provider ? `\`agentd setup --provider ${provider.type}\`` : "`agentd setup`";
  return `${formatModel(model)} is not usable: its provider has no API key. Run ${setup}, or add the key to the \`.env\` file in the agentd home.`;
}

function authRequired(connection: AcpConnection, message: string): RequestError {
  return new RequestError(AUTH_REQUIRED, message, { authMethods: authMethodsFor(connection) });
}

const AUTH_REQUIRED = -32_000;
