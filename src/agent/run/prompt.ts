import type { ModelRef, ModelSettings, ToolSpec } from "../engine.ts";
import type { BusyMode, AgentDeps } from "../deps.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import { type RunInput, type RunKind, newRun } from "./run.ts";
import {
  type SessionAddress,
  type SessionSeed,
  claimSession,
  newSession,
  PLAN_INSTRUCTIONS,
  type SessionMode,
  settingsOf,
  type SessionSettings,
} from "../session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import type { SessionQueue, Started } from "./session-queue.ts";
import { formatModel, parseModel } from "../model.ts";
import { requestStopIn } from "./control.ts";
import type { PermitOnDemand } from "./concurrency.ts";
import type { PolicyContext } from "../question/policy/policy.ts";
import type { SessionResources } from "../session/live-sessions.ts";
import type { Tool } from "../tool/tool.ts";

/** A prompt of a surface or trigger to the agent. */
export interface Prompt {
  readonly address: SessionAddress;
  readonly seed: SessionSeed;
  readonly kind: RunKind;
  /**
   * The input of the run. `opening` is the conversation before the prompt, for a new session; an existing session has its
   * own.
   */
  readonly input: RunInput & { readonly opening?: RunInput["prompt"] };
  /** Undefined: the session's own model, else the default. */
  readonly model?: ModelRef;
  /** Id of the new run, if the caller has announced it; default: a new one. */
  readonly runId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly whenBusy?: BusyMode;
  /** Webhook of the run, as run-webhook.ts records it. */
  readonly webhook?: string;
  /** Where its answer goes, as run-trigger.ts records it. */
  readonly delivery?: string;
  /**
   * Writes further records in the transaction that records the run. When it throws no run is created. Like all store work
   * it may be called twice. The run is `running` when it starts at once in a new session.
   */
  readonly alsoRecord?: (tx: Tx, run: RunRow) => Promise<void>;
  /**
   * Writes further records when the text is steered into the run `runId` instead, in the same transaction. Without it a
   * prompt with {@link alsoRecord} is not steered.
   */
  readonly alsoSteer?: (tx: Tx, runId: string) => Promise<void>;
  /**
   * Refuses the run by throwing, in the same transaction, after {@link alsoRecord}. Called for a run that starts or waits
   * for a permit. Not called for a run queued behind another of its session, which replaces that one when it starts, nor
   * for steering.
   */
  readonly admit?: (tx: Tx) => Promise<void>;
  /** Called with the id of a new run before it is committed, so that the caller can follow it from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  /** steered: the text was added to the running run `runId`. */
  readonly status: "running" | "queued" | "steered";
  /** Milliseconds since the epoch; for a steered text, when it was accepted. */
  readonly createdAtMs: number;
  /** Position of a queued run: 1 is the next. */
  readonly queuePosition?: number;
}

/** Returns the text that can steer a running turn; undefined when the prompt has more than text, or needs its own run. */
export function steerableText({ input: { prompt }, alsoRecord, alsoSteer }: Prompt): string | undefined {
  if (alsoRecord && !alsoSteer) return undefined;
  if (prompt.some((message) => message.role === "user" && message.attachments?.length)) return undefined;
  const texts = prompt.map((message) => (message.role === "user" ? message.text : ""));
  return texts.filter((part) => part !== "").join("\n\n") || undefined;
}

export interface RecordWork {
  readonly deps: AgentDeps;
  readonly queue: SessionQueue;
}

export interface RecordRequest {
  readonly prompt: Prompt;
  /** Taken when the run starts or must wait for a permit. */
  readonly permit: PermitOnDemand;
  /** True: nothing is written while a run of the session may accept the text as steering. */
  readonly steersFirst: boolean;
}

/** A recorded prompt, which survives a crash. */
export interface Recorded extends Started {
  readonly isNew: boolean;
  /** True: this process holds the session's lease. */
  readonly isLeased: boolean;
  /** Position in the session's queue, 1 for the next; 0: the run starts now. */
  readonly position: number;
  /** The run that is stopped in favour of this one. */
  readonly interrupted?: string | undefined;
}

/** Reason of the stop when a newer prompt interrupts a run. */
export const INTERRUPTED = "A newer prompt took over.";

/**
 * Records a prompt with its run, a new session if needed, and the further records of the prompt, in one transaction.
 * Undefined: see {@link RecordRequest.steersFirst}. ServiceError `session_busy` when prompts to a busy session are refused,
 * `queue_full`, and `too_many_concurrent_runs` for a run that would start.
 */
