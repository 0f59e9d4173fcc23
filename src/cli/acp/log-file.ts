/** The log of `agentd acp` in a file, for editors that do not show standard error. */
import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import process from "node:process";

/** A fuller file becomes `<file>.1`, in place of the one before. */
const MAX_BYTES = 16_777_216;

let path: string | undefined;
let sizeBytes = 0;
let isWatching = false;

/** From now on what goes to standard error goes to this file too, absolute path; undefined: no more. */
export function keepLog(file: string | undefined): void {
  if (file === path) return;
  path = file;
  if (path === undefined) return;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    sizeBytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  } catch (error) {
    giveUp(error);
  }
  if (!isWatching) watchStderr();
}

function watchStderr(): void {
  isWatching = true;
  const { stderr } = process;
  const write = stderr.write.bind(stderr);
  stderr.write = ((chunk: string | Uint8Array, ...more: []) => {
    append(chunk);
    return write(chunk, ...more);
  }) as typeof stderr.write;
}

function append(chunk: string | Uint8Array): void {
  if (path === undefined) return;
  try {
    if (sizeBytes > MAX_BYTES) {
      renameSync(path, `${path}.1`);
      sizeBytes = 0;
    }
    appendFileSync(path, chunk, { mode: 0o600 });
    sizeBytes += typeof chunk === "string" ? Buffer.byteLength(chunk) : chunk.length;
  } catch (error) {
    giveUp(error);
  }
}

/** A log never fails its caller. */
function giveUp(error: unknown): void {
  const file = path;
  path = undefined;
  process.stderr.write(`The log file ${file} cannot be written (acp.log_file): ${String(error)}\n`);
}
