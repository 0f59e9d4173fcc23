/** What runs may spend: the budgets of runs, owners and API keys, and the other limits of keys. */
import { LruMap } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Log } from "../../base/observe.ts";
import { type Clock, OngoingMap, RateLimiter } from "../../base/time.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Store, Tx } from "../../store/store.ts";
import { lockName } from "../../store/tx/tx.ts";
import { formatModel, type ModelRef } from "../model.ts";
import type { Refusal } from "../engine.ts";
import { type Spent, type Usage, dayOf, formatUsd, NANO, readSpending, secondsToMidnight } from "./usage.ts";
import { countAtWork } from "../run/queries.ts";
import type { LimitedKey, RunInput } from "../run/run.ts";

export interface BudgetLimits {
  /** Tokens of one run and its sub-agents; 0: no limit. */
  readonly runTokens: number;
  /** Tokens of all runs of an owner on a day (UTC); 0: no limit. */
  readonly dayTokens: number;
  /** US dollars of all runs of an owner on a day (UTC); 0: no limit. */
  readonly dayCostUsd?: number;
  /** Whether a model may be called whose price is unknown. Default: allow. */
  readonly unpriced?: "allow" | "refuse";
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
  readonly #isPriced: ((model: ModelRef) => boolean) | undefined;
  #spent = 0;

  /** `setting` names the setting of the limit. With `isPriced`, models whose price is unknown are refused. */
  constructor(options: {
    readonly limit: number;
    readonly setting?: string;
    readonly above?: Budget;
    readonly day?: DaySpending;
    readonly isPriced?: (model: ModelRef) => boolean;
  }) {
    this.#limit = options.limit;
    this.#setting = options.setting;
    this.#above = options.above;
    this.#day = options.day;
    this.#isPriced = options.isPriced;
  }

  spend({ inputTokens, outputTokens, costNano }: Usage): void {
    const tokens = inputTokens + outputTokens;
    if (tokens === 0 && costNano === 0) return;
    this.#count(tokens);
    this.#day?.add({ tokens, costNano });
  }

  /** Returns undefined when the model may be called, else the reason why not. */
  admit(model: ModelRef): Refusal | undefined {
    if (this.#limit > 0 && this.#spent >= this.#limit) {
      const where = this.#setting === undefined ? "" : ` (${this.#setting})`;
      return {
        message: `The run used ${this.#spent} of ${this.#limit} tokens${where} and was stopped before its next model call.`,
      };
    }
    return this.#ofPrice(model) ?? this.#above?.admit(model) ?? this.#day?.admit();
  }

  #ofPrice(model: ModelRef): Refusal | undefined {
    if (this.#isPriced?.(model) !== false) return undefined;
    return {
      message:
        `The price of ${formatModel(model)} is unknown, so it is not called (agent.unpriced: refuse). ` +
        `Set model.providers.${model.provider}.prices, or choose another model.`,
    };
  }

  #count(tokens: number): void {
    this.#spent += tokens;
    if (this.#above) this.#above.#count(tokens);
  }
}

/** Whose spending is counted. */
type Payer = { readonly owner: string } | { readonly key: string };

/** Today's spending of an owner or of a key, as this process knows it. */
export class DayTotal {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #payer: Payer;
  #day = "";
  #spent: Spent = NOTHING;
  /** Pending writes: the stored total does not include them yet. */
  #written: Promise<unknown> = Promise.resolve();

  constructor(store: Store, clock: Clock, payer: Payer) {
    this.#store = store;
    this.#clock = clock;
    this.#payer = payer;
  }

  /** What this process knows to be spent today. */
  get spent(): Spent {
    return this.#day === dayOf(this.#clock.now()) ? this.#spent : NOTHING;
  }

  /** Reads today's spending of all processes. Call it before each run. */
  async load(): Promise<void> {
    await this.#written;
    const day = dayOf(this.#clock.now());
    const stored = await readSpending(this.#store, { day, ...this.#payer });
    // Memory also counts what was spent during the read.
    this.#spent = this.#day === day ? larger(this.#spent, stored) : stored;
    this.#day = day;
  }

  /** Counts what is written by `written`. */
  add(day: string, { tokens, costNano }: Spent, written: Promise<void>): void {
    const before = day === this.#day ? this.#spent : NOTHING;
    this.#day = day;
    this.#spent = { tokens: before.tokens + tokens, costNano: before.costNano + costNano };
    this.#written = Promise.all([this.#written, written]);
  }
}

const NOTHING: Spent = { tokens: 0, costNano: 0 };

function larger(a: Spent, b: Spent): Spent {
  return { tokens: Math.max(a.tokens, b.tokens), costNano: Math.max(a.costNano, b.costNano) };
}

/** The budgets of a day that a run counts towards; 0: no limit. */
export interface DayLimits {
  readonly tokens: number;
  readonly costUsd: number;
  readonly keyCostUsd: number;
}

interface DaySpendingOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  /** Empty: the run has no key. */
  readonly key: string;
  readonly limits: DayLimits;
  readonly ofOwner: DayTotal;
  readonly ofKey: DayTotal;
  readonly onProblem: (error: unknown) => void;
}

/** The day's budgets of one run: those of its owner and of its key. */
export class DaySpending {
  readonly #from: DaySpendingOptions;