export async function recordPrompt(
  work: RecordWork,
  { prompt, permit, steersFirst }: RecordRequest,
): Promise<Recorded | undefined> {
  const { store, clock } = work.deps;
  const runId = prompt.runId ?? createId("run", clock.now());
  const made = newSession(prompt.address, prompt.seed, clock.now());
  let isAnnounced = false;
  return store.write(async (tx) => {
    const existing = await claimSession(tx, prompt.address);
    // Once `beforeStart` has announced the run it must be recorded.
    if (steersFirst && !isAnnounced && existing && existing.lease_owner !== null) return undefined;
    if (!isAnnounced) prompt.beforeStart?.(runId);
    isAnnounced = true;
    const session = existing ?? made;
    const input = inputOf(prompt, !existing);
    const { kind, metadata = {}, webhook, delivery } = prompt;
    const model = modelFor(prompt, session, work.deps);
    const about = { kind, model, input, metadata, webhook, delivery };
    const run = newRun(runId, session, { ...about, nowMs: tx.nowMs });
    const asked = { prompt, permit, starts: { run, session, input } };
    return existing ? join(tx, work, asked) : open(tx, work, asked);
  });
}

interface Asked {
  readonly prompt: Prompt;
  readonly permit: PermitOnDemand;
  readonly starts: Started;
}

/** Records the run in a new session. */
async function open(tx: Tx, { queue }: RecordWork, { prompt, permit, starts }: Asked): Promise<Recorded> {
  const { waits } = permit.take();
  const { run } = starts;
  await prompt.alsoRecord?.(tx, waits ? run : running(run));
  await prompt.admit?.(tx);
  await (waits ? queue.openQueued(tx, starts) : queue.open(tx, starts));
  return { ...starts, isNew: true, isLeased: true, position: waits ? 1 : 0 };
}

/** Records the run in an existing session, where it starts at once or is queued. */
async function join(tx: Tx, work: RecordWork, { prompt, permit, starts }: Asked): Promise<Recorded> {
  const { queue, deps } = work;
  const { run, session, input } = starts;
  const recorded = { ...starts, isNew: false };
  const limit = deps.settings.maxQueuePerSession;
  await prompt.alsoRecord?.(tx, run);
  await queue.keep(tx, session);
  if (!(await queue.lease(tx, session.id)))
    return { ...recorded, ...(await waitInQueue(tx, work, prompt, run)) };
  const { waits } = permit.take();
  await prompt.admit?.(tx);
  if (waits) return { ...recorded, isLeased: true, position: await queue.enqueue(tx, run, { limit }) };
  await queue.begin(tx, run, input);
  return { ...recorded, isLeased: true, position: 0 };
}

/** Queues the run behind the running one, or interrupts that one and puts it next. */
async function waitInQueue(
  tx: Tx,
  { deps, queue }: RecordWork,
  prompt: Prompt,
  run: RunRow,
): Promise<Pick<Recorded, "isLeased" | "position" | "interrupted">> {
  const { settings, store } = deps;
  const mode = busyModeOf(prompt, deps);
  if (mode === "reject") throw busy();
  const isNext = mode === "interrupt";
  const position = await queue.enqueue(tx, run, { limit: settings.maxQueuePerSession, isNext });
  const interrupted = isNext ? await requestStopIn(tx, store, run.session_id, INTERRUPTED) : undefined;
  return { isLeased: false, position, interrupted };
}

export function busyModeOf({ whenBusy }: Prompt, { settings }: AgentDeps): BusyMode {
  return whenBusy ?? settings.whenBusy;
}

function busy(): ServiceError {
  return new ServiceError("session_busy", "The session is at work. Wait for its run to end.", {
    retryAfterSeconds: 1,
  });
}

const running = (run: RunRow): RunRow => ({ ...run, status: "running" });

function modelFor(prompt: Prompt, session: SessionRow, { models }: AgentDeps): string {
  const own = session.model === null ? undefined : models.resolve(session.model);
  return formatModel(prompt.model ?? own ?? models.default);
}

function inputOf({ input: { opening = [], ...input } }: Prompt, isNew: boolean): RunInput {
  return isNew ? { ...input, prompt: [...opening, ...input.prompt] } : input;
}

/** The settings of a turn. The request overrides the session, which overrides the configuration. */
export interface TurnSetup {
  readonly cwd: string;
  readonly model: ModelRef;
  readonly fallbacks: readonly ModelRef[];
  readonly instructions: string;
  readonly tools: readonly Tool[];
  readonly clientTools: readonly ToolSpec[];
  readonly settings: ModelSettings;
  readonly maxSteps: number;
  readonly policy: PolicyContext;
  /** Undefined: conversations are not compressed by themselves. */
  readonly compactAtTokens: number | undefined;
}

