/** The machine of the chat: the file of earlier prompts, the clipboard, exported files and the editor. */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { redact } from "../../base/observe.ts";
import type { ChatMachine } from "../../client/conversation/actions.ts";
import { loadConfig } from "../../config/config.ts";
import { readPrivateFile, withFileLock, writePrivateFile } from "../../config/home.ts";
import { hideSecrets } from "../../config/secret-values.ts";
import type { CliContext } from "../kit/context.ts";

const HISTORY_FILE = "chat-history";
const MAX_PROMPTS = 1_000;
const MAX_PROMPT_CHARACTERS = 10_000;
/** Below the limit of private files. */
const MAX_FILE_CHARACTERS = 250_000;

/** Returns the machine of this process. The history is a file in the home: one JSON string a line, mode 0600. */
export function createChatMachine(context: CliContext): ChatMachine {
  const path = join(context.home, HISTORY_FILE);
  let keeping: Promise<unknown> = Promise.resolve();
  let secrets: Promise<void> | undefined;
  return {
    loadHistory: async () => {
      await keeping;
      return readPrompts(path);
    },
    keepPrompt: (text) => {
      const kept = keeping.then(async () => {
        secrets ??= registerSecrets(context);
        await secrets;
        await addPrompt(path, text);
      });
      // One prompt that cannot be kept does not keep the next ones away.
      keeping = kept.catch(() => {});
      return kept;
    },
    copy: (text) => copyText(text, context),
    writeNewFile: async (name, text) => {
      const file = resolve(name);
      await writeFile(file, text, { flag: "wx", mode: 0o600 });
      return file;
    },
    editText: (text) => editText(text, context),
  };
}

/** Registers the secrets of the home, so that prompts which contain one are recognised. */
async function registerSecrets({ home, env }: CliContext): Promise<void> {
  const loaded = await loadConfig({ home, env }).catch(() => undefined);
  if (loaded) hideSecrets(loaded);
}

async function readPrompts(path: string): Promise<readonly string[]> {
  const text = (await readPrivateFile(path)) ?? "";
  return text.split("\n").flatMap((line) => {
    const prompt = parseLine(line);
    return prompt === undefined ? [] : [prompt];
  });
}

function parseLine(line: string): string | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Adds a prompt as the newest one. Prompts with a credential, and very long ones, are not kept. */
async function addPrompt(path: string, text: string): Promise<void> {
  if (text.trim() === "" || text.length > MAX_PROMPT_CHARACTERS || redact(text) !== text) return;
  await withFileLock(path, async () => {
    const others = (await readPrompts(path)).filter((known) => known !== text);
    const lines = [...others, text].slice(-MAX_PROMPTS).map((prompt) => JSON.stringify(prompt));
    while (lines.length > 1 && totalLength(lines) > MAX_FILE_CHARACTERS) lines.shift();
    await writePrivateFile(path, `${lines.join("\n")}\n`);
  });
}

function totalLength(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

const COPY_TIMEOUT_MS = 5_000;

/** Programs that put their input into the clipboard, and the variable without which they cannot work. */
const COPY_PROGRAMS: readonly { readonly needs?: string; readonly words: readonly [string, ...string[]] }[] =
  [
    { needs: "WAYLAND_DISPLAY", words: ["wl-copy"] },
    { needs: "DISPLAY", words: ["xclip", "-selection", "clipboard"] },
    { words: ["pbcopy"] },
    { words: ["clip.exe"] },
  ];

async function copyText(text: string, { env }: CliContext): Promise<boolean> {
  for (const { needs, words } of COPY_PROGRAMS) {
    if (needs !== undefined && !env[needs]) continue;
    if (await feed(words, text)) return true;
  }
  return false;
}

/** Returns whether the program took the text. */
function feed([program, ...args]: readonly [string, ...string[]], text: string): Promise<boolean> {
  return new Promise((done) => {
    const child = spawn(program, args, { stdio: ["pipe", "ignore", "ignore"], timeout: COPY_TIMEOUT_MS });
    child.on("error", () => done(false));
    child.on("close", (code) => done(code === 0));
    child.stdin.on("error", () => {});
    child.stdin.end(text);
  });
}

/** Opens the text in VISUAL or EDITOR, otherwise in vi. Rejects when the editor cannot be started or fails. */
async function editText(text: string, { env }: CliContext): Promise<string> {
  const editor = env["VISUAL"] || env["EDITOR"] || "vi";
  const folder = await mkdtemp(join(tmpdir(), "agentd-edit-"));
  try {
    const file = join(folder, "prompt.md");
    await writeFile(file, text, { mode: 0o600 });
    // The variables contain commands with arguments, as for other programs: a shell splits them.
    const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], {
      stdio: "inherit",
      env: { ...process.env },
    });
    const code = await new Promise<number | null>((done, fail) => {
      child.on("error", fail);
      child.on("close", done);
    });
    if (code !== 0) throw new Error(`The editor ${editor} failed. Set EDITOR to another one.`);
    return (await readFile(file, "utf8")).replace(/\n$/, "");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
