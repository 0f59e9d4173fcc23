/** Targets on this machine: files in the home, and the log. Touches the machine. */
import { join } from "node:path";
import type { Clock } from "../../base/time.ts";
import { type Log, redact } from "../../base/observe.ts";
import { writePrivateFile } from "../../config/home.ts";
import { joinText, readMessage, type Delivery, type SendOutcome, type Target, cleanText } from "../target.ts";
import { EMPTY_ANSWER } from "../text/document.ts";
import { lstat, readdir, rm, rmdir } from "node:fs/promises";

export interface LocalTargetOptions {
  /** Absolute path of the home of the service. */
  readonly home: string;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  /** Approximate maximum number of files; default 10,000. */
  readonly maxFiles?: number;
  /** For tests. */
  readonly write?: typeof writePrivateFile;
}

const MAX_FILES = 10_000;
const MAX_DAYS = 30;
/** Files written between two removals of old ones. */
const SWEEP_EVERY = 500;
const ID = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Writes each text as Markdown to `<home>/deliveries/<yyyy-mm-dd>/<id>.md`, with the UTC day on which it was enqueued.
 * A message always has the same file, and files are written atomically. Files older than 30 days are removed, and the
 * oldest beyond 10,000.
 */
export function createLocalTarget(options: LocalTargetOptions): Target {
  const { home, clock, log, maxFiles = MAX_FILES, write = writePrivateFile } = options;
  const root = join(home, "deliveries");
  let untilSweep = 0;
  let sweeping = Promise.resolve();
  const sweep = async () => {
    try {
      await sweepDays(root, { nowMs: clock.now(), maxDays: MAX_DAYS, maxFiles });
    } catch (error) {
      log.warn("cannot remove old files of delivered messages", { folder: root, error });
    }
  };
  return {
    name: "local",
    isOrdered: false,
    supportsIdempotency: true,
    async send(delivery) {
      const outcome = await writeMessage(root, delivery, write);
      if (outcome.status !== "delivered" || untilSweep-- > 0) return outcome;
      untilSweep = Math.min(SWEEP_EVERY, maxFiles);
      sweeping = sweeping.then(sweep);
      return outcome;
    },
    close: () => sweeping,
  };
}

async function writeMessage(
  root: string,
  delivery: Delivery,
  write: typeof writePrivateFile,
): Promise<SendOutcome> {
  const message = readMessage("local", delivery);
  if (!message) return { status: "permanent", error: "The message has no text." };
  if (!ID.test(delivery.id)) return { status: "permanent", error: "The message's id cannot name a file." };
  const folder = join(root, new Date(delivery.createdAtMs).toISOString().slice(0, "yyyy-mm-dd".length));
  const path = join(folder, `${delivery.id}.md`);
  try {
    const problem = (await folderProblem(root)) ?? (await folderProblem(folder)) ?? (await fileProblem(path));
    if (problem !== undefined) return { status: "permanent", error: problem };
    const text = cleanText(joinText(message.text)) || EMPTY_ANSWER;
    await write(path, `${text.trimEnd()}\n`);
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: writeFailure(error, path) };
  }
}

/**
 * Returns why a folder cannot be written to, as a sentence. Links are not followed: the files must stay in the home.
 */
export async function folderProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isDirectory()
    ? undefined
    : `${path} is a link or a file. Remove it, or replace it with a folder.`;
}

/** Returns why a file cannot be written, as a sentence. */
export async function fileProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isFile() ? undefined : `${path} is a link or a folder. Remove it.`;
}

async function existing(path: string) {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

const FULL = new Set(["ENOSPC", "EDQUOT"]);
const DENIED = new Set(["EACCES", "EPERM", "EROFS"]);

/** Returns why a file could not be written, and what to do. */
export function writeFailure(error: unknown, path: string): string {
  const code = codeOf(error) ?? codeOf((error as { readonly cause?: unknown }).cause) ?? "unknown reason";
  if (FULL.has(code)) return `Cannot write ${path}: the disk is full (${code}). Free some space.`;
  if (DENIED.has(code))
    return `Cannot write ${path}: permission denied (${code}). Make the user of the service the owner of the folder.`;
  return `Cannot write ${path} (${code}).`;
}

/** Returns the code of a system error; other codes say nothing about files. */
function codeOf(error: unknown): string | undefined {
  const { code } = Object(error) as { readonly code?: unknown };
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

interface SweepLimits {
  readonly nowMs: number;
  readonly maxDays: number;
  readonly maxFiles: number;
}

const DAY_MS = 86_400_000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
/** A message's file, or the remains of an interrupted write. */
const FILE = /^[A-Za-z0-9_-]{1,128}\.md(\.\d+)?$/;

/** Removes old files in the day folders below `root`, oldest first. Other files stay. */
async function sweepDays(root: string, { nowMs, maxDays, maxFiles }: SweepLimits): Promise<void> {
  const entries = await readdir(root, { withFileTypes: true });
  const days = entries.filter((entry) => entry.isDirectory() && DAY.test(entry.name)).map(({ name }) => name);
  const firstDay = new Date(nowMs - maxDays * DAY_MS).toISOString().slice(0, "yyyy-mm-dd".length);
  let left = maxFiles;
  for (const day of days.sort().reverse()) {
    const folder = join(root, day);
    const files = (await readdir(folder)).filter((name) => FILE.test(name));
    const kept = day < firstDay ? 0 : Math.min(left, files.length);
    left -= kept;
    // Ids sort by time: the first ones are the oldest.
    const old = files.sort().slice(0, files.length - kept);
    for (const name of old) await rm(join(folder, name), { force: true });
    if (kept === 0) await removeEmpty(folder);
  }
}

async function removeEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch {
    // The folder contains other files, or new ones.
  }
}

const SHOWN_CHARACTERS = 200;

/** Writes the start of each text to the log, for trying out what would be sent. */
export function createLogTarget(log: Log): Target {
  return {
    name: "log",
    isOrdered: false,
    // A duplicate log line is harmless.
    supportsIdempotency: true,
    async send({ payload, ref }) {
      const { text = "" } = payload as { readonly text?: string };
      logMessage(log, { ref, text });
      return { status: "delivered" };
    },
  };
}

/** Writes the start of a message to the log. */
export function logMessage(
  log: Log,
  { ref, text }: { readonly ref: string | null | undefined; readonly text: string },
): void {
  const characters = Array.from(redact(text));
  const left = characters.length - SHOWN_CHARACTERS;
  const shown = characters.slice(0, SHOWN_CHARACTERS).join("");
  log.info("a response for the log", {
    ref,
    text: left > 0 ? `${shown}… (${left} more characters)` : shown,
  });
}
