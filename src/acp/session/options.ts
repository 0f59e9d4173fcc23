/** What a client can choose in a session: its mode, its model, how much it thinks. */
import {
  type SessionConfigOption,
  type SessionModeState,
  RequestError,
  type SessionMode as ShownMode,
  type SessionConfigSelectGroup,
} from "@agentclientprotocol/sdk/unstable";
import { EFFORTS } from "../../agent/agent.ts";
import { saveSession } from "../../agent/session/save.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { invalidParams } from "../wire/error.ts";
import type { AcpDeps } from "../deps.ts";
import type { AcpSession } from "./session.ts";
import { unchosenMode, type SessionMode, isMode, MODE_TEXTS, MODES } from "../../agent/session/mode.ts";
import { formatModel, isReady, type ModelCatalog } from "../../agent/model.ts";
import { settingsOf } from "../../agent/session/session.ts";
import type { ClientFeatures } from "../wire/client.ts";
import { nearest } from "../../base/nearest.ts";

/** What a client can choose in a session, as every answer that opens one says. `models`: for clients without options. */
export interface OpenResponse {
  readonly modes: SessionModeState;
  readonly configOptions: SessionConfigOption[];
  readonly models?: LegacyModels;
}

/** Of the answer that opens a session. */
export async function sessionOptions(connection: AcpConnection, session: AcpSession): Promise<OpenResponse> {
  const deps = await connection.deps();
  const choices = await readChoices(deps, session);
  const { models } = deps.agent.deps;
  return {
    modes: modeState(choices, connection.features),
    configOptions: configOptions(connection, deps, choices),
    ...(deps.settings.legacyModels ? { models: legacyModels(models, choices.model) } : {}),
  };
}

