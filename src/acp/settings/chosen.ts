/** What applies to a session, whoever chose it. */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { unchosenMode, type SessionMode, settingsOf } from "../../agent/session/session.ts";
import { formatModel } from "../../agent/model.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";

/** What applies to a session now. */
export interface Chosen {
  /** Where nobody chose one, the mode that describes what is configured. */
  readonly mode: SessionMode;
  /** `provider:model`; as it is stored when there is no such model any more. */
  readonly model: string;
  /** One of the agent's efforts, or `default`. */
  readonly effort: string;
  /** Approvals are off: for the session, for all sessions, or by the configuration. */
  readonly yolo: boolean;
}

export const DEFAULT_EFFORT = "default";

/** A session without a row has what it was opened with. */
export async function chosenOf({ store, agent }: AcpDeps, { id, seed }: AcpSession): Promise<Chosen> {
  const row = await store.find("sessions", { id });
  const { models, switches, settings } = agent.deps;
  const {
    mode = unchosenMode(settings.policyMode),
    reasoningEffort = DEFAULT_EFFORT,
    yolo = false,
  } = row ? settingsOf(row) : (seed.settings ?? {});
  const name = (row ? row.model : seed.model) ?? formatModel(models.default);
  const ref = models.resolve(name);
  const isOff = yolo || switches.yolo || settings.policyMode === "yolo";
  return { mode, model: ref ? formatModel(ref) : name, effort: reasoningEffort, yolo: isOff };
}

/** RequestError -32603 when the session's model is gone: another must not get the conversation unasked. */
export async function requireModel(deps: AcpDeps, session: AcpSession): Promise<void> {
  const { model } = await chosenOf(deps, session);
  if (deps.agent.deps.models.resolve(model)) return;
  const data = { kind: "provider", reason: "model_not_found", retryable: false };
  throw new RequestError(
    INTERNAL,
    `The model of this session, ${model}, is not configured any more. Choose another one.`,
    data,
  );
}

const INTERNAL = -32_603;
