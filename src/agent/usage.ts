/**
 * What runs use and may use: their token budgets, the limits of API keys, and the spans that report them, named after
 * OpenTelemetry's semantic conventions for generative AI, 1.41.
 */
import { noSpan, offTracer, type Span, type Tracer, type Log } from "../base/observe.ts";
import type { RunRow } from "../store/schema/tables.ts";
import type { ModelRef, ModelSettings, ToolCall, TurnEnd, Usage, ToolStatus } from "./engine.ts";
import type { Outcome, RunInput, LimitedKey } from "./run/run.ts";
import { type Clock, RateLimiter } from "../base/time.ts";
import type { Store, Tx } from "../store/store.ts";
import { ServiceError } from "../base/errors.ts";
import { lockName } from "../store/tx/tx.ts";
import { addSpending, countAtWork, spentTokens } from "./run/queries.ts";

/** How runs are traced. */
export interface AgentTracing {
  readonly tracer: Tracer;
  readonly agentName: string;
}

/** The endpoint of a model. */
interface ModelEndpoint {
  readonly name: string;
  readonly type: string;
  readonly baseUrl?: string;
}

const MAX_NAME_CHARACTERS = 128;

/** Starts the span of a run. Its parent is the request that created the run, however long the run was queued. */
export function startRunSpan(
  tracing: AgentTracing | undefined,
  run: Pick<RunRow, "id" | "session_id" | "kind" | "model">,
  parent: string | undefined,
): Span {
  if (!tracing) return parent === undefined ? noSpan : offTracer.start("", { parent });
  const { tracer, agentName } = tracing;
  const span = tracer.start(`invoke_agent ${agentName}`, { parent });
  if (!span.isRecording) return span;
  const colon = run.model.indexOf(":");
  span.set({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.provider.name": run.model.slice(0, colon),
    "gen_ai.request.model": run.model.slice(colon + 1),
    "gen_ai.agent.name": agentName,
    "gen_ai.conversation.id": run.session_id,
    "agentd.run.id": run.id,
    "agentd.run.kind": run.kind,
  });
  return span;
}

/** Adds a run's result. The span stays open until that result is recorded. */
export function describeRunEnd(span: Span, end: TurnEnd, { status, event }: Outcome): void {
  if (!span.isRecording) return;
  span.set({
    ...usageOf(end.usage),
    "gen_ai.response.finish_reasons": [end.stop],
    "agentd.run.status": status,
    "agentd.run.model_calls": end.usage.modelCalls,
    "agentd.run.tool_calls": end.usage.toolCalls,
  });
  const { error } = event.data as { readonly error?: { readonly code: string } };
  if (error) span.fail(error.code);
}

/** Starts the span of one model call with all its attempts. */
export function startModelSpan(
  parent: Span | undefined,
  ref: ModelRef,
  from: { readonly provider: ModelEndpoint; readonly settings: ModelSettings },
): Span {
  const span = parent?.child(`chat ${ref.id}`, { kind: "client" }) ?? noSpan;
  if (!span.isRecording) return span;
  const { provider, settings } = from;
  span.set({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(provider),
    "gen_ai.request.model": ref.id,
    "gen_ai.request.temperature": settings.temperature,
    "gen_ai.request.top_p": settings.topP,
    "gen_ai.request.max_tokens": settings.maxOutputTokens,
    "gen_ai.request.seed": settings.seed,
    ...addressOf(provider.baseUrl),
  });
  return span;
}

/** Ends the span; `finish` is undefined for an interrupted answer. */
export function endModelSpan(
  span: Span,
  end: { readonly usage: Usage; readonly finish: string | undefined; readonly error?: unknown },
): void {
  if (!span.isRecording) return;
  span.set(usageOf(end.usage));
  if (end.finish !== undefined) span.set({ "gen_ai.response.finish_reasons": [end.finish] });
  if (end.error !== undefined) span.fail(end.error);
  span.end();
}

/** Starts the span of one tool call with the questions it waits for. */
export function startToolSpan(parent: Span, { tool, callId }: ToolCall): Span {
  const name = tool.slice(0, MAX_NAME_CHARACTERS);
  const span = parent.child(`execute_tool ${name}`);
  if (!span.isRecording) return span;
  span.set({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": name,
    "gen_ai.tool.call.id": callId.slice(0, MAX_NAME_CHARACTERS),
    "gen_ai.tool.type": "function",
  });
  return span;
}

export function endToolSpan(span: Span, status: ToolStatus): void {
  if (!span.isRecording) return;
  span.set({ "agentd.tool.status": status });
  if (status === "error") span.fail("tool_error");
  span.end();
}

function usageOf(usage: Usage) {
  return {
    "gen_ai.usage.input_tokens": usage.inputTokens,
    "gen_ai.usage.output_tokens": usage.outputTokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cachedInputTokens,
    "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
    "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens,
  };
}

