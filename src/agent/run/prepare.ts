import type { SessionRow } from "../../store/schema/tables.ts";
import type { ModelRef, ModelSettings, ToolSpec } from "../engine.ts";
import { PLAN_INSTRUCTIONS, type SessionMode } from "../session/mode.ts";
import type { AgentDeps } from "../deps.ts";
import type { PolicyContext } from "../question/policy/policy.ts";
import type { RunInput, RunKind } from "./run.ts";
import { settingsOf, type SessionSettings } from "../session/session.ts";
import type { SessionResources } from "../session/client-resources.ts";
import type { Tool } from "../tool/tool.ts";

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

export async function setupTurn(
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
  return { ...places, ...approvalsOf(deps, chosen), roots: deps.hosts.of(sessionId).roots };
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
