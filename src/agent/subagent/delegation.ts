import { createId, headOf } from "../../base/text.ts";
import { redact } from "../../base/observe.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import type { RunRow, SessionRow } from "../../store/schema/tables.ts";
import type { AgentDeps } from "../deps.ts";
import { runEvent } from "../run/event.ts";
import { isFinalEvent, type RunFamily, type RunInput } from "../run/run.ts";
import { type SubagentResult, type SubagentTask, ToolError } from "../tool/tool.ts";
import { MAX_GOAL_CHARACTERS } from "../run/queries.ts";

/** What delegation needs from the run scheduler. */
export interface Spawner {
  /** Starts a sub-agent; `onStart` receives its run before it is committed. */
  spawn(
    child: ChildPrompt,
  ): Promise<{ readonly runId: string; readonly sessionId: string; readonly model: string }>;
  stop(runId: string, reason: string): Promise<boolean>;
}

export interface ChildPrompt {
  readonly runId: string;
  readonly owner: string;
  /** Key of the run that it works for, which pays for it. */
  readonly apiKey: string | undefined;
  readonly cwd: string | null;
  /** The session it works for. Its settings apply to the sub-agent too. */
  readonly parent: Pick<SessionRow, "id" | "meta">;
  /** `model` or `provider:model`. */
  readonly model: string;
  readonly input: RunInput;
}

interface Delegator {
  readonly run: RunRow;
  readonly session: SessionRow;
  readonly input: RunInput;
  readonly signal: AbortSignal;
  readonly record: (event: NewEvent) => void;
}

const MAX_PROGRESS_CHARACTERS = 1_000;

/**
 * Runs tasks as sub-agents. Each has its own run and session, is reported to the parent run by `subagent.*` events,
 * stops with the parent, and can be stopped alone like any run. Runs therefore hold both the active sub-agents and
 * their history.
 */
export class Delegation {
  readonly #deps: AgentDeps;
  readonly #spawner: Spawner;
  readonly #from: Delegator;

  constructor(deps: AgentDeps, spawner: Spawner, from: Delegator) {
    this.#deps = deps;
    this.#spawner = spawner;
    this.#from = from;
  }

  /** Resolves when every task has ended, with results in the order of the tasks. Throws ToolError beyond the limits. */
  async run(
    callId: string,
    tasks: readonly SubagentTask[],
    traceparent?: string,
  ): Promise<readonly SubagentResult[]> {
    const { maxTasks, maxConcurrent, maxDepth } = this.#deps.settings.delegation;
    if (tasks.length > maxTasks) {
      throw new ToolError(
        `${tasks.length} tasks are too many. The limit is ${maxTasks} (delegation.max_tasks).`,
      );
    }
    const depth = (this.#from.input.family?.depth ?? 0) + 1;
    if (depth > maxDepth) {
      throw new ToolError(
        `Sub-agents may nest ${maxDepth} deep (delegation.max_depth). Do the task yourself.`,
      );
    }
    // Checks all models first: an invalid task must not leave other sub-agents running.
    const models = tasks.map((task) => this.#modelOf(task));
    const requests = tasks.map((task, index): Request => {
      const model = models[index] ?? this.#from.run.model;
      return { id: createId("run", this.#deps.clock.now()), task, model, callId, index, depth };
    });
    for (const request of requests) this.#reportRequested(request, tasks.length);
    const waiting = [...requests];
    const results: SubagentResult[] = [];
    const worker = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        results[next.index] = await this.#one(next, { count: tasks.length, traceparent });
      }
    };
    const workers = Array.from({ length: Math.min(maxConcurrent, tasks.length) }, async () => {
      try {
        await worker();
      } catch (error) {
        for (const { id } of waiting.splice(0)) this.#reportNotStarted(id);
        throw error;
      }
    });
    const ends = await Promise.allSettled(workers);
    this.#from.signal.throwIfAborted();
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return results;
  }

  #reportRequested(request: Request, count: number): void {
    const { run, record } = this.#from;
    record(runEvent(run.id, "subagent.spawn_requested", this.#about(request, count)));
  }

  /** Reports the end of a task that never started. */
  #reportNotStarted(id: string): void {
    const { run, record } = this.#from;
    record(
      runEvent(run.id, "subagent.complete", {
        subagent_id: id,
        status: "cancelled",
        summary: "It was not started.",
        duration_seconds: 0,
      }),
    );
  }

  #about({ id, task, model, callId, index, depth }: Request, count: number) {
    const toolsets = narrowed(this.#from.input.toolsets, task.toolsets);
    return {
      subagent_id: id,
      tool_call_id: callId,
      parent_id: this.#from.run.id,
      goal: headOf(redact(task.goal), MAX_GOAL_CHARACTERS),
      depth,
      task_index: index,
      task_count: count,
      model,
      ...(toolsets ? { toolsets: [...toolsets] } : {}),
    };
  }

  async #one(request: Request, { count, traceparent }: SpawnContext): Promise<SubagentResult> {
    const { run, signal, record } = this.#from;
    const startedMs = this.#deps.clock.now();
    const child = await this.#spawn(request, traceparent).catch((error: unknown) => {
      this.#reportNotStarted(request.id);
      throw error;
    });
    const about = this.#about({ ...request, model: child.model }, count);
    record(runEvent(run.id, "subagent.start", { ...about, child_session_id: child.sessionId }));
    const { log } = this.#deps;
    const stop = () =>
      void this.#spawner
        .stop(child.runId, "The parent run was stopped.")
        .catch((error: unknown) => log.warn("a sub-agent could not be stopped", { run: child.runId, error }));
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    try {
      return await this.#watch(child.runId, startedMs);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  async #spawn({ id, task, model, depth }: Request, traceparent: string | undefined) {
    const { run, session, signal } = this.#from;
    signal.throwIfAborted();
    const input = this.#inputOf(task, depth, traceparent);
    const { owner, key } = run;
    const apiKey = key ?? undefined;
    return this.#spawner.spawn({ runId: id, owner, apiKey, cwd: session.cwd, parent: session, model, input });
  }

