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
import { formatModel } from "../model.ts";
import { requestStopIn } from "./control.ts";
import type { PermitOnDemand } from "./concurrency.ts";
import type { PolicyContext } from "../question/policy/policy.ts";
import type { SessionResources } from "../session/live-sessions.ts";
import type { Tool } from "../tool/tool.ts";

/** What a surface or trigger asks of the agent. */
export interface Prompt {
  readonly address: SessionAddress;
  readonly seed: SessionSeed;
  readonly kind: RunKind;
  /**
   * What the run is asked. `opening` is the conversation before the prompt, for a session that does not exist yet;
   * a session that exists has its own.
   */
  readonly input: RunInput & { readonly opening?: RunInput["prompt"] };
  /** Undefined: the session's own model, else the default. */
  readonly model?: ModelRef;
  /** Of the new run, where it was told of before; else it gets one. */
  readonly runId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly whenBusy?: BusyMode;
  /** Who is told of the run, as run-webhook.ts records it. */
  readonly webhook?: string;
  /** Where its answer goes, as run-delivery.ts records it. */
  readonly delivery?: string;
  /**
   * Writes what belongs to the run in the transaction that records it. When it throws there is no run. As any store
   * work it may be called twice. The run is `running` when it starts at once in a session that is new.
   */
  readonly alsoRecord?: (tx: Tx, run: RunRow) => Promise<void>;
  /**
   * Writes what belongs to the text where it is steered into the run `runId` instead, in the transaction that gives it to
   * that run. Without it a prompt with {@link alsoRecord} is not steered.
   */
  readonly alsoSteer?: (tx: Tx, runId: string) => Promise<void>;
  /**
   * Refuses the run by throwing, in the same transaction, behind {@link alsoRecord}. Asked of a run that starts, or that
   * waits only for room and then starts by itself. Not of one that is queued behind its session's: when it starts, that
   * one has ended, so no more are at work than before; and not of steering.
   */
  readonly admit?: (tx: Tx) => Promise<void>;
  /** Called with the id of a new run before anything of it is committed: follow it from its first event. */
  readonly beforeStart?: (runId: string) => void;
}

export interface Submitted {
  readonly runId: string;
  readonly sessionId: string;
  readonly sessionKey: string | null;
  /** Effective `provider:model`. */
  readonly model: string;
  /** steered: the text went into the run that is at work, `runId`. */
  readonly status: "running" | "queued" | "steered";
  /** Milliseconds since the epoch; of a steered text, when it was taken. */
  readonly createdAtMs: number;
  /** Of a queued run: 1 is the next. */
  readonly queuePosition?: number;
}

/** What of a prompt a turn at work can take; undefined when it is more than text, or recorded with a run of its own. */
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
  /** Asked for when the run starts, or is to wait for room. */
  readonly permit: PermitOnDemand;
  /** True: nothing is written when a turn is at work in the session, which may take the text. */
  readonly steersFirst: boolean;
}

/** A prompt that will not be lost. */
export interface Recorded extends Started {
  readonly isNew: boolean;
  /** The session's lease is this process's. */
  readonly isLeased: boolean;
  /** In the session's queue, 1 for the next; 0: the run begins now. */
  readonly position: number;
  /** The run that was asked to stop in favour of this one. */
  readonly interrupted?: string | undefined;
}

/** Why a run stops that a newer prompt interrupts. */
export const INTERRUPTED = "A newer prompt took over.";

/**
 * Writes a prompt with its run, and its session if there is none yet, in one transaction, with all that the prompt brings
 * to be recorded with it. Undefined: see {@link RecordRequest.steersFirst}. ServiceError `session_busy` where prompts to a
 * busy session are refused, `queue_full`, and `too_many_concurrent_runs` for a run that would start.
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
    // Whoever was told of the run waits for it: from then on there is one.
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

/** In a session that is new. */
async function open(tx: Tx, { queue }: RecordWork, { prompt, permit, starts }: Asked): Promise<Recorded> {
  const { waits } = permit.take();
  const { run } = starts;
  await prompt.alsoRecord?.(tx, waits ? run : running(run));
  await prompt.admit?.(tx);
  await (waits ? queue.openQueued(tx, starts) : queue.open(tx, starts));
  return { ...starts, isNew: true, isLeased: true, position: waits ? 1 : 0 };
}

