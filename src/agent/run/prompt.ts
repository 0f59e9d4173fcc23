import { type ModelRef, formatModel, parseModel } from "../model.ts";
import type { ModelSettings, ToolSpec } from "../engine.ts";
import type { Tool } from "../tool/tool.ts";
import type { AgentDeps } from "../deps.ts";
import { type BusyMode, type RunInput, type RunKind, newRun, type Prompt } from "./run.ts";
import type { Tx } from "../../store/store.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import {
  claimSession,
  newSession,
  PLAN_INSTRUCTIONS,
  type SessionMode,
  settingsOf,
  type SessionSettings,
  type SessionResources,
} from "../session/session.ts";
import { ServiceError } from "../../base/errors.ts";
import { abortable } from "../../base/time.ts";
import { PRESENT_PLAN } from "../tools/present-plan.ts";
import { createId } from "../../base/text.ts";
import type { SessionQueue, Started, PermitOnDemand } from "./session-queue.ts";
import { requestStopIn } from "./control.ts";
import type { PolicyContext } from "../question/policy/policy.ts";

/** Returns the text that can steer a running turn; undefined when the prompt has more than text, or needs its own run. */
export function steerableText({ input, alsoRecord, alsoSteer }: Prompt): string | undefined {
  const { prompt, outputFormat } = input;
  if ((alsoRecord && !alsoSteer) || outputFormat) return undefined;
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
  const record = async (tx: Tx) => {
    const existing = await claimSession(tx, prompt.address);
    // Once `beforeStart` has announced the run it must be recorded.
    if (steersFirst && !isAnnounced && existing && existing.lease_owner !== null) return undefined;
    if (!isAnnounced) prompt.beforeStart?.(runId);
    isAnnounced = true;
    const session = existing ?? made;
    const input = inputOf(prompt, !existing);
    const { kind, metadata = {}, webhook, delivery, apiKey } = prompt;
    const model = modelFor(prompt, session, work.deps);
    const about = { kind, model, input, metadata, webhook, delivery, apiKey };
    const run = newRun(runId, session, { ...about, nowMs: tx.nowMs });
    const asked = { prompt, permit, starts: { run, session, input } };
    return existing ? join(tx, work, asked) : open(tx, work, asked);
  };
  return store.write(record, { session: opensApart(prompt) ? made.id : undefined });
}

/** Whether recording the prompt decides by no stored row. */
function opensApart({ address: { id, name, key }, admit, alsoRecord }: Prompt): boolean {
  return (id ?? name ?? key) === undefined && !admit && !alsoRecord;
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
  const request = { reason: INTERRUPTED, by: run.key ?? undefined };
  const interrupted = isNext ? await requestStopIn(tx, store, run.session_id, request) : undefined;
  return { isLeased: false, position, interrupted };
}

export function busyModeOf({ whenBusy }: Prompt, { settings }: AgentDeps): BusyMode {
  return whenBusy ?? settings.whenBusy;
}

