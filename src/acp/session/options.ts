/**
 * The options of a session that a client can set: mode, model, reasoning effort and approvals. Also reports their changes,
 * and those of the title, outside turns.
 */
import {
  type SessionConfigOption,
  type SessionModeState,
  RequestError,
  type SessionMode as ShownMode,
  type SessionConfigSelectGroup,
  type SessionUpdate,
} from "@agentclientprotocol/sdk/unstable";
import { EFFORTS } from "../../agent/agent.ts";
import { saveSession } from "../../agent/session/sessions.ts";
import type { AcpConnection, AcpSession, ClientFeatures } from "../wire/connection.ts";
import { invalidParams } from "../wire/error.ts";
import type { AcpDeps } from "../deps.ts";
import {
  unchosenMode,
  type SessionMode,
  isMode,
  describeMode,
  MODES,
  settingsOf,
} from "../../agent/session/session.ts";
import { type ModelCatalog, isReady, formatModel } from "../../agent/model.ts";
import { nearest } from "../../base/suggest.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";

/** The options of a session in every response that opens one. `models` is for older clients. */
export interface OpenResponse {
  readonly modes: SessionModeState;
  readonly configOptions: SessionConfigOption[];
  readonly models?: LegacyModels;
}

/** Returns the options for the response that opens a session. */
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

/** Returns the complete list of options, which the protocol requires in every update. */
function configOptions(
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
      { name: "Mode", category: "mode", description: "What the agent may do without asking" },
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
      {
        name: "Reasoning effort",
        category: "thought_level",
        description: "How much the model reasons before it answers",
      },
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

/** Sets an option and saves the session with it. RequestError -32602 names the allowed values. */
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
 * Sets the mode. A client without a switch for approvals turns them on again by choosing a mode. RequestError -32602
 * names the modes; `param` is the name of the parameter in the request.
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

/** Sets the model. RequestError -32602 suggests similar models; `param` is the name of the parameter in the request. */
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

/** The settings in effect for a session. */
export interface SessionChoices {
  /** Without a choice, the mode that describes the configuration. */
  readonly mode: SessionMode;
  /** `provider:model`. The stored name if the model no longer exists. */
  readonly model: string;
  /** One of the agent's efforts, or `default`. */
  readonly effort: string;
  /** Approvals are off for the session, for all sessions, or by configuration. */
  readonly yolo: boolean;
  readonly isSandboxed?: boolean;
}

const DEFAULT_EFFORT = "default";

/** Reads the settings in effect. An unsaved session has those it was opened with. */
async function readChoices({ store, agent }: AcpDeps, { id, seed }: AcpSession): Promise<SessionChoices> {
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
  const model = ref ? formatModel(ref) : name;
  const { isSandboxed = false } = settings;
  return { mode, model, effort: reasoningEffort, yolo: isOff, isSandboxed };
}

/** RequestError -32603 if the session's model no longer exists: no other model may get the conversation unasked. */
export async function requireModel(deps: AcpDeps, session: AcpSession): Promise<void> {
  const { model } = await readChoices(deps, session);
  if (deps.agent.deps.models.resolve(model)) return;
  const data = { kind: "provider", reason: "model_not_found", retryable: false };
  throw new RequestError(
    INTERNAL,
    `The model of this session, ${model}, is no longer configured. Choose another one.`,
    data,
  );
}

const INTERNAL = -32_603;

/** Replaces the mode while approvals are off, for clients without a switch for approvals. */
const NO_APPROVALS = {
  id: "yolo",
  name: "No approvals",
  description: "Runs every tool without asking, except for actions that are never allowed",
} as const satisfies ShownMode;

type FeatureFlags = Pick<ClientFeatures, "booleanOptions">;

/** Returns the modes to show and the current one. Plan mode refuses changes even while approvals are off. */
function modeState(
  { mode, yolo, isSandboxed = false }: Pick<SessionChoices, "mode" | "yolo" | "isSandboxed">,
  features: FeatureFlags,
): SessionModeState {
  const available: ShownMode[] = MODES.map((id) => ({ id, ...describeMode(id, { isSandboxed }) }));
  if (!yolo || features.booleanOptions || mode === "plan") {
    return { currentModeId: mode, availableModes: available };
  }
  return { currentModeId: NO_APPROVALS.id, availableModes: [...available, NO_APPROVALS] };
}

/** Returns the mode, or throws RequestError -32602 that names the modes. */
function readMode(value: unknown, param: string): SessionMode {
  if (typeof value === "string" && isMode(value)) return value;
  throw invalidParams(param, `${param} must be one of: ${MODES.join(", ")}.`);
}

/** The models in the format of older clients. */
interface LegacyModels {
  readonly currentModelId: string;
  readonly availableModels: readonly { readonly modelId: string; readonly name: string }[];
}

/** Editors show all listed models at once. Other models can still be set by name. */
const MAX_MODELS = 200;
/** The number of models that an error compares for a suggestion. */
const MAX_COMPARED = 500;
/** The number of models that an error names. */
const MAX_NAMED = 20;

/** Returns the usable models by provider. `current` is always included, even if it no longer exists. */
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
 * Returns the full name of a usable model. RequestError -32602 suggests similar ones. `param` is the name of the parameter
 * in the request.
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
  // A provider without a list of models may have any model.
  if (name !== undefined && provider && (provider.models.length === 0 || provider.models.includes(name)))
    return name;
  throw invalidParams(param, `Unknown model ${JSON.stringify(value.slice(0, 256))}${hint(models, value)}`);
}