  constructor(from: DaySpendingOptions) {
    this.#from = from;
  }

  add(spent: Spent): void {
    const { store, clock, owner, key, ofOwner, ofKey, onProblem } = this.#from;
    const day = dayOf(clock.now());
    const { tokens, costNano } = spent;
    const written = store
      .write((tx) => tx.count("spending", { owner, day, key, tokens, cost_nano: costNano }))
      .catch(onProblem);
    ofOwner.add(day, spent, written);
    ofKey.add(day, spent, written);
  }

  admit(): Refusal | undefined {
    const { limits, ofOwner, ofKey, key, clock } = this.#from;
    const { tokens, costNano } = ofOwner.spent;
    const what =
      overTokens(tokens, limits.tokens) ??
      overCost("Today's runs cost", costNano, { limit: limits.costUsd, setting: "agent.day_cost_budget" }) ??
      overCost(`Today's runs of the key ${JSON.stringify(key)} cost`, ofKey.spent.costNano, {
        limit: limits.keyCostUsd,
        setting: "day_budget_usd of the key",
      });
    if (what === undefined) return undefined;
    const message = `${what}. Continue tomorrow (UTC), or raise the budget.`;
    return { message, retryAfterSeconds: secondsToMidnight(clock.now()) };
  }
}

function overTokens(tokens: number, limit: number): string | undefined {
  if (limit === 0 || tokens < limit) return undefined;
  return `Today's runs used ${tokens} of ${limit} tokens (agent.day_token_budget)`;
}

function overCost(
  who: string,
  costNano: number,
  { limit, setting }: { readonly limit: number; readonly setting: string },
): string | undefined {
  if (limit === 0 || costNano < limit * NANO) return undefined;
  return `${who} ${formatUsd(costNano / NANO)} of ${formatUsd(limit)} (${setting})`;
}

/** Owners and keys whose totals stay in memory; the least recently used are read again. */
const MAX_TOTALS = 1000;

interface BudgetDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: { readonly budget: BudgetLimits };
  readonly keyLimits?: Pick<KeyLimits, "dayBudgetOf">;
  readonly prices: { isKnown(model: ModelRef): boolean };
}

/** Who pays for a run. */
interface Paid {
  readonly owner: string;
  readonly key: string | null;
}

/** The budgets of this process's running runs. */
export class Budgets {
  readonly #deps: BudgetDeps;
  readonly #runs = new OngoingMap<string, Budget>();
  readonly #totals = new LruMap<string, DayTotal>(MAX_TOTALS);

  constructor(deps: BudgetDeps) {
    this.#deps = deps;
  }

  /** Opens the budget of a starting run. Close it when the run has ended. */
  open(run: Pick<RunRow, "id" | "owner" | "key">, input: Pick<RunInput, "family" | "tokenBudget">): Budget {
    const budget = this.#make(run, input);
    this.#runs.set(run.id, budget);
    return budget;
  }

  /** Opens the budget of calls that belong to no run. What runs spend meanwhile counts, too. */
  async openAlone(paid: Paid): Promise<Budget> {
    await this.refresh(paid);
    return this.#make(paid, {});
  }

