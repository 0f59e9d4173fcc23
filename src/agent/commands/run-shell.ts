import type { RunShell } from "./quick.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import { commandEnvironment } from "../../exec/environment.ts";
import { OutputExcerpt } from "../../exec/output-excerpt.ts";
import { runCommand } from "../../exec/process-group.ts";

const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 4_000;

/** Runs the shell commands of the configuration: at most 30 seconds, at most 4,000 bytes of output. */
export function createRunShell(envPassthrough: readonly string[]): RunShell {
  return async (command, { cwd, signal }) => {
    const excerpt = new OutputExcerpt(MAX_OUTPUT_BYTES);
    const end = await runCommand(command, {
      cwd,
      env: { ...commandEnvironment(envPassthrough, {}), PWD: cwd },
      timeoutMs: TIMEOUT_MS,
      onOutput: (bytes) => excerpt.push(bytes),
      signal,
    }).catch(notStarted);
    if (end.stoppedBy === "abort") throw signal.reason;
    const text = redact(excerpt.text());
    if (end.stoppedBy === "timeout") return `${text}\n(stopped after ${TIMEOUT_MS / 1000} s)`.trim();
    if (end.exitCode !== 0) return `${text}\n(exit code ${end.exitCode ?? "none"})`.trim();
    return text === "" ? "(no output)" : text;
  };
}

/** Whatever the shell does, it answers; only its start can fail. ServiceError `command_not_started`. */
export function notStarted(cause: unknown): never {
  throw new ServiceError(
    "command_not_started",
    "The command could not be started. Is the folder of the session, or the workspace, still there?",
    { cause },
  );
}
