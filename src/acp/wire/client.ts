/** What the connected client supports. */
import type { ClientCapabilities, AuthMethod } from "@agentclientprotocol/sdk/unstable";
import { acpClaims } from "../../../generated/acp/claims.gen.ts";
import type { Launcher } from "./snippets.ts";

export interface ClientFeatures {
  readonly readsFiles: boolean;
  readonly writesFiles: boolean;
  /** The client can show forms. */
  readonly forms: boolean;
  readonly booleanOptions: boolean;
  readonly notices: boolean;
  readonly compaction: boolean;
  /** The client can run the setup in a terminal. `legacy`: it says so in the format of older clients. */
  readonly terminalSetup: "no" | "yes" | "legacy";
  /** The client can show command output as a terminal: the whole output each time, or only the new part. */
  readonly terminalOutput: "no" | "whole" | "delta";
}

/** Reads the capabilities of `initialize`. Ignores values of a wrong type: optional fields must not fail a client. */
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

/** The features of a client before `initialize`. */
export const NO_FEATURES: ClientFeatures = readFeatures(undefined);

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** How a client handles questions, as observed: the protocol has no capabilities for it. */
export interface ClientQuirks {
  /** The client answered a permission request with an error: it cannot ask its user. */
  hasNoPermissions: boolean;
  /** The client failed to show a form although it claims to support them. */
  hasNoForms: boolean;
  /** A question timed out: the user may be away. The next answer resets this. */
  isSilent: boolean;
}

interface Client {
  readonly features: ClientFeatures;
  /** Returns the command that starts this program. */
  launcher(): Launcher;
}

/** Returns the authentication methods for this client; the terminal one only if it can open a terminal. */
export function authMethodsFor(client: Client): readonly AuthMethod[] {
  const { provider, setup } = acpClaims.authMethods;
  const { terminalSetup } = client.features;
  if (terminalSetup === "no") return [provider];
  const inTerminal = { ...setup, args: [...setup.args] };
  return [provider, terminalSetup === "yes" ? inTerminal : { ...inTerminal, ...wholeCommand(client) }];
}

/** Returns the whole setup command for older clients, which do not remember how they started the agent. */
function wholeCommand(client: Client) {
  const { command, args, env } = client.launcher();
  const { args: own, name } = acpClaims.authMethods.setup;
  return { _meta: { "terminal-auth": { command, args: [...args, "acp", ...own], env, label: name } } };
}