function busy(): ServiceError {
  return new ServiceError("session_busy", "The session is busy. Wait for its run to end.", {
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
  /** What people should know about the turn. */
  readonly notice: string | undefined;
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
    signal,
  }: {
    readonly kind: RunKind;
    /** `provider:model`. */
    readonly model: string;
    readonly session: SessionRow;
    readonly input: RunInput;
    /** Of the program that has the session open. */
    readonly resources: SessionResources;
    readonly signal: AbortSignal;
  },
): Promise<TurnSetup> {
  const { settings, models } = deps;
  await deps.toolsSettled();
  const chosen = settingsOf(session);
  const cwd = session.cwd ?? settings.workspace;
  const model = parseModel(name);
  const { threshold } = settings.compression;
  const asked = models.refreshContext(model, { loads: true, signal });
  if (asked) await abortable(asked, signal);
  const contextTokens = models.contextTokensOf(model);
  const clientTools = input.clientTools ?? [];
  const offered = toolsFor(deps, { kind, input, resources, mode: chosen.mode });
  const fitted = fitTools(offered, { contextTokens, clientTools });
  const instructions = await instructionsFor(deps, {
    cwd,
    roots: resources.roots,
    mode: chosen.mode,
    input,
  });
  return {
    cwd,
    model,
    fallbacks: settings.fallbacks.flatMap((fallback) => models.resolve(fallback) ?? []),
    instructions: [instructions, omittedInstructions(fitted)].filter((text) => text !== "").join("\n\n"),
    tools: fitted.tools,
    clientTools,
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
    compactAtTokens: threshold === undefined ? undefined : Math.floor(contextTokens * threshold),
    notice: omittedNotice(fitted, { model: name, contextTokens }),
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
    mode,
  }: {
    readonly kind: RunKind;
    readonly input: RunInput;
    readonly resources: SessionResources;
    readonly mode: SessionMode | undefined;
  },
): readonly Tool[] {
  const { toolsets, family, clientTools = [] } = input;
  const isDeepest = (family?.depth ?? 0) >= settings.delegation.maxDepth;
  const isTheirs = (name: string) => clientTools.some((tool) => tool.name === name);
  return resources.tools(tools()).filter(({ toolset, name }) => {
    if (isTheirs(name)) return false;
    if (toolsets !== undefined && !toolsets.includes(toolset)) return false;
    const canAsk = kind !== "subagent" && input.answerable && !input.onlyApprovals;
    if (name === PRESENT_PLAN) return canAsk && mode === "plan";
    if (toolset === "clarify") return canAsk;
    return toolset !== "delegation" || !isDeepest;
  });
}

async function instructionsFor(
  { settings, briefing }: AgentDeps,
  of: {
    readonly cwd: string;
    readonly roots: readonly string[];
    readonly mode: SessionMode | undefined;
    readonly input: Pick<RunInput, "instructions" | "replacesInstructions">;
  },
): Promise<string> {
  const { roots } = of;
  const beside = roots.length === 0 ? "" : ` These folders belong to the work too: ${roots.join(", ")}.`;
  const folders = `Your tools work in ${of.cwd}.${beside}`;
  const mode = of.mode === "plan" ? PLAN_INSTRUCTIONS : undefined;
  const { instructions: requested, replacesInstructions } = of.input;
  const configured = replacesInstructions === true ? undefined : settings.instructions;
  return [configured, folders, mode, ...(await briefing(of.cwd)), requested]
    .filter((text) => text !== undefined && text !== "")
    .join("\n\n");
}

/** Descriptions of tools may take this part of the context: the rest is for instructions and the conversation. */
const SHARE = 1 / 3;
const CHARACTERS_A_TOKEN = 4;

/** What an agent needs most comes first. Tools that are not named here, such as those of MCP servers, come last. */
const ORDER: readonly string[] = [
  "present_plan",
  "terminal",
  "read_file",
  "write_file",
  "patch",
  "search_files",
  "clarify",
  "web_fetch",
  "todo",
  "skill",
  "process",
  "web_search",
  "cronjob",
  "delegate_task",
  "vision_analyze",
];

export interface FittedTools {
  /** In the given order. */
  readonly tools: readonly Tool[];
  /** Names of the tools that do not fit. */
  readonly omitted: readonly string[];
}

/**
 * Returns the tools whose descriptions, with those of the client's tools, take at most a third of the context. The
 * client's tools are never left out.
 */
export function fitTools(
  tools: readonly Tool[],
  {
    contextTokens,
    clientTools,
  }: { readonly contextTokens: number; readonly clientTools: readonly ToolSpec[] },
): FittedTools {
  const limit = contextTokens * SHARE;
  let left = limit - sum(clientTools);
  if (sum(tools) <= left) return { tools, omitted: [] };
  const fitting = new Set<Tool>();
  for (const tool of tools.toSorted((a, b) => rankOf(a) - rankOf(b))) {
    const tokens = descriptionTokens(tool);
    if (tokens > left) continue;
    left -= tokens;
    fitting.add(tool);
  }
  return {
    tools: tools.filter((tool) => fitting.has(tool)),
    omitted: tools.filter((tool) => !fitting.has(tool)).map(({ name }) => name),
  };
}

function rankOf({ name }: Tool): number {
  const rank = ORDER.indexOf(name);
  return rank < 0 ? ORDER.length : rank;
}

function sum(tools: readonly ToolSpec[]): number {
  return tools.reduce((total, tool) => total + descriptionTokens(tool), 0);
}

const known = new WeakMap<ToolSpec, number>();

/** Estimates what the description of a tool takes. Most tools live as long as the process. */
function descriptionTokens(tool: ToolSpec): number {
  const before = known.get(tool);
  if (before !== undefined) return before;
  const { name, description, parameters } = tool;
  const characters = name.length + description.length + JSON.stringify(parameters).length;
  const tokens = Math.ceil(characters / CHARACTERS_A_TOKEN);
  known.set(tool, tokens);
  return tokens;
}

const MAX_NAMED = 12;

/** Returns what the model learns about missing tools; "" when nothing was left out. */
function omittedInstructions({ omitted }: Pick<FittedTools, "omitted">): string {
  if (omitted.length === 0) return "";
  return `These tools do not fit into your context and are not available: ${listed(omitted)}. If a task needs one, say so.`;
}

/** Returns what people learn about missing tools, and why; undefined when nothing was left out. */
function omittedNotice(
  { omitted }: Pick<FittedTools, "omitted">,
  { model, contextTokens }: { readonly model: string; readonly contextTokens: number },
): string | undefined {
  if (omitted.length === 0) return undefined;
  return (
    `${model} has a context of ${contextTokens} tokens, so these tools are left out: ${listed(omitted)}. ` +
    "Give the model a larger context in its server; `agentd doctor` says how."
  );
}

function listed(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return names.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
