import { commandEnvironment } from "../../exec/process-group.ts";
import { describeScriptFailure, findScriptFile, runScriptFile } from "../../exec/script-file.ts";
import { redact } from "../../base/observe/redact.ts";
import { isRecord } from "../../base/json/schema.ts";
import { isBlank, toReadable } from "../../deliver/text/text.ts";
import type { Ending } from "./ending.ts";
import type { CronDeps } from "../deps.ts";

export type ScriptOutcome =
  /** Readable and without secrets; empty when it printed nothing visible. */
  | { readonly status: "printed"; readonly text: string }
  /** It asks to skip the agent. */
  | { readonly status: "asleep" }
  | { readonly status: "failed"; readonly reason: string };

export type ScriptDeps = Pick<CronDeps, "scriptsFolder" | "envPassthrough"> & {
  readonly settings: Pick<CronDeps["settings"], "scriptTimeoutMs">;
};

/** Runs a file in the folder of scripts, in `cwd` or else in its own folder. Never rejects. */
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
  return isAsleep(text) ? { status: "asleep" } : { status: "printed", text };
}

/** Returns the result of an occurrence that needs no agent; undefined when the agent must run. */
export function endingOfScript(isScriptOnly: boolean, outcome: ScriptOutcome): Ending | undefined {
  if (outcome.status === "asleep") return quiet("The script reported nothing to do.");
  if (!isScriptOnly) return undefined;
  if (outcome.status === "failed") return { status: "failed", text: `The script failed: ${outcome.reason}.` };
  return outcome.text === "" ? quiet("The script printed nothing.") : { status: "ok", text: outcome.text };
}

const quiet = (why: string): Ending => ({ status: "ok", text: `[SILENT] ${why}`, isQuiet: true });

/** Colours and cursor movements of a terminal. */
// oxlint-disable-next-line no-control-regex -- escape sequences begin with one
const TERMINAL_CODES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\))/g;

function textOf(output: Uint8Array): string {
  const text = toReadable(new TextDecoder().decode(output).replace(TERMINAL_CODES, ""));
  return isBlank(text) ? "" : redact(text.trim());
}

/** Whether the last line is a JSON object with `"wakeAgent": false`. */
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
