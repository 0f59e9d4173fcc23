/** The image in the clipboard of this machine. Touches the machine. */
import { execFile } from "node:child_process";
import type { Environment } from "../../config/home.ts";

const PROGRAMS: readonly { readonly needs?: string; readonly words: readonly [string, ...string[]] }[] = [
  { needs: "WAYLAND_DISPLAY", words: ["wl-paste", "--no-newline", "--type", "image/png"] },
  { needs: "DISPLAY", words: ["xclip", "-selection", "clipboard", "-t", "image/png", "-o"] },
  { words: ["pngpaste", "-"] },
];
const TIMEOUT_MS = 5_000;
const MAX_BYTES = 16_777_216;

/** Undefined when there is no image, or no program that could tell. */
export async function readClipboardImage(env: Environment, signal: AbortSignal): Promise<Buffer | undefined> {
  for (const { needs, words } of PROGRAMS) {
    if (needs !== undefined && !env[needs]) continue;
    const bytes = await output(words, env, signal);
    if (bytes !== undefined && bytes.length > 0) return bytes;
  }
  return undefined;
}

function output(
  [program, ...args]: readonly [string, ...string[]],
  env: Environment,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const options = {
      encoding: "buffer",
      env: { ...env },
      timeout: TIMEOUT_MS,
      maxBuffer: MAX_BYTES,
      killSignal: "SIGKILL",
      signal,
    } as const;
    execFile(program, args, options, (error, stdout) => resolve(error ? undefined : stdout));
  });
}
