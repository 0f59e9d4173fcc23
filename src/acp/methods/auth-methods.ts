/** The ways to make the agent ready that a client is told of. Pure. */
import type { AuthMethod } from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../../generated/acp/claims.gen.ts";
import type { ClientOffers } from "../wire/client-capabilities.ts";
import type { Launcher } from "../wire/snippets.ts";

interface Client {
  readonly offers: ClientOffers;
  /** How this program is started. */
  launcher(): Launcher;
}

/** The one in a terminal only for clients that can open one: others would offer what they cannot do. */
export function authMethodsFor(client: Client): readonly AuthMethod[] {
  const { provider, setup } = acpClaims.authMethods;
  const { terminalSetup } = client.offers;
  if (terminalSetup === "no") return [provider];
  const inTerminal = { ...setup, args: [...setup.args] };
  return [provider, terminalSetup === "yes" ? inTerminal : { ...inTerminal, ...wholeCommand(client) }];
}

/** Older clients do not know how they started the agent when they open the terminal: they are told the whole command. */
function wholeCommand(client: Client) {
  const { command, args, env } = client.launcher();
  const { args: own, name } = acpClaims.authMethods.setup;
  return { _meta: { "terminal-auth": { command, args: [...args, "acp", ...own], env, label: name } } };
}
