import { LruMap } from "../../base/lru.ts";
import type { RunRow } from "../../store/schema/tables.ts";
import { Budget, DaySpending } from "./budget.ts";
import type { AgentDeps } from "../deps.ts";
import type { RunInput } from "../run/run.ts";

/** Owners whose figures are remembered; the longest unused go first, and are read again. */
const MAX_OWNERS = 1000;

/** The budgets of the runs at work in this process. */
export class Budgets {
  readonly #deps: AgentDeps;
  readonly #runs = new Map<string, Budget>();
  readonly #days = new LruMap<string, DaySpending>(MAX_OWNERS);

  constructor(deps: AgentDeps) {
    this.#deps = deps;
  }

  /** Opens the budget of a run that starts. Close it when the run has ended. */
  open(run: RunRow, input: RunInput): Budget {
    const { runTokens, dayTokens } = this.#deps.settings.budget;
    const above = input.family && this.#runs.get(input.family.parentRunId);
    const limit = input.tokenBudget ?? (input.family ? 0 : runTokens);
    const budget = new Budget({
      limit,
      // Whoever asks for a limit of its own says where it comes from.
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
    this.#days.set(owner, day);
    return day;
  }
}