/** Returns the well-known name, or the configured one. */
function providerName({ type, name }: ModelEndpoint): string {
  if (type === "google") return "gcp.gemini";
  return type === "openai_compatible" ? name : type;
}

function addressOf(baseUrl: string | undefined) {
  const url = baseUrl === undefined ? null : URL.parse(baseUrl);
  if (!url) return {};
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return { "server.address": url.hostname, "server.port": port };
}

export interface BudgetLimits {
  /** Tokens of one run and its sub-agents; 0: no limit. */
  readonly runTokens: number;
  /** Tokens of all runs of an owner on a day (UTC); 0: no limit. */
  readonly dayTokens: number;
}

/**
 * What one run may still spend. A sub-agent's spending counts towards its parent run's budget too. The store keeps the
 * day's total, so that it holds across processes and restarts.
 */
export class Budget {
  readonly #limit: number;
  readonly #setting: string | undefined;
  readonly #above: Budget | undefined;
  readonly #day: DaySpending | undefined;
  #spent = 0;

  /** `setting` names the setting of the limit. */
  constructor(options: {
    readonly limit: number;
    readonly setting?: string;
    readonly above?: Budget;
    readonly day?: DaySpending;
  }) {
    this.#limit = options.limit;
    this.#setting = options.setting;
    this.#above = options.above;
    this.#day = options.day;
  }

  spend(usage: Usage): void {
    const tokens = usage.inputTokens + usage.outputTokens;
    if (tokens === 0) return;
    this.#count(tokens);
    this.#day?.add(tokens);
  }

  /** Returns undefined when a model may be called, else the reason why not. */
  admit(): string | undefined {
    if (this.#limit > 0 && this.#spent >= this.#limit) {
      const where = this.#setting === undefined ? "" : ` (${this.#setting})`;
      return `The run used ${this.#spent} of ${this.#limit} tokens${where} and was stopped before its next model call.`;
    }
    return this.#above?.admit() ?? this.#day?.admit();
  }

  #count(tokens: number): void {
    this.#spent += tokens;
    if (this.#above) this.#above.#count(tokens);
  }
}

/** Today's spending of one owner, as this process knows it. */
export class DaySpending {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #owner: string;
  readonly #limit: number;
  readonly #onProblem: (error: unknown) => void;
  #day = "";
  #tokens = 0;
  /** Pending writes: the stored total does not include them yet. */
  #written: Promise<void> = Promise.resolve();

