/** Calls of the gateway, and what their failures mean to people. */
import { ConnectionCutError, GatewayError, type GatewayClient } from "../client/gateway.ts";

export type GatewayCall = GatewayClient["call"];

/** The stable name of an error answer, such as `not_live`; undefined for anything else. */
export function reasonOf(error: unknown): string | undefined {
  return error instanceof GatewayError ? error.reason : undefined;
}

/** What failed, and what to do next where that is known. */
export function describeFailure(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const hint = error instanceof ConnectionCutError ? "Then try again." : HINTS[reasonOf(error) ?? ""];
  return hint === undefined ? message : `${message} ${hint}`;
}

const HINTS: Readonly<Record<string, string>> = {
  session_not_found: "/sessions lists the sessions there are.",
  session_busy: "Wait for the turn to end, or press Ctrl-C.",
  queue_full: "Wait until the queue is shorter.",
  overloaded: "Try again in a moment.",
  session_limit: "Close another session first.",
};