  /** Follows a sub-agent to its end and reports its events to the parent run. */
  async #watch(childId: string, startedMs: number): Promise<SubagentResult> {
    const { store, clock } = this.#deps;
    const { run, record } = this.#from;
    let tools = 0;
    for await (const group of store.journal.follow({ runId: childId })) {
      for (const { type, data } of group) {
        // Passes on the events of its own sub-agents.
        if (type.startsWith("subagent.")) record({ type, runId: run.id, data });
        if (type === "tool.started") {
          const preview = data["preview"] === undefined ? {} : { preview: String(data["preview"]) };
          const about = { subagent_id: childId, tool: String(data["tool"]), tool_count: ++tools };
          record(runEvent(run.id, "subagent.tool", { ...about, ...preview }));
        }
        const reportedAs = PROGRESS_EVENTS[type];
        if (reportedAs && data["text"] !== "") {
          const text = headOf(String(data["text"]), MAX_PROGRESS_CHARACTERS);
          record(runEvent(run.id, reportedAs, { subagent_id: childId, text }));
        }
        if (isFinalEvent(type)) {
          const durationSeconds = (clock.now() - startedMs) / 1000;
          return this.#complete(childId, { type, data, durationSeconds });
        }
      }
    }
    throw new Error(`the event stream of sub-agent ${childId} ended before the sub-agent did`); // the store closed under us
  }

  #complete(
    childId: string,
    end: { readonly type: string; readonly data: NewEvent["data"]; readonly durationSeconds: number },
  ): SubagentResult {
    const { run, record } = this.#from;
    const status = end.type.slice("run.".length) as SubagentResult["status"];
    const error = end.data["error"] as { readonly message?: string } | undefined;
    const text = String(end.data["output"] ?? error?.message ?? end.data["reason"] ?? "");
    record(
      runEvent(run.id, "subagent.complete", {
        subagent_id: childId,
        status,
        summary: headOf(text, MAX_PROGRESS_CHARACTERS),
        duration_seconds: end.durationSeconds,
        ...(end.data["usage"] ? { usage: end.data["usage"] as never } : {}),
      }),
    );
    return { subagentId: childId, status, text, durationSeconds: end.durationSeconds };
  }

  #modelOf(task: SubagentTask): string {
    const { models, settings } = this.#deps;
    const requested = task.model ?? settings.delegation.model;
    if (requested !== undefined && !models.resolve(requested)) {
      throw new ToolError(
        `No model is named ${JSON.stringify(requested)}. Leave out model to use the model of this run.`,
      );
    }
    return requested ?? this.#from.run.model;
  }

  #inputOf(task: SubagentTask, depth: number, traceparent: string | undefined): RunInput {
    const { input, run, session } = this.#from;
    const { maxSteps, tokenBudget } = this.#deps.settings.delegation;
    const text = task.context === undefined ? task.goal : `${task.goal}\n\nContext:\n${task.context}`;
    const family: RunFamily = {
      parentRunId: run.id,
      depth,
      root: input.family?.root ?? { runId: run.id, sessionId: session.id },
    };
    const toolsets = narrowed(input.toolsets, task.toolsets);
    return {
      prompt: [{ role: "user", text }],
      instructions: INSTRUCTIONS,
      settings: input.settings,
      answerable: input.answerable,
      ...(input.onlyApprovals ? { onlyApprovals: true as const } : {}),
      ...(traceparent === undefined ? {} : { traceparent }),
      family,
      maxSteps,
      ...(tokenBudget > 0 ? { tokenBudget } : {}),
      ...(input.inactivityMs === undefined ? {} : { inactivityMs: input.inactivityMs }),
      ...(toolsets ? { toolsets } : {}),
    };
  }
}

/** A task that waits for its sub-agent. */
interface Request {
  readonly id: string;
  readonly task: SubagentTask;
  readonly model: string;
  readonly callId: string;
  readonly index: number;
  readonly depth: number;
}

interface SpawnContext {
  readonly count: number;
  readonly traceparent: string | undefined;
}

/** Events of a sub-agent, and the events that report them. */
const PROGRESS_EVENTS: Readonly<Record<string, "subagent.progress" | "subagent.thinking" | undefined>> = {
  "message.completed": "subagent.progress",
  "reasoning.completed": "subagent.thinking",
};

const INSTRUCTIONS =
  "You are a sub-agent: another agent gave you one task and sees only your last message. Do the task, do not ask questions, " +
  "and end with a complete, short report of what you did and found, with the names of the files you changed.";

/** Returns the toolsets that both allow; undefined allows all. */
function narrowed(
  above: readonly string[] | undefined,
  own: readonly string[] | undefined,
): readonly string[] | undefined {
  return above && own ? own.filter((name) => above.includes(name)) : (own ?? above);
}
