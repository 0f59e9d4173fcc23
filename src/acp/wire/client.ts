/** What a client says it can do. Pure. */
import type { ClientCapabilities, AuthMethod } from "@agentclientprotocol/sdk/unstable";
import type { AcpConnection } from "./connection.ts";
import { acpClaims } from "../../../generated/acp/claims.gen.ts";
import type { Launcher } from "./snippets.ts";

export interface ClientFeatures {
  readonly readsFiles: boolean;
  readonly writesFiles: boolean;
  /** Forms may be put to people. */
  readonly forms: boolean;
  readonly booleanOptions: boolean;
  readonly notices: boolean;
  readonly compaction: boolean;
  /** A terminal can run the setup. `legacy`: it was told in the way of older clients, whatever else was told. */
  readonly terminalSetup: "no" | "yes" | "legacy";
  /** Output of commands may be shown as a terminal: all of it each time, or what came since. */
  readonly terminalOutput: "no" | "whole" | "delta";
}

/** Values of a wrong type count as absent: a client must not fail over what is optional. */
export function readFeatures(capabilities: ClientCapabilities | null | undefined): ClientFeatures {
  const { fs, auth, elicitation, session, _meta: meta } = capabilities ?? {};
  return {
    readsFiles: fs?.readTextFile === true,
    writesFiles: fs?.writeTextFile === true,
    forms: isObject(elicitation?.form),
    booleanOptions: isObject(session?.configOptions?.boolean),
    notices: isObject(session?.notices),
    compaction: isObject(session?.compaction),
    terminalSetup: meta?.["terminal-auth"] === true ? "legacy" : auth?.terminal === true ? "yes" : "no",
    terminalOutput:
      meta?.["terminal_output_delta"] === true
        ? "delta"
        : meta?.["terminal_output"] === true
          ? "whole"
          : "no",
  };
}

/** Of a client that has not said anything yet. */
export const NO_FEATURES: ClientFeatures = readFeatures(undefined);

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** How a client turned out to deal with questions, which it cannot say before. */
interface ClientQuirks {
  /** It answered a request for permission with an error: it cannot ask its user. */
  hasNoPermissions: boolean;
  /** It failed to show a form although it offers them. */
  hasNoForms: boolean;
  /** A question ran out of time unanswered: nobody may be looking. An answer takes it back. */
  isSilent: boolean;
}

const known = new WeakMap<AcpConnection, ClientQuirks>();

/** Of this client, for as long as it is connected. */
export function clientQuirks(connection: AcpConnection): ClientQuirks {
  const quirks = known.get(connection) ?? { hasNoPermissions: false, hasNoForms: false, isSilent: false };
  known.set(connection, quirks);
  return quirks;
}

interface Client {
  readonly features: ClientFeatures;
  /** How this program is started. */
  launcher(): Launcher;
}

/** The one in a terminal only for clients that can open one: others would offer what they cannot do. */
export function authMethodsFor(client: Client): readonly AuthMethod[] {
  const { provider, setup } = acpClaims.authMethods;
  const { terminalSetup } = client.features;
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