/** Returns the settings of the turn of a run. */
export async function setUpTurn(
  deps: AgentDeps,
  {
    kind,
    model: name,
    session,
    input,
    resources,
  }: {
    readonly kind: RunKind;
    /** `provider:model`. */
    readonly model: string;
    readonly session: SessionRow;
    readonly input: RunInput;
    /** Of the program that has the session open. */
    readonly resources: SessionResources;
  },
): Promise<TurnSetup> {
  const { settings, models } = deps;
  await deps.toolsSettled();
  const chosen = settingsOf(session);
  const cwd = session.cwd ?? settings.workspace;
  const model = parseModel(name);
  const { threshold } = settings.compression;
  return {
    cwd,
    model,
    fallbacks: settings.fallbacks.flatMap((fallback) => models.resolve(fallback) ?? []),
    instructions: await instructionsFor(deps, {
      cwd,
      roots: resources.roots,
      mode: chosen.mode,
      requested: input.instructions,
    }),
    tools: toolsFor(deps, { kind, input, resources }),
    clientTools: input.clientTools ?? [],
    settings: { ...effortOf(chosen, settings.reasoningEffort), ...input.settings },
    maxSteps: input.maxSteps ?? settings.maxSteps,
    policy: {
      ...approvalsOf(deps, chosen),
      workspace: cwd,
      home: settings.userHome,
      agentHome: settings.agentHome,
      allow: settings.allowedCommands,
      roots: resources.roots,
    },
    compactAtTokens:
      threshold === undefined ? undefined : Math.floor(models.contextTokensOf(model) * threshold),
  };
}

/**
 * Returns `policy` with the current settings: people change the mode, switch approvals off and on, and open further
 * folders while a turn runs. The settings are those of the session `sessionId`; a background prompt uses those of the
 * session that started it.
 */
export async function policyNow(
  deps: AgentDeps,
  policy: PolicyContext,
  sessionId: string,
): Promise<PolicyContext> {
  const { sessionMode: _, ...paths } = policy;
  const chosen = await choicesFor(deps.store, sessionId);
  return { ...paths, ...approvalsOf(deps, chosen), roots: deps.clients.of(sessionId).roots };
}

async function choicesFor(store: AgentDeps["store"], sessionId: string): Promise<SessionSettings> {
  const row = await store.find("sessions", { id: sessionId });
  if (!row) return {};
  const { source, parent_id: parentId } = row;
  const parent =
    source === "background" && parentId ? await store.find("sessions", { id: parentId }) : undefined;
  return settingsOf(parent ?? row);
}

function approvalsOf(
  { settings, switches }: AgentDeps,
  { yolo, mode }: SessionSettings,
): Pick<PolicyContext, "mode" | "sessionMode"> {
  return {
    mode: yolo === true || switches.yolo ? "yolo" : settings.policyMode,
    ...(mode === undefined ? {} : { sessionMode: mode }),
  };
}

function effortOf(chosen: SessionSettings, configured: string | undefined): ModelSettings {
  const reasoningEffort = chosen.reasoningEffort ?? configured;
  return reasoningEffort === undefined ? {} : { reasoningEffort };
}

/** Returns the tools of a run. Sub-agents ask no questions, and at the greatest depth they start no sub-agents. */
function toolsFor(
  { tools, settings }: AgentDeps,
  {
    kind,
    input,
    resources,
  }: { readonly kind: RunKind; readonly input: RunInput; readonly resources: SessionResources },
): readonly Tool[] {
  const { toolsets, family, clientTools = [] } = input;
  const isDeepest = (family?.depth ?? 0) >= settings.delegation.maxDepth;
  const isTheirs = (name: string) => clientTools.some((tool) => tool.name === name);
  return resources.tools(tools()).filter(({ toolset, name }) => {
    if (isTheirs(name)) return false;
    if (toolsets !== undefined && !toolsets.includes(toolset)) return false;
    if (toolset === "clarify") return kind !== "subagent" && input.answerable && !input.onlyApprovals;
    return toolset !== "delegation" || !isDeepest;
  });
}

async function instructionsFor(
  { settings, briefing }: AgentDeps,
  of: {
    readonly cwd: string;
    readonly roots: readonly string[];
    readonly mode: SessionMode | undefined;
    readonly requested: string | undefined;
  },
): Promise<string> {
  const { roots } = of;
  const beside = roots.length === 0 ? "" : ` These folders belong to the work too: ${roots.join(", ")}.`;
  const folders = `Your tools work in ${of.cwd}.${beside}`;
  const mode = of.mode === "plan" ? PLAN_INSTRUCTIONS : undefined;
  return [settings.instructions, folders, mode, ...(await briefing(of.cwd)), of.requested]
    .filter((text) => text !== undefined && text !== "")
    .join("\n\n");
}
