/** The modes of a session as a client shows and chooses them. Pure. */
import type { SessionMode as ShownMode, SessionModeState } from "@agentclientprotocol/sdk/unstable";
import { isMode, MODE_TEXTS, MODES, type SessionMode } from "../../agent/session/session.ts";
import type { Chosen } from "./chosen.ts";
import type { ClientOffers } from "../wire/client-capabilities.ts";
import { invalidParams } from "../wire/error.ts";

/** Shown in the place of the mode while approvals are off, to clients that have no switch to show it with. */
export const NO_APPROVALS = {
  id: "yolo",
  name: "No approvals",
  description: "Does everything without asking; what is never allowed is still refused",
} as const satisfies ShownMode;

type Offers = Pick<ClientOffers, "booleanOptions">;

/** Returns the modes to show and the current one. Plan mode refuses changes even while approvals are off. */
export function modeState({ mode, yolo }: Pick<Chosen, "mode" | "yolo">, offers: Offers): SessionModeState {
  const available: ShownMode[] = MODES.map((id) => ({ id, ...MODE_TEXTS[id] }));
  if (!yolo || offers.booleanOptions || mode === "plan") {
    return { currentModeId: mode, availableModes: available };
  }
  return { currentModeId: NO_APPROVALS.id, availableModes: [...available, NO_APPROVALS] };
}

/** RequestError -32602 that names the modes. `param` is how the request calls it. */
export function readMode(wanted: unknown, param: string): SessionMode {
  if (typeof wanted === "string" && isMode(wanted)) return wanted;
  throw invalidParams(param, `${param} must be one of: ${MODES.join(", ")}.`);
}
