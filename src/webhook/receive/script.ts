/** The script of a route: sees the payload before the agent does. */
import { commandEnvironment } from "../../exec/process-group.ts";
import {
  describeScriptFailure,
  findScriptFile,
  runScriptFile,
  type ScriptEnd,
} from "../../exec/script-file.ts";
import { isExactNumber } from "../../base/json/exact-json.ts";
import type { Log } from "../../base/observe/log.ts";
import { redact, redactValue } from "../../base/observe/redact.ts";
import { fromJson } from "./payload.ts";

export interface ScriptInput {
  readonly payload: unknown;
  readonly event: string;
  readonly deliveryId: string;
}

export type ScriptOutcome =
  | { readonly status: "payload"; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly status: "text"; readonly text: string }
  /** It says that nothing is to be done. */
  | { readonly status: "ignore"; readonly reason: string }
  | { readonly status: "failed"; readonly reason: string };

/** Never rejects: every way in which a script can end is an outcome. */
export type RunScript = (script: string, input: ScriptInput) => Promise<ScriptOutcome>;

export interface ScriptOptions {
  /** `<home>/scripts`, absolute: nothing outside is run, wherever links lead. */
  readonly folder: string;
  readonly timeoutMs: number;
  /** Names of variables that scripts get besides the usual. */
  readonly envPassthrough: readonly string[];
  readonly log: Pick<Log, "warn">;
}

const MAX_VARIABLE_CHARACTERS = 1_000;
const SILENT = "[SILENT]";
const IGNORE_MARKS = ["__agent_ignore__", SILENT];

/** Scripts of all routes at work at once; others wait. */
const MAX_RUNNING = 16;
const MAX_WAITING = 1_000;

export function createRunScript(options: ScriptOptions): RunScript {
  const slots = new Slots();
  return async (script, input) => {
    const path = await findScriptFile(script, options.folder);
    const ended = path === undefined ? ABSENT : await slots.use(() => run(path, input, options));
    const failure = "output" in ended ? undefined : ended;
    const outcome = "output" in ended ? outcomeOf(ended.output) : failed(ended.reason);
    if (outcome.status !== "failed") return outcome;
    // What it complained of may hold the payload, and stays out of the log.
    options.log.warn("a webhook's script failed", {
      script,
      delivery: input.deliveryId,
      reason: outcome.reason,
    });
    return failure ? failed(describeScriptFailure(failure)) : outcome;
  };
}

const failed = (reason: string): ScriptOutcome => ({ status: "failed", reason });
const ABSENT: ScriptEnd = { reason: "there is no such file in the folder of scripts" };

function run(
  path: string,
  { payload, event, deliveryId }: ScriptInput,
  { envPassthrough, timeoutMs }: ScriptOptions,
): Promise<ScriptEnd> {
  const env = {
    ...commandEnvironment(envPassthrough, {}),
    AGENT_WEBHOOK_EVENT_TYPE: variable(event),
    AGENT_WEBHOOK_DELIVERY_ID: variable(deliveryId),
  };
  return runScriptFile(path, { env, timeoutMs, input: JSON.stringify(payload ?? null) });
}

/** Senders choose these: the system takes neither a NUL nor a megabyte. */
function variable(text: string): string {
  return text.slice(0, MAX_VARIABLE_CHARACTERS).replaceAll("\u0000", "");
}

function outcomeOf(said: Uint8Array): ScriptOutcome {
  const text = decoder.decode(said).trim();
  if (text === "") return { status: "ignore", reason: "it printed nothing" };
  if (text === SILENT) return { status: "ignore", reason: `it printed ${SILENT}` };
  const parsed = fromJson(text);
  if ("problem" in parsed && parsed.problem === "too_deep")
    return failed("it printed JSON that is nested too deep");
  const value = "payload" in parsed ? redactValue(parsed.payload) : undefined;
  if (typeof value !== "object" || value === null || Array.isArray(value) || isExactNumber(value)) {
    return { status: "text", text: redact(text) };
  }
  const payload = value as Readonly<Record<string, unknown>>;
  const mark = IGNORE_MARKS.find((name) => Object.hasOwn(payload, name) && payload[name] === true);
  return mark === undefined
    ? { status: "payload", payload }
    : { status: "ignore", reason: `it printed ${mark}` };
}

const decoder = new TextDecoder();

class Slots {
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  async use(work: () => Promise<ScriptEnd>): Promise<ScriptEnd> {
    if (this.#waiting.length >= MAX_WAITING) return { reason: `${MAX_WAITING} scripts are waiting already` };
    if (this.#running >= MAX_RUNNING) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // Who waits takes the place over.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}
