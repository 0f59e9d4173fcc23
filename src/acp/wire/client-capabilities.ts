/** What a client says it can do. Pure. */
import type { ClientCapabilities } from "@agentclientprotocol/sdk/unstable";

export interface ClientOffers {
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
export function clientOffers(capabilities: ClientCapabilities | null | undefined): ClientOffers {
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
export const NO_OFFERS: ClientOffers = clientOffers(undefined);

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}