function hint(models: ModelCatalog, value: string): string {
  const known = usable(models).flatMap((provider) => provider.models);
  const near = nearest(value, known.slice(0, MAX_COMPARED));
  if (near !== undefined) return `. Did you mean ${JSON.stringify(near)}?`;
  const more = known.length > MAX_NAMED ? ", …" : "";
  return `. Available models: ${known.slice(0, MAX_NAMED).join(", ")}${more}.`;
}

const usable = (models: ModelCatalog) => models.list().filter(isReady);

/** The delay after a failure, doubled each time. */
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

/**
 * Follows the session until it is closed here or the client disconnects; resolves when it listens. Reports the client's
 * own changes too, so that every change is reported exactly once.
 */
export async function watchSession(connection: AcpConnection, session: AcpSession): Promise<void> {
  const { store } = await connection.deps();
  const row = await store.find("sessions", { id: session.id });
  void follow(connection, session, row?.last_seq ?? 0);
}

/** Follows the journal and resumes from its cursor after a failure of the store. */
async function follow(connection: AcpConnection, session: AcpSession, from: number): Promise<void> {
  const { store, clock, log } = await connection.deps();
  const { id } = session;
  const signal = AbortSignal.any([session.signal, connection.disconnected]);
  let after = from;
  for (let waitMs = FIRST_RETRY_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, MAX_RETRY_MS)) {
    try {
      for await (const events of store.journal.follow({ sessionId: id }, { after, signal })) {
        await notify(connection, session, events);
        after = events.at(-1)?.seq ?? after;
        waitMs = FIRST_RETRY_MS;
      }
      return;
    } catch (error) {
      if (signal.aborted) return;
      log.warn("cannot watch a session for changes, trying again", { session: id, error });
      await new Promise<void>((resolve) => clock.after(waitMs, resolve));
    }
  }
}

/** Reports changes that arrive together once, with their current values. */
async function notify(
  connection: AcpConnection,
  session: AcpSession,
  events: readonly JournalEvent[],
): Promise<void> {
  const changes = events.filter(({ type }) => type === "session.updated");
  if (changes.length === 0) return;
  const updates = [...titleUpdate(changes), ...(await choiceUpdates(connection, session, changes))];
  for (const update of updates) {
    if (session.signal.aborted) return;
    await connection.client.notify("session/update", { sessionId: session.id, update });
  }
}

function titleUpdate(changes: readonly JournalEvent[]): readonly SessionUpdate[] {
  const named = changes.findLast(({ data }) => data["title"] !== undefined);
  if (!named) return [];
  const updatedAt = new Date(named.atMs).toISOString();
  return [{ sessionUpdate: "session_info_update", title: String(named.data["title"]), updatedAt }];
}

const CHOICES = ["model", "reasoning_effort", "yolo", "mode"];

async function choiceUpdates(
  connection: AcpConnection,
  session: AcpSession,
  changes: readonly JournalEvent[],
): Promise<readonly SessionUpdate[]> {
  const has = (key: string) => changes.some(({ data }) => data[key] !== undefined);
  if (!CHOICES.some(has)) return [];
  const deps = await connection.deps();
  const choices = await readChoices(deps, session);
  const options: SessionUpdate = {
    sessionUpdate: "config_option_update",
    configOptions: configOptions(connection, deps, choices),
  };
  // Clients without a switch for approvals show them as the mode.
  const isMode = has("mode") || (has("yolo") && !connection.features.booleanOptions);
  return isMode ? [options, modeUpdate(connection, choices)] : [options];
}

function modeUpdate({ features }: AcpConnection, choices: SessionChoices): SessionUpdate {
  return { sessionUpdate: "current_mode_update", currentModeId: modeState(choices, features).currentModeId };
}

/** Whether approvals were off for all sessions when the client was last notified of it. */
const lastOff = new WeakMap<AcpConnection, boolean>();

/** Notifies the client when approvals were switched for all sessions, which no session records. */
export async function announceApprovals(connection: AcpConnection): Promise<void> {
  const deps = await connection.deps();
  const isOff = deps.agent.deps.switches.yolo;
  if ((lastOff.get(connection) ?? false) === isOff) return;
  lastOff.set(connection, isOff);
  for (const session of connection.sessions) {
    const choices = await readChoices(deps, session);
    const options = configOptions(connection, deps, choices);
    const updates: readonly SessionUpdate[] = [
      { sessionUpdate: "config_option_update", configOptions: options },
      modeUpdate(connection, choices),
    ];
    for (const update of updates) {
      if (session.signal.aborted) break;
      await connection.client.notify("session/update", { sessionId: session.id, update }).catch(() => {});
    }
  }
}
