/** What a client can choose in a session: its mode, its model, how much it thinks. */
import type { SessionConfigOption, SessionModeState } from "@agentclientprotocol/sdk/unstable";
import { EFFORTS } from "../../agent/agent.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import { chosenOf, DEFAULT_EFFORT, type Chosen } from "./chosen.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { invalidParams } from "../wire/error.ts";
import { legacyModels, modelGroups, readModel, type LegacyModels } from "./models.ts";
import { modeState, NO_APPROVALS, readMode } from "./modes.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "../session/session.ts";

/** What a client can choose in a session, as every answer that opens one says. `models`: for clients without options. */
export interface OpenedAnswer {
  readonly modes: SessionModeState;
  readonly configOptions: SessionConfigOption[];
  readonly models?: LegacyModels;
}

/** Of the answer that opens a session. */
export async function sessionOptions(connection: AcpConnection, session: AcpSession): Promise<OpenedAnswer> {
  const deps = await connection.deps();
  const chosen = await chosenOf(deps, session);
  const { models } = deps.agent.deps;
  return {
    modes: modeState(chosen, connection.offers),
    configOptions: configOptions(connection, deps, chosen),
    ...(deps.settings.legacyModels ? { models: legacyModels(models, chosen.model) } : {}),
  };
}

/** The whole list, as the protocol wants it each time. */
export function configOptions(
  { offers }: AcpConnection,
  { agent }: AcpDeps,
  chosen: Chosen,
): SessionConfigOption[] {
  const { model, effort, yolo } = chosen;
  const { models, settings } = agent.deps;
  const { currentModeId, availableModes } = modeState(chosen, offers);
  const usual = settings.reasoningEffort;
  const select = <Option>(
    id: string,
    about: { name: string; category: string; description: string },
    of: Option,
  ) => ({
    id,
    ...about,
    type: "select" as const,
    ...of,
  });
  return [
    select(
      "mode",
      { name: "Mode", category: "mode", description: "What the agent does without asking" },
      {
        currentValue: currentModeId,
        options: availableModes.map(({ id: value, ...mode }) => ({ value, ...mode })),
      },
    ),
    select(
      "model",
      { name: "Model", category: "model", description: "The model of this session" },
      { currentValue: model, options: modelGroups(models, model) },
    ),
    select(
      "thought_level",
      { name: "Reasoning effort", category: "thought_level", description: "How much the model thinks" },
      {
        currentValue: effort,
        options: [
          { value: DEFAULT_EFFORT, name: usual === undefined ? "Default" : `Default (${usual})` },
          ...EFFORTS.map((value) => ({ value, name: value })),
        ],
      },
    ),
    ...(offers.booleanOptions
      ? [
          {
            id: "yolo",
            name: NO_APPROVALS.name,
            description: NO_APPROVALS.description,
            type: "boolean" as const,
            currentValue: yolo,
          },
        ]
      : []),
  ];
}

/** RequestError -32602 that names what is allowed. The choice is kept with the session, which is saved for it. */
export async function chooseOption(
  connection: AcpConnection,
  session: AcpSession,
  { configId, value }: { readonly configId: string; readonly value: unknown },
): Promise<void> {
  switch (configId) {
    case "mode":
      return chooseMode(connection, session, value, "value");
    case "model":
      return chooseModel(connection, session, value, "value");
    case "thought_level":
      return choose(connection, session, { reasoningEffort: readEffort(value) });
    case "yolo":
      if (!connection.offers.booleanOptions) break;
      if (typeof value !== "boolean") throw invalidParams("value", "value must be true or false.");
      return choose(connection, session, { yolo: value });
  }
  const known = ["mode", "model", "thought_level", ...(connection.offers.booleanOptions ? ["yolo"] : [])];
  throw invalidParams("configId", `configId must be one of: ${known.join(", ")}.`);
}

/**
 * RequestError -32602 that names the modes. A client that cannot show whether approvals are off switches them on again
 * by choosing a mode. `param` is how the request calls the mode.
 */
export async function chooseMode(
  connection: AcpConnection,
  session: AcpSession,
  wanted: unknown,
  param: string,
): Promise<void> {
  const { offers } = connection;
  const chosen = await chosenOf(await connection.deps(), session);
  const { currentModeId } = modeState(chosen, offers);
  if (wanted === NO_APPROVALS.id && currentModeId === NO_APPROVALS.id) return;
  const mode = readMode(wanted, param);
  return choose(connection, session, {
    mode,
    ...(chosen.yolo && !offers.booleanOptions ? { yolo: false } : {}),
  });
}

/** RequestError -32602 that names near models. `param` is how the request calls the model. */
export async function chooseModel(
  connection: AcpConnection,
  session: AcpSession,
  wanted: unknown,
  param: string,
): Promise<void> {
  const deps = await connection.deps();
  const { model: current } = await chosenOf(deps, session);
  return choose(connection, session, {
    model: readModel(deps.agent.deps.models, wanted, { current, param }),
  });
}

export async function choose(
  connection: AcpConnection,
  { id, seed }: AcpSession,
  choice: Parameters<AcpDeps["agent"]["sessions"]["choose"]>[2],
): Promise<void> {
  const { store, agent, owner } = await connection.deps();
  await saveSession(store, { id, owner, seed });
  await agent.sessions.choose(id, owner, choice);
}

function readEffort(wanted: unknown): string | null {
  if (wanted === DEFAULT_EFFORT) return null;
  const effort = EFFORTS.find((known) => known === wanted);
  if (effort === undefined) {
    throw invalidParams("value", `value must be one of: ${[DEFAULT_EFFORT, ...EFFORTS].join(", ")}.`);
  }
  return effort;
}
