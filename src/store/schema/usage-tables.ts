/** The tables of what runs used: by day, for budgets and for reports. */
import { table } from "./define.ts";

/** What the model calls of a day used so far, for budgets: they are checked before each call. */
const spending = table(
  {
    owner: "text",
    /** `YYYY-MM-DD`, UTC. */
    day: "text",
    /** Name of the API key; empty without one. */
    key: "text",
    tokens: "integer",
    /** Billionths of a US dollar. */
    cost_nano: "integer",
  },
  ["owner", "day", "key"],
  { by_key: { columns: ["key", "day"], where: "key <> ''" } },
);

/** What the ended runs of a day used, by model. It outlives the runs. */
const usageDays = table(
  {
    /** `YYYY-MM-DD`, UTC. */
    day: "text",
    owner: "text",
    /** Name of the API key; empty without one. */
    key: "text",
    /** `provider:model` that answered. */
    model: "text",
    /** The surface that created the session. */
    source: "text",
    /** The kind of the runs. */
    kind: "text",
    /** A run counts with its own model, also when others answered too. */
    runs: "integer",
    failed_runs: "integer",
    model_calls: "integer",
    tool_calls: "integer",
    input_tokens: "integer",
    cached_input_tokens: "integer",
    cache_write_tokens: "integer",
    output_tokens: "integer",
    reasoning_tokens: "integer",
    /** Input and output of calls whose price is unknown. */
    unpriced_tokens: "integer",
    /** Billionths of a US dollar. */
    cost_nano: "integer",
  },
  ["day", "owner", "key", "model", "source", "kind"],
  { by_owner: { columns: ["owner", "day"] } },
);

export const usageTables = { spending, usage_days: usageDays };
