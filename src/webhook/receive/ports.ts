/** What the stages of the pipeline need from the machine: scripts, lists of filters, and skills. Touches the machine. */
import { type AgentServices } from "../../agent/create.ts";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../../../generated/config/types.gen.ts";
import { commandEnvironment } from "../../exec/process-group.ts";
import {
  describeScriptFailure,
  findScriptFile,
  runScriptFile,
  type ScriptEnd,
} from "../../exec/script-file.ts";
import { isExactNumber, parseExactJson } from "../../base/data.ts";
import { isRecord } from "../../base/data.ts";
import type { Log } from "../../base/observe.ts";
import { redact, redactValue } from "../../base/observe.ts";
import { resolveWithin, type Environment } from "../../config/home.ts";
import { webhookSettings } from "../routes/route.ts";
import { fromJson, type FindDuplicate } from "./event.ts";

export interface EvaluationPorts {
  /** Returns the values that a file lists; undefined when it cannot be read. */
  readonly valuesIn: (path: string) => Promise<readonly unknown[] | undefined>;
  readonly runScript: RunScript;
  readonly loadSkill: LoadSkill;
  readonly warn: (problem: string) => void;
  readonly findDuplicate: FindDuplicate;
}

export interface PortOptions {
  readonly config: Config;
  readonly env: Environment;
  /** Absolute. */
  readonly paths: { readonly agentHome: string; readonly userHome: string; readonly workspace: string };
  readonly skills: Pick<AgentServices["skills"], "load">;
  readonly log: Log;
}

/** Returns what the stages of the pipeline need from the machine. The store finds duplicates. */
export function createEvaluationPorts({
  config,
  env,
  paths,
  skills,
  log,
}: PortOptions): Omit<EvaluationPorts, "findDuplicate"> {
  const { scriptTimeoutMs } = webhookSettings(config);
  return {
    valuesIn: (path) =>
      readListFile(listFilePath(path, { home: paths.agentHome, userHome: paths.userHome, env })),
    runScript: createRunScript({
      folder: join(paths.agentHome, "scripts"),
      timeoutMs: scriptTimeoutMs,
      envPassthrough: config.terminal.env_passthrough,
      log,
    }),
    loadSkill: createLoadSkill({ skills, cwd: paths.workspace, log }),
    warn: (problem) => log.warn("a filter is invalid", { problem }),
  };
}

export interface ScriptInput {
  readonly payload: unknown;
  readonly event: string;
  readonly deliveryId: string;
}

export type ScriptOutcome =
  | { readonly status: "payload"; readonly payload: Readonly<Record<string, unknown>> }
  | { readonly status: "text"; readonly text: string }
  /** The script asks to ignore the event. */
  | { readonly status: "ignore"; readonly reason: string }
  | { readonly status: "failed"; readonly reason: string };

/** Never rejects: every way in which a script can end is an outcome. */
export type RunScript = (script: string, input: ScriptInput) => Promise<ScriptOutcome>;

export interface ScriptOptions {
  /** `<home>/scripts`, absolute. Files outside are not run, even through links. */
  readonly folder: string;
  readonly timeoutMs: number;
  /** Names of extra environment variables that scripts get. */
  readonly envPassthrough: readonly string[];
  readonly log: Pick<Log, "warn">;
}

const MAX_VARIABLE_CHARACTERS = 1_000;
const SILENT = "[SILENT]";
const IGNORE_MARKS = ["__agent_ignore__", SILENT];

/** Scripts of all routes that run at once; more wait. */
const MAX_RUNNING = 16;
const MAX_WAITING = 1_000;

