/** The modes of a session as a client chooses them. Pure. */
import type { SessionModeState } from "@agentclientprotocol/sdk/unstable";
import { isMode, MODE_TEXTS, MODES, type SessionMode } from "../agent/mode.ts";
import { invalidParams } from "./error.ts";

export function modeState(current: SessionMode): SessionModeState {
  return { currentModeId: current, availableModes: MODES.map((id) => ({ id, ...MODE_TEXTS[id] })) };
}

/** RequestError -32602 that names the modes. `param` is how the request calls it. */
export function readMode(wanted: unknown, param: string): SessionMode {
  if (typeof wanted === "string" && isMode(wanted)) return wanted;
  throw invalidParams(param, `${param} must be one of: ${MODES.join(", ")}.`);
}
