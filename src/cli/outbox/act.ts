/** `agentd outbox retry` and `drop`, which change messages. */
import process from "node:process";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import {
  dropMessage,
  listMessages,
  retryMessage,
  type MessageRefusal,
  type MessageStatus,
} from "../../store/outbox/messages.ts";
import type { Store } from "../../store/store.ts";
import { onMessageSettled } from "../../app/wire-delivery.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import { confirm } from "../kit/confirm.ts";
import { toPlatformName } from "./messages.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";

/** Most ids in one call. */
const MAX_IDS = 1_000;
/** Dead messages read at a time. */
const PAGE = 500;

const message = {
  type: "positional",
  required: false,
  valueHint: "...",
  description: "Ids of messages (out_...)",
} as const;
const target = {
  type: "string",
  valueHint: "platform",
  description: "With --all-dead: only messages to this platform, such as telegram",
} as const;
const json = { type: "boolean", description: "Print JSON" } as const;

export const retryCommand = defineCommand({
  meta: {
    name: "retry",
    description: "Make messages due now, with a new set of attempts; exit code 1 when one cannot be retried",
  },
  args: {
    message,
    "all-dead": { type: "boolean", description: "All messages with status dead, instead of ids" },
    target,
    json,
  },
  async run({ args, rawArgs }) {
    const choice = toChoice(args, positionalsOf(rawArgs));
    await inDatabase(async (store) => {
      const ids = choice.ids ?? (await deadMessages(store, choice.platform));
      const outcomes = await each(ids, (id) => retryMessage(store, id, { changed: onMessageSettled }));
      report(outcomes, { done: "retried", isJson: args.json === true, isAll: choice.ids === undefined });
    });
  },
});

export const dropCommand = defineCommand({
  meta: {
    name: "drop",
    description:
      "Drop messages. They stay in the outbox with status dropped; exit code 1 when one cannot be dropped",
  },
  args: {
    message,
    "all-dead": { type: "boolean", description: "All messages with status dead, instead of ids" },
    target,
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
    json,
  },
  async run({ args, rawArgs }) {
    const choice = toChoice(args, positionalsOf(rawArgs));
    if (!args.yes && !confirm.isPossible()) {
      throw new UsageError(
        "Standard input is not a terminal, so the command cannot ask for confirmation. Pass --yes to drop the messages.",
      );
    }
    await inDatabase(async (store) => {
      const ids = choice.ids ?? (await deadMessages(store, choice.platform));
      const count = ids.length === 1 ? "1 message" : `${ids.length} messages`;
      if (
        ids.length > 0 &&
        !args.yes &&
        !(await confirm.ask(`Drop ${count}? ${ids.length === 1 ? "It" : "They"} will never be sent.`))
      ) {
        warn("Nothing was dropped.");
        process.exitCode = EXIT_FAILURE;
        return;
      }
      const outcomes = await each(ids, (id) => dropMessage(store, id, { changed: onMessageSettled }));
      report(outcomes, { done: "dropped", isJson: args.json === true, isAll: choice.ids === undefined });
    });
  },
});

interface Choice {
  /** Undefined: all dead messages. */
  readonly ids: readonly string[] | undefined;
  readonly platform: string | undefined;
}

function toChoice(
  args: { readonly "all-dead"?: boolean | undefined; readonly target?: string | undefined },
  ids: readonly string[],
): Choice {
  const isAll = args["all-dead"] === true;
  if (isAll === ids.length > 0) throw new UsageError("Give either message ids or --all-dead.");
  if (args.target !== undefined && !isAll) throw new UsageError("--target needs --all-dead.");
  if (ids.length > MAX_IDS) throw new UsageError(`Give at most ${MAX_IDS} messages at a time.`);
  const platform = args.target === undefined ? undefined : toPlatformName(args.target);
  return { ids: isAll ? undefined : [...new Set(ids)], platform };
}

async function deadMessages(store: Store, platform: string | undefined): Promise<readonly string[]> {
  const ids: string[] = [];
  const statuses: readonly MessageStatus[] = ["dead"];
  for (;;) {
    const before = ids.at(-1);
    const page = await listMessages(store, {
      statuses,
      limit: PAGE,
      ...(platform === undefined ? {} : { platforms: [platform] }),
      ...(before === undefined ? {} : { before }),
    });
    ids.push(...page.map(({ id }) => id));
    if (page.length < PAGE) return ids;
  }
}

type Outcome = "retried" | "dropped" | MessageRefusal;

/** Runs `act` for one id after the other: each is a short transaction beside those of a running service. */
async function each(
  ids: readonly string[],
  act: (id: string) => Promise<Outcome>,
): Promise<readonly (readonly [string, Outcome])[]> {
  const outcomes: (readonly [string, Outcome])[] = [];
  for (const id of ids) outcomes.push([id, await act(id)]);
  return outcomes;
}

const REFUSALS: Readonly<Record<MessageRefusal, string>> = {
  missing: "no message has this id; `agentd outbox list` lists the messages",
  done: "it is already delivered or dropped",
  leased: "it is being sent now; try again when the attempt has ended",
  uncertain: "it may have arrived",
  changed: "its status has changed",
};

function report(
  outcomes: readonly (readonly [string, Outcome])[],
  {
    done,
    isJson,
    isAll,
  }: {
    readonly done: "retried" | "dropped";
    readonly isJson: boolean;
    /** All dead messages were meant: to find none is not a failure. */
    readonly isAll: boolean;
  },
): void {
  const isDone = (outcome: Outcome) => outcome === done;
  if (isJson) printJson({ messages: outcomes.map(([id, outcome]) => ({ id, outcome })) });
  for (const [id, outcome] of isJson ? [] : outcomes) {
    if (outcome === "retried" || outcome === "dropped") print(`${outcome} ${id}`);
    else warn(`${JSON.stringify(id)}: ${REFUSALS[outcome]}.`);
  }
  if (outcomes.length === 0 && !isJson) warn("No dead messages: nothing to do.");
  if (done === "retried" && !isJson && outcomes.some(([, outcome]) => isDone(outcome))) {
    warn("A running `agentd gateway` sends due messages within seconds.");
  }
  if ((outcomes.length === 0 && !isAll) || !outcomes.every(([, outcome]) => isDone(outcome)))
    process.exitCode = EXIT_FAILURE;
}

async function inDatabase(work: (store: Store) => Promise<void>): Promise<void> {
  const database = await findDatabase();
  if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
  await withDatabase(database, work);
}