export function createRunScript(options: ScriptOptions): RunScript {
  const slots = new ScriptSlots();
  return async (script, input) => {
    const path = await findScriptFile(script, options.folder);
    const ended = path === undefined ? ABSENT : await slots.use(() => run(path, input, options));
    const failure = "output" in ended ? undefined : ended;
    const outcome = "output" in ended ? outcomeOf(ended.output) : failed(ended.reason);
    if (outcome.status !== "failed") return outcome;
    // Error output may contain the payload, and stays out of the log.
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

/** Senders choose these values, and the system accepts neither a NUL nor a megabyte in a variable. */
function variable(text: string): string {
  return text.slice(0, MAX_VARIABLE_CHARACTERS).replaceAll("\u0000", "");
}

function outcomeOf(output: Uint8Array): ScriptOutcome {
  const text = decoder.decode(output).trim();
  if (text === "") return { status: "ignore", reason: "it printed nothing" };
  if (text === SILENT) return { status: "ignore", reason: `it printed ${SILENT}` };
  const parsed = fromJson(text);
  if ("problem" in parsed && parsed.problem === "too_deep")
    return failed("it printed JSON that is nested too deeply");
  const payload = "payload" in parsed ? redactValue(parsed.payload) : undefined;
  if (!isRecord(payload) || isExactNumber(payload)) return { status: "text", text: redact(text) };
  const mark = IGNORE_MARKS.find((name) => Object.hasOwn(payload, name) && payload[name] === true);
  return mark === undefined
    ? { status: "payload", payload }
    : { status: "ignore", reason: `it printed ${mark}` };
}

const decoder = new TextDecoder();

class ScriptSlots {
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  async use(work: () => Promise<ScriptEnd>): Promise<ScriptEnd> {
    if (this.#waiting.length >= MAX_WAITING) return { reason: `${MAX_WAITING} scripts are waiting already` };
    if (this.#running >= MAX_RUNNING) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await work();
    } finally {
      // The next one inherits the slot.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}

/** Loads the first skill that exists. Never rejects. Undefined: none can be loaded, and the run continues without one. */
export type LoadSkill = (names: readonly string[]) => ReturnType<AgentServices["skills"]["load"]>;

function createLoadSkill({
  skills,
  cwd,
  log,
}: {
  readonly skills: Pick<AgentServices["skills"], "load">;
  /** Working directory of webhook runs: its project may have skills of its own. */
  readonly cwd: string;
  readonly log: Pick<Log, "warn">;
}): LoadSkill {
  return async (names) => {
    for (const name of names) {
      try {
        const skill = await skills.load(name, cwd);
        if (skill) return skill;
        log.warn("a skill of a webhook route does not exist", { skill: name });
      } catch (error) {
        log.warn("cannot load a skill of a webhook route; the run continues without it", {
          skill: name,
          error,
        });
        return undefined;
      }
    }
    return undefined;
  };
}

const MAX_LIST_BYTES = 5_242_880;

/** Resolves a filter's `in_file`: relative to the home, which may be written `<home>/`, with `$NAME` expanded. */
function listFilePath(
  written: string,
  { home, userHome, env }: { readonly home: string; readonly userHome: string; readonly env: Environment },
): string {
  const filled = written
    .replace(/^<home>\//, "")
    .replaceAll(
      /\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))/g,
      (whole, braced: string | undefined, bare: string | undefined) => env[braced ?? bare ?? ""] ?? whole,
    );
  return resolveWithin(home, filled, userHome);
}

/**
 * Returns the values of a file: the elements of a JSON list, the names of a JSON object, one JSON value, or else the lines
 * that are not blank. Undefined when it cannot be read. It reads the file each time, so that changes apply at once.
 */
async function readListFile(path: string): Promise<readonly unknown[] | undefined> {
  try {
    // Reading a pipe would wait, and reading a huge file would fill the memory.
    const found = await stat(path);
    if (!found.isFile() || found.size > MAX_LIST_BYTES) return undefined;
    const text = (await readFile(path, "utf8")).replace(/^\uFEFF/, "");
    return valuesOf(text);
  } catch {
    return undefined;
  }
}

function valuesOf(text: string): readonly unknown[] {
  try {
    const value = parseExactJson(text);
    if (Array.isArray(value)) return value;
    return isRecord(value) && !isExactNumber(value) ? Object.keys(value) : [value];
  } catch {
    return text
      .split(/\r?\n/)
      .map((line) => line.trim())
      .filter((line) => line !== "");
  }
}
