/** Texts as files in the home, for whoever reads them there. Touches the machine. */
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/observe/log.ts";
import { writePrivateFile } from "../../config/home.ts";
import { readMessage } from "../message.ts";
import type { Delivery, SendOutcome, Target } from "../target.ts";
import { cleanText, EMPTY_ANSWER } from "../text/text.ts";
import { lstat, readdir, rm, rmdir } from "node:fs/promises";
import { redact } from "../../base/observe/redact.ts";

export interface LocalTargetOptions {
  /** Absolute path of the home of the service. */
  readonly home: string;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  /** Most files that are kept, about; default 10,000. */
  readonly maxFiles?: number;
  /** For tests. */
  readonly write?: typeof writePrivateFile;
}

const MAX_FILES = 10_000;
const MAX_DAYS = 30;
/** Files written between two looks for old ones. */
const SWEEP_EVERY = 500;
const ID = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Writes each text to `<home>/deliveries/<yyyy-mm-dd>/<id>.md`, the day in UTC on which it was owed, as Markdown. The same message is always the same file, and nobody sees half of one. What is older than 30 days
 * goes, and the oldest when there are more than 10,000.
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
      log.warn("old files of delivered messages could not be removed", { folder: root, error });
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
    const text = cleanText(message.text) || EMPTY_ANSWER;
    await write(path, `${text.trimEnd()}\n`);
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: writeFailure(error, path) };
  }
}

/** What keeps a folder from being written to, a sentence. Links are not followed: what is written here must not appear elsewhere. */
export async function folderProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isDirectory()
    ? undefined
    : `${path} is a link or a file: put a folder there, or remove it.`;
}

/** As {@link folderProblem}, of a file. */
export async function fileProblem(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isFile() ? undefined : `${path} is a link or a folder: remove it.`;
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

/** Why a file could not be written, for people. */
export function writeFailure(error: unknown, path: string): string {
  const code = codeOf(error) ?? codeOf((error as { readonly cause?: unknown }).cause) ?? "unknown reason";
  if (FULL.has(code)) return `The disk is full (${code}): ${path} could not be written. Make room.`;
  if (DENIED.has(code))
    return `${path} may not be written (${code}). Give the folder back to the user of the service.`;
  return `${path} could not be written (${code}).`;
}

/** Of the system's errors only: the codes of others say nothing about files. */
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
/** A message's file, or what a write that was cut off left beside it. */
const FILE = /^[A-Za-z0-9_-]{1,128}\.md(\.\d+)?$/;

/** Removes files in the day folders below `root`, oldest first. Whatever else lies there stays. */
async function sweepDays(root: string, { nowMs, maxDays, maxFiles }: SweepLimits): Promise<void> {
  const entries = await readdir(root, { withFileTypes: true });
  const days = entries.filter((entry) => entry.isDirectory() && DAY.test(entry.name)).map(({ name }) => name);
  const firstDay = new Date(nowMs - maxDays * DAY_MS).toISOString().slice(0, "yyyy-mm-dd".length);
  let room = maxFiles;
  for (const day of days.sort().reverse()) {
    const folder = join(root, day);
    const files = (await readdir(folder)).filter((name) => FILE.test(name));
    const kept = day < firstDay ? 0 : Math.min(room, files.length);
    room -= kept;
    // Ids grow with time: the first ones are the oldest.
    const old = files.sort().slice(0, files.length - kept);
    for (const name of old) await rm(join(folder, name), { force: true });
    if (kept === 0) await removeEmpty(folder);
  }
}

async function removeEmpty(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch {
    // Something of somebody else lies there, or something new.
  }
}

const SHOWN_CHARACTERS = 200;

/** Writes the start of each text to the log: for whoever only wants to see what would be sent. */
export function createLogTarget(log: Log): Target {
  return {
    name: "log",
    isOrdered: false,
    // A line that stands there twice harms nobody.
    supportsIdempotency: true,
    async send({ payload, ref }) {
      const { text = "" } = payload as { readonly text?: string };
      const shown = Array.from(redact(text)).slice(0, SHOWN_CHARACTERS).join("");
      log.info("a response for the log", { ref, text: shown });
      return { status: "delivered" };
    },
  };
}