  constructor(options: {
    readonly store: Store;
    readonly clock: Clock;
    readonly owner: string;
    readonly limit: number;
    readonly onProblem: (error: unknown) => void;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#owner = options.owner;
    this.#limit = options.limit;
    this.#onProblem = options.onProblem;
  }

  /** Reads today's spending of all processes. Call it before each run. */
  async load(): Promise<void> {
    await this.#written;
    const day = this.#today();
    // Memory also counts what was spent during the read.
    const stored = await spentTokens(this.#store, { owner: this.#owner, day });
    this.#tokens = this.#day === day ? Math.max(this.#tokens, stored) : stored;
    this.#day = day;
  }

  add(tokens: number): void {
    const day = this.#today();
    if (day !== this.#day) this.#tokens = 0;
    this.#day = day;
    this.#tokens += tokens;
    const work = this.#store
      .write((tx) => addSpending(tx, { owner: this.#owner, day, tokens }))
      .catch(this.#onProblem);
    this.#written = Promise.all([this.#written, work]).then(() => {});
  }

  admit(): string | undefined {
    if (this.#day !== this.#today() || this.#tokens < this.#limit) return undefined;
    return `Today's runs used ${this.#tokens} of ${this.#limit} tokens (agent.day_token_budget). Continue tomorrow (UTC), or raise the budget.`;
  }

  #today(): string {
    return new Date(this.#clock.now()).toISOString().slice(0, 10);
  }
}

/** Owners whose totals stay in memory; the least recently used are read again. */
const MAX_OWNERS = 1000;

interface BudgetDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: { readonly budget: BudgetLimits };
}

/** The budgets of this process's running runs. */
export class Budgets {
  readonly #deps: BudgetDeps;
  readonly #runs = new Map<string, Budget>();
  readonly #days = new Map<string, DaySpending>();

  constructor(deps: BudgetDeps) {
    this.#deps = deps;
  }

  /** Opens the budget of a starting run. Close it when the run has ended. */
  open(run: RunRow, input: RunInput): Budget {
    const { runTokens, dayTokens } = this.#deps.settings.budget;
    const above = input.family && this.#runs.get(input.family.parentRunId);
    const limit = input.tokenBudget ?? (input.family ? 0 : runTokens);
    const budget = new Budget({
      limit,
      // A caller with its own limit names the setting itself.
      ...(input.tokenBudget === undefined ? { setting: "agent.run_token_budget" } : {}),
      ...(above ? { above } : {}),
      ...(dayTokens > 0 ? { day: this.#dayOf(run.owner, dayTokens) } : {}),
    });
    this.#runs.set(run.id, budget);
    return budget;
  }

  close(runId: string): void {
    this.#runs.delete(runId);
  }

  /** Reads what other processes spent today, before a run of `owner` starts. */
  async refresh(owner: string): Promise<void> {
    const { dayTokens } = this.#deps.settings.budget;
    if (dayTokens > 0) await this.#dayOf(owner, dayTokens).load();
  }

  #dayOf(owner: string, limit: number): DaySpending {
    const { store, clock, log } = this.#deps;
    const onProblem = (error: unknown) => log.error("spent tokens could not be recorded", { owner, error });
    const day = this.#days.get(owner) ?? new DaySpending({ store, clock, owner, limit, onProblem });
    this.#days.delete(owner);
    this.#days.set(owner, day);
    if (this.#days.size > MAX_OWNERS) {
      const [oldest] = this.#days.keys();
      if (oldest !== undefined) this.#days.delete(oldest);
    }
    return day;
  }
}

/** The fields of a prompt that its admission depends on. */
interface Limited {
  readonly apiKey?: string | undefined;
  readonly address: { readonly owner: string };
  readonly delivery?: unknown;
  readonly admit?: (tx: Tx) => Promise<void>;
}

/** When a client may try again: a run may have ended by then. */
const RETRY_SECONDS = 1;

/**
 * The limits of each key, on every surface, connection and ticket. A key is identified by its name, the owner of
 * everything it creates, so its limits follow a ticket or session. Keys of one name share their limits; where these differ,
 * the smaller one applies.
 */
export class KeyLimits {
  readonly #clock: Clock;
  readonly #requests = new Map<string, RateLimiter>();
  readonly #maxRuns = new Map<string, number>();

  constructor(keys: Iterable<LimitedKey>, clock: Clock) {
    this.#clock = clock;
    for (const { name, rateLimitRpm, maxConcurrentRuns } of keys) {
      if (rateLimitRpm !== undefined) {
        const max = Math.min(rateLimitRpm, this.#requests.get(name)?.max ?? Infinity);
        this.#requests.set(name, new RateLimiter(max));
      }
      if (maxConcurrentRuns !== undefined) {
        this.#maxRuns.set(name, Math.min(maxConcurrentRuns, this.#maxRuns.get(name) ?? Infinity));
      }
    }
  }

  /** Sets the limits of a key that is not configured. */
  set({
    name,
    rateLimitRpm,
    maxConcurrentRuns,
  }: {
    readonly name: string;
    readonly rateLimitRpm: number | undefined;
    readonly maxConcurrentRuns: number | undefined;
  }): void {
    if (rateLimitRpm === undefined) this.#requests.delete(name);
    else if (this.#requests.get(name)?.max !== rateLimitRpm)
      this.#requests.set(name, new RateLimiter(rateLimitRpm));
    if (maxConcurrentRuns === undefined) this.#maxRuns.delete(name);
    else this.#maxRuns.set(name, maxConcurrentRuns);
  }

  /** Returns how many concurrent runs the key may have; undefined: no limit of its own. */
  maxRunsOf(key: string): number | undefined {
    return this.#maxRuns.get(key);
  }

  /** Counts a request of the key. ServiceError `rate_limit_exceeded` above the limit; that request is not counted. */
  countRequest(key: string): void {
    const limiter = this.#requests.get(key);
    const refused = limiter?.take(key, this.#clock.now());
    if (!limiter || !refused) return;
    const { seconds } = refused;
    throw new ServiceError(
      "rate_limit_exceeded",
      `The key ${JSON.stringify(key)} may make ${limiter.max} requests a minute (rate_limit_rpm). Try again in ${seconds} seconds.`,
      { retryAfterSeconds: seconds },
    );
  }

  /**
   * Returns the prompt with the limit of its key added: recording it throws ServiceError `too_many_concurrent_runs` while
   * the key has reached its limit. Prompts of webhooks and scheduled jobs, which have a `delivery`, use no key.
   */
  limitRuns<P extends Limited>(prompt: P): P {
    const key = prompt.apiKey ?? prompt.address.owner;
    const limit = this.#maxRuns.get(key);
    if (limit === undefined || prompt.delivery !== undefined) return prompt;
    return {
      ...prompt,
      admit: async (tx) => {
        await prompt.admit?.(tx);
        // On PostgreSQL the count does not see another replica's open transaction.
        await lockName(tx, JSON.stringify(["runs_of_key", key]));
        if ((await countAtWork(tx, key)) >= limit) throw keyIsBusy(key, limit);
      },
    };
  }
}

function keyIsBusy(key: string, limit: number): ServiceError {
  return new ServiceError(
    "too_many_concurrent_runs",
    `${limit} runs of the key ${JSON.stringify(key)} are active, which is its limit (max_concurrent_runs). Try again when one has ended.`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