/** The whole list, as the protocol wants it each time. */
export function configOptions(
  { features }: AcpConnection,
  { agent }: AcpDeps,
  choices: SessionChoices,
): SessionConfigOption[] {
  const { model, effort, yolo } = choices;
  const { models, settings } = agent.deps;
  const { currentModeId, availableModes } = modeState(choices, features);
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
    ...(features.booleanOptions
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
export async function setOption(
  connection: AcpConnection,
  session: AcpSession,
  { configId, value }: { readonly configId: string; readonly value: unknown },
): Promise<void> {
  switch (configId) {
    case "mode":
      return setMode(connection, session, value, "value");
    case "model":
      return setSessionModel(connection, session, value, "value");
    case "thought_level":
      return choose(connection, session, { reasoningEffort: readEffort(value) });
    case "yolo":
      if (!connection.features.booleanOptions) break;
      if (typeof value !== "boolean") throw invalidParams("value", "value must be true or false.");
      return choose(connection, session, { yolo: value });
  }
  const known = ["mode", "model", "thought_level", ...(connection.features.booleanOptions ? ["yolo"] : [])];
  throw invalidParams("configId", `configId must be one of: ${known.join(", ")}.`);
}

/**
 * RequestError -32602 that names the modes. A client that cannot show whether approvals are off switches them on again
 * by choosing a mode. `param` is how the request calls the mode.
 */
export async function setMode(
  connection: AcpConnection,
  session: AcpSession,
  value: unknown,
  param: string,
): Promise<void> {
  const { features } = connection;
  const choices = await readChoices(await connection.deps(), session);
  const { currentModeId } = modeState(choices, features);
  if (value === NO_APPROVALS.id && currentModeId === NO_APPROVALS.id) return;
  const mode = readMode(value, param);
  return choose(connection, session, {
    mode,
    ...(choices.yolo && !features.booleanOptions ? { yolo: false } : {}),
  });
}

/** RequestError -32602 that names near models. `param` is how the request calls the model. */
export async function setSessionModel(
  connection: AcpConnection,
  session: AcpSession,
  value: unknown,
  param: string,
): Promise<void> {
  const deps = await connection.deps();
  const { model: current } = await readChoices(deps, session);
  return choose(connection, session, {
    model: readModel(deps.agent.deps.models, value, { current, param }),
  });
}

async function choose(
  connection: AcpConnection,
  { id, seed }: AcpSession,
  choice: Parameters<AcpDeps["agent"]["sessions"]["choose"]>[2],
): Promise<void> {
  const { store, agent, owner } = await connection.deps();
  await saveSession(store, { id, owner, seed });
  await agent.sessions.choose(id, owner, choice);
}

function readEffort(value: unknown): string | null {
  if (value === DEFAULT_EFFORT) return null;
  const effort = EFFORTS.find((known) => known === value);
  if (effort === undefined) {
    throw invalidParams("value", `value must be one of: ${[DEFAULT_EFFORT, ...EFFORTS].join(", ")}.`);
  }
  return effort;
}

/** What applies to a session now. */
export interface SessionChoices {
  /** Where nobody chose one, the mode that describes what is configured. */
  readonly mode: SessionMode;
  /** `provider:model`; as it is stored when there is no such model any more. */
  readonly model: string;
  /** One of the agent's efforts, or `default`. */
  readonly effort: string;
  /** Approvals are off: for the session, for all sessions, or by the configuration. */
  readonly yolo: boolean;
}

const DEFAULT_EFFORT = "default";

/** A session without a row has what it was opened with. */
export async function readChoices(
  { store, agent }: AcpDeps,
  { id, seed }: AcpSession,
): Promise<SessionChoices> {
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
  const { model } = await readChoices(deps, session);
  if (deps.agent.deps.models.resolve(model)) return;
  const data = { kind: "provider", reason: "model_not_found", retryable: false };
  throw new RequestError(
    INTERNAL,
    `The model of this session, ${model}, is not configured any more. Choose another one.`,
    data,
  );
}

const INTERNAL = -32_603;

/** Shown in the place of the mode while approvals are off, to clients that have no switch to show it with. */
const NO_APPROVALS = {
  id: "yolo",
  name: "No approvals",
  description: "Does everything without asking; what is never allowed is still refused",
} as const satisfies ShownMode;

type FeatureFlags = Pick<ClientFeatures, "booleanOptions">;

/** Returns the modes to show and the current one. Plan mode refuses changes even while approvals are off. */
export function modeState(
  { mode, yolo }: Pick<SessionChoices, "mode" | "yolo">,
  features: FeatureFlags,
): SessionModeState {
  const available: ShownMode[] = MODES.map((id) => ({ id, ...MODE_TEXTS[id] }));
  if (!yolo || features.booleanOptions || mode === "plan") {
    return { currentModeId: mode, availableModes: available };
  }
  return { currentModeId: NO_APPROVALS.id, availableModes: [...available, NO_APPROVALS] };
}

/** RequestError -32602 that names the modes. `param` is how the request calls it. */
function readMode(value: unknown, param: string): SessionMode {
  if (typeof value === "string" && isMode(value)) return value;
  throw invalidParams(param, `${param} must be one of: ${MODES.join(", ")}.`);
}

/** What clients that know no options read of the models. */
interface LegacyModels {
  readonly currentModelId: string;
  readonly availableModels: readonly { readonly modelId: string; readonly name: string }[];
}

/** Pickers of editors show them all at once; a model beyond can still be named. */
const MAX_MODELS = 200;
/** An error looks for a near one among so many. */
const MAX_COMPARED = 500;
/** So many names an error lists. */
const MAX_NAMED = 20;

/** Models that can be asked, by provider; `current` is always among them, whether there is such a model or not. */
export function modelGroups(models: ModelCatalog, current: string): SessionConfigSelectGroup[] {
  const known = usable(models).flatMap((provider) =>
    provider.models.map((model) => ({ provider: provider.name, model })),
  );
  const shown = known.slice(0, MAX_MODELS);
  const own = { provider: current.split(":")[0] ?? current, model: current };
  if (!shown.some(({ model }) => model === current))
    shown.splice(Math.min(shown.length, MAX_MODELS - 1), 1, own);
  return [...Map.groupBy(shown, ({ provider }) => provider)].map(([provider, of]) => ({
    group: provider,
    name: provider,
    options: of.map(({ model }) => ({ value: model, name: model.slice(provider.length + 1) || model })),
  }));
}

export function legacyModels(models: ModelCatalog, current: string): LegacyModels {
  const availableModels = modelGroups(models, current).flatMap(({ options }) =>
    options.map(({ value }) => ({ modelId: value, name: value })),
  );
  return { currentModelId: current, availableModels };
}

/**
 * The full name of a model that may be chosen. RequestError -32602 that names near ones when no provider has it, or its
 * provider cannot be asked. `param` is how the request calls it.
 */
export function readModel(
  models: ModelCatalog,
  value: unknown,
  { current, param }: { readonly current: string; readonly param: string },
): string {
  if (typeof value !== "string") throw invalidParams(param, `${param} must be the name of a model.`);
  if (value === current) return current;
  const ref = models.resolve(value);
  const provider = usable(models).find(({ name }) => name === ref?.provider);
  const name = ref && formatModel(ref);
  // A provider that nobody said the models of may have any.
  if (name !== undefined && provider && (provider.models.length === 0 || provider.models.includes(name)))
    return name;
  throw invalidParams(
    param,
    `There is no model ${JSON.stringify(value.slice(0, 256))}${hint(models, value)}`,
  );
}

function hint(models: ModelCatalog, value: string): string {
  const known = usable(models).flatMap((provider) => provider.models);
  const near = nearest(value, known.slice(0, MAX_COMPARED));
  if (near !== undefined) return `. Did you mean ${JSON.stringify(near)}?`;
  const more = known.length > MAX_NAMED ? ", …" : "";
  return `. There are: ${known.slice(0, MAX_NAMED).join(", ")}${more}.`;
}

const usable = (models: ModelCatalog) => models.list().filter(isReady);
