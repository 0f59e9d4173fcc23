/** Texts as files in the home, for whoever reads them there. Touches the machine. */
import { join } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { Log } from "../../../base/observe/log.ts";
import { writePrivateFile } from "../../../config/home.ts";
import { readMessage } from "../../message.ts";
import type { Delivery, SendOutcome, Target } from "../../target.ts";
import { cleanText, EMPTY_ANSWER } from "../../text/text.ts";
import { fileProblem, folderProblem, writeFailure } from "./file.ts";
import { sweepDays } from "./sweep.ts";

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
