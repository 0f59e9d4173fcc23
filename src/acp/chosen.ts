/** What holds for a session, whoever chose it. */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import type { SessionMode } from "../agent/mode.ts";
import { formatModel } from "../agent/model.ts";
import { settingsOf } from "../agent/session.ts";
import type { AcpRoom } from "./room.ts";
import type { AcpSession } from "./session.ts";

/** What holds for a session, as it is chosen by now. */
export interface Chosen {
  readonly mode: SessionMode;
  /** `provider:model`; as it is stored when there is no such model any more. */
  readonly model: string;
  /** One of the agent's efforts, or `default`. */
  readonly effort: string;
  readonly yolo: boolean;
}

export const DEFAULT_EFFORT = "default";

/** A session without a row has what it was opened with. */
export async function chosenOf({ store, agent }: AcpRoom, { id, seed }: AcpSession): Promise<Chosen> {
  const row = await store.find("sessions", { id });
  const {
    mode = "ask",
    reasoningEffort = DEFAULT_EFFORT,
    yolo = false,
  } = row ? settingsOf(row) : (seed.settings ?? {});
  const { models, switches } = agent.parts;
  const name = (row ? row.model : seed.model) ?? formatModel(models.default);
  const ref = models.resolve(name);
  return { mode, model: ref ? formatModel(ref) : name, effort: reasoningEffort, yolo: yolo || switches.yolo };
}

/** RequestError -32603 when the session's model is gone: another must not get the conversation unasked. */
export async function requireModel(room: AcpRoom, session: AcpSession): Promise<void> {
  const { model } = await chosenOf(room, session);
  if (room.agent.parts.models.resolve(model)) return;
  const data = { kind: "provider", reason: "model_not_found", retryable: false };
  throw new RequestError(
    INTERNAL,
    `The model of this session, ${model}, is not configured any more. Choose another one.`,
    data,
  );
}

const INTERNAL = -32_603;