/** In a session that there is: at once, or in its queue. */
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

/** Behind the run at work, or next in its place. */
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

/** What a turn is made of, worked out from the configuration, the session and the request, in this order of weight. */
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

export async function setUpTurn(
  deps: AgentDeps,
  {
    kind,
    model: name,
    session,
    input,
    lent,
  }: {
    readonly kind: RunKind;
    /** `provider:model`. */
    readonly model: string;
    readonly session: SessionRow;
    readonly input: RunInput;
    /** By the program that has the session open. */
    readonly lent: SessionResources;
  },
): Promise<TurnSetup> {
  const { settings, models } = deps;
  await deps.toolsSettled();
  const chosen = settingsOf(session);
  const cwd = session.cwd ?? settings.workspace;
  const model = refOf(name);
  const { threshold } = settings.compression;
  return {
    cwd,
    model,
    fallbacks: settings.fallbacks.flatMap((fallback) => models.resolve(fallback) ?? []),
    instructions: await instructionsFor(deps, { cwd, lent, mode: chosen.mode, asked: input.instructions }),
    tools: toolsFor(deps, { kind, input, lent }),
    clientTools: input.clientTools ?? [],
    settings: { ...effortOf(chosen, settings.reasoningEffort), ...input.settings },
    maxSteps: input.maxSteps ?? settings.maxSteps,
    policy: {
      ...approvalsOf(deps, chosen),
      workspace: cwd,
      home: settings.userHome,
      agentHome: settings.agentHome,
      allow: settings.allowedCommands,
      roots: lent.roots,
    },
    compactAtTokens:
      threshold === undefined ? undefined : Math.floor(models.contextTokensOf(model) * threshold),
  };
}

/**
 * Returns `policy` with what holds now: people change the mode, switch approvals off and on, and open further folders
 * while a turn runs. All of it is that of the session, for sub-agents the one at the top of their family; a background
 * prompt goes by the session that started it.
 */
export async function policyNow(
  deps: AgentDeps,
  policy: PolicyContext,
  sessionId: string,
): Promise<PolicyContext> {
  const { sessionMode: _, ...places } = policy;
  const chosen = await choicesFor(deps.store, sessionId);
  return { ...places, ...approvalsOf(deps, chosen), roots: deps.clients.of(sessionId).roots };
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

/** The parts of a stored `provider:model`. */
export function refOf(name: string): ModelRef {
  const [provider = "", ...id] = name.split(":");
  return { provider, id: id.join(":") };
}

function effortOf(chosen: SessionSettings, configured: string | undefined): ModelSettings {
  const reasoningEffort = chosen.reasoningEffort ?? configured;
  return reasoningEffort === undefined ? {} : { reasoningEffort };
}

/** Sub-agents talk to nobody, and at the greatest depth start no others. */
function toolsFor(
  { tools, settings }: AgentDeps,
  {
    kind,
    input,
    lent,
  }: { readonly kind: RunKind; readonly input: RunInput; readonly lent: SessionResources },
): readonly Tool[] {
  const { toolsets, family, clientTools = [] } = input;
  const isDeepest = (family?.depth ?? 0) >= settings.delegation.maxDepth;
  const isTheirs = (name: string) => clientTools.some((tool) => tool.name === name);
  return lent.tools(tools()).filter(({ toolset, name }) => {
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
    readonly lent: SessionResources;
    readonly mode: SessionMode | undefined;
    readonly asked: string | undefined;
  },
): Promise<string> {
  const { roots } = of.lent;
  const beside = roots.length === 0 ? "" : ` These folders belong to the work too: ${roots.join(", ")}.`;
  const place = `Your tools work in ${of.cwd}.${beside}`;
  const mode = of.mode === "plan" ? PLAN_INSTRUCTIONS : undefined;
  return [settings.instructions, place, mode, ...(await briefing(of.cwd)), of.asked]
    .filter((text) => text !== undefined && text !== "")
    .join("\n\n");
}
