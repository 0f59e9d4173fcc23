import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import type { Usage } from "../engine.ts";
import type { RunInput } from "../run/run.ts";

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
    const row = await this.#store.read
      .selectFrom("spending")
      .select("tokens")
      .where("owner", "=", this.#owner)
      .where("day", "=", day)
      .executeTakeFirst();
    // Memory also counts what was spent during the read.
    const stored = row?.tokens ?? 0;
    this.#tokens = this.#day === day ? Math.max(this.#tokens, stored) : stored;
    this.#day = day;
  }

  add(tokens: number): void {
    const day = this.#today();
    if (day !== this.#day) this.#tokens = 0;
    this.#day = day;
    this.#tokens += tokens;
    const owner = this.#owner;
    // One upsert: another process may insert the day's first row at the same time.
    const work = this.#store
      .write(async (tx) => {
        await tx.db
          .insertInto("spending")
          .values({ owner, day, tokens })
          .onConflict((on) =>
            on
              .columns(["owner", "day"])
              .doUpdateSet((is) => ({ tokens: is("spending.tokens", "+", tokens) })),
          )
          .execute();
      })
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