  #make(paid: Paid, input: Pick<RunInput, "family" | "tokenBudget">): Budget {
    const { prices, settings } = this.#deps;
    const above = input.family && this.#runs.get(input.family.parentRunId);
    const limit = input.tokenBudget ?? (input.family ? 0 : settings.budget.runTokens);
    const day = this.#dayOf(paid);
    return new Budget({
      limit,
      // A caller with its own limit names the setting itself.
      ...(input.tokenBudget === undefined ? { setting: "agent.run_token_budget" } : {}),
      ...(above ? { above } : {}),
      ...(day ? { day } : {}),
      ...(settings.budget.unpriced === "refuse" ? { isPriced: (model) => prices.isKnown(model) } : {}),
    });
  }

  close(runId: string): void {
    this.#runs.delete(runId);
  }

  /** Reads what other processes spent today, before a run of `paid` starts. */
  async refresh(paid: Paid): Promise<void> {
    if (!this.#limitsOf(paid)) return;
    await this.#totalOf({ owner: paid.owner }).load();
    if (paid.key !== null) await this.#totalOf({ key: paid.key }).load();
  }

  #dayOf({ owner, key }: Paid): DaySpending | undefined {
    const { store, clock, log } = this.#deps;
    const limits = this.#limitsOf({ owner, key });
    if (!limits) return undefined;
    return new DaySpending({
      store,
      clock,
      owner,
      key: key ?? "",
      limits,
      ofOwner: this.#totalOf({ owner }),
      ofKey: this.#totalOf({ key: key ?? "" }),
      onProblem: (error) => log.error("spent tokens could not be recorded", { owner, error }),
    });
  }

  /** Undefined: no budget of a day applies. */
  #limitsOf({ key }: Paid): DayLimits | undefined {
    const { settings, keyLimits } = this.#deps;
    const { dayTokens: tokens, dayCostUsd: costUsd = 0 } = settings.budget;
    const keyCostUsd = key === null ? 0 : (keyLimits?.dayBudgetOf(key) ?? 0);
    return tokens > 0 || costUsd > 0 || keyCostUsd > 0 ? { tokens, costUsd, keyCostUsd } : undefined;
  }

  #totalOf(payer: Payer): DayTotal {
    const name = JSON.stringify(payer);
    const known = this.#totals.get(name);
    const total = known ?? new DayTotal(this.#deps.store, this.#deps.clock, payer);
    if (!known) this.#totals.set(name, total);
    return total;
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

interface KeyLimitValues {
  readonly name: string;
  readonly rateLimitRpm: number | undefined;
  readonly maxConcurrentRuns: number | undefined;
  readonly dayBudgetUsd: number | undefined;
}

/**
 * The limits of each key, on every surface, connection and ticket. A key is identified by its name, the owner of
 * everything it creates, so its limits follow a ticket or session. Keys of one name share their limits; where these differ,
 * the smaller one applies.
 */
export class KeyLimits {
  readonly #clock: Clock;
  readonly #requests = new Map<string, RateLimiter>();
  readonly #maxRuns = new Map<string, number>();
  readonly #dayBudgets = new Map<string, number>();

  constructor(keys: Iterable<LimitedKey>, clock: Clock) {
    this.#clock = clock;
    for (const { name, rateLimitRpm, maxConcurrentRuns, dayBudgetUsd } of keys) {
      if (rateLimitRpm !== undefined) {
        const max = Math.min(rateLimitRpm, this.#requests.get(name)?.max ?? Infinity);
        this.#requests.set(name, new RateLimiter(max));
      }
      if (maxConcurrentRuns !== undefined) {
        this.#maxRuns.set(name, Math.min(maxConcurrentRuns, this.#maxRuns.get(name) ?? Infinity));
      }
      if (dayBudgetUsd !== undefined) {
        this.#dayBudgets.set(name, Math.min(dayBudgetUsd, this.#dayBudgets.get(name) ?? Infinity));
      }
    }
  }

  /** Sets the limits of a key that is not configured. */
  set({ name, rateLimitRpm, maxConcurrentRuns, dayBudgetUsd }: KeyLimitValues): void {
    if (rateLimitRpm === undefined) this.#requests.delete(name);
    else if (this.#requests.get(name)?.max !== rateLimitRpm)
      this.#requests.set(name, new RateLimiter(rateLimitRpm));
    if (maxConcurrentRuns === undefined) this.#maxRuns.delete(name);
    else this.#maxRuns.set(name, maxConcurrentRuns);
    if (dayBudgetUsd === undefined) this.#dayBudgets.delete(name);
    else this.#dayBudgets.set(name, dayBudgetUsd);
  }

  /** Returns how many concurrent runs the key may have; undefined: no limit of its own. */
  maxRunsOf(key: string): number | undefined {
    return this.#maxRuns.get(key);
  }

  /** Returns how many US dollars the runs of the key may cost on a day (UTC); undefined: no limit of its own. */
  dayBudgetOf(key: string): number | undefined {
    return this.#dayBudgets.get(key);
  }

  /** Returns the keys with a budget of their own, in US dollars a day. */
  dayBudgets(): readonly { readonly key: string; readonly limit: number }[] {
    return [...this.#dayBudgets].map(([key, limit]) => ({ key, limit }));
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
