/** Texts as files in the home, for whoever reads them there. Touches the machine. */
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { writePrivateFile } from "../../config/home.ts";
import { readMessage } from "../message.ts";
import type { Delivery, SendOutcome, Target } from "../target.ts";
import { cleanText, EMPTY_ANSWER } from "../text.ts";
import { sweepDays } from "./local-sweep.ts";

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
    knowsRepeats: true,
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
    const flaw = (await notFolder(root)) ?? (await notFolder(folder)) ?? (await notFile(path));
    if (flaw !== undefined) return { status: "permanent", error: flaw };
    const text = cleanText(message.text) || EMPTY_ANSWER;
    await write(path, `${text.trimEnd()}\n`);
    return { status: "delivered" };
  } catch (error) {
    return { status: "retry", error: failureOf(error, path) };
  }
}

/** Links are not followed: what is written here must not appear elsewhere. */
async function notFolder(path: string): Promise<string | undefined> {
  const found = await existing(path);
  return found === undefined || found.isDirectory()
    ? undefined
    : `${path} is a link or a file: put a folder there, or remove it.`;
}

async function notFile(path: string): Promise<string | undefined> {
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

function failureOf(error: unknown, path: string): string {
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
