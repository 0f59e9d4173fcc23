/** The script of a job: finds out what the agent is told, or says all there is to say. */
import { commandEnvironment } from "../../exec/process-group.ts";
import { describeScriptFailure, findScriptFile, runScriptFile } from "../../exec/script-file.ts";
import { redact } from "../../base/observe/redact.ts";
import { isRecord } from "../../base/json/schema.ts";
import { isBlank, toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "./ending.ts";
import type { CronDeps } from "../deps.ts";

export type ScriptOutcome =
  /** Readable, and without what is secret; empty when it printed nothing that can be seen. */
  | { readonly status: "said"; readonly text: string }
  /** It says that the agent need not be asked. */
  | { readonly status: "asleep" }
  | { readonly status: "failed"; readonly reason: string };

export type ScriptDeps = Pick<CronDeps, "scriptsFolder" | "envPassthrough"> & {
  readonly settings: Pick<CronDeps["settings"], "scriptTimeoutMs">;
};

/** Runs a file below the folder of scripts, in `cwd` or else where it stands. Never rejects. */
export async function runJobScript(
  { scriptsFolder, envPassthrough, settings }: ScriptDeps,
  script: string,
  cwd?: string,
): Promise<ScriptOutcome> {
  const path = await findScriptFile(script, scriptsFolder);
  if (path === undefined)
    return { status: "failed", reason: "there is no such file in the folder of scripts" };
  const ended = await runScriptFile(path, {
    env: commandEnvironment(envPassthrough, {}),
    timeoutMs: settings.scriptTimeoutMs,
    ...(cwd === undefined ? {} : { cwd }),
  });
  if (!("output" in ended)) return { status: "failed", reason: describeScriptFailure(ended) };
  const text = textOf(ended.output);
  return isAsleep(text) ? { status: "asleep" } : { status: "said", text };
}

/** How an occurrence ends that needs no agent; undefined: the agent is to be asked. */
export function endingOfScript(isScriptOnly: boolean, outcome: ScriptOutcome): Ending | undefined {
  if (outcome.status === "asleep") return quiet("The script said that there is nothing to do.");
  if (!isScriptOnly) return undefined;
  if (outcome.status === "failed") return { status: "failed", text: `The script failed: ${outcome.reason}.` };
  return outcome.text === "" ? quiet("The script printed nothing.") : { status: "ok", text: outcome.text };
}

const quiet = (why: string): Ending => ({ status: "ok", text: `[SILENT] ${why}`, isQuiet: true });

/** Colours and movements of a terminal. */
// oxlint-disable-next-line no-control-regex -- escape sequences begin with one
const TERMINAL_CODES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\))/g;

function textOf(said: Uint8Array): string {
  const text = toReadable(new TextDecoder().decode(said).replace(TERMINAL_CODES, ""));
  return isBlank(text) ? "" : redact(text.trim());
}

/** Its last line that is not empty is the JSON object `{"wakeAgent": false}`, whatever else that holds. */
function isAsleep(text: string): boolean {
  const last = text.slice(text.lastIndexOf("\n") + 1).trim();
  if (!last.startsWith("{")) return false;
  try {
    const value: unknown = JSON.parse(last);
    return isRecord(value) && value["wakeAgent"] === false;
  } catch {
    return false;
  }
}
