/** `agentd outbox retry` and `drop`, which change messages. */
import process from "node:process";
import { AgentApiError } from "../../client/http.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { withApi, type Api } from "../kit/api.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { confirm } from "../kit/confirm.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { listMessages, toPlatformName } from "./messages.ts";

/** Most ids in one call. */
const MAX_IDS = 1_000;

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

export const retryCommand = defineApiCommand({
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
    await withApi(async (api) => {
      const outcomes = await change(api, await findChosen(api, choice), "retried");
      report(outcomes, { done: "retried", isJson: args.json === true, isAll: choice.ids === undefined });
    });
  },
});

export const dropCommand = defineApiCommand({
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
    await withApi(async (api) => {
      const chosen = await findChosen(api, choice);
      const count = chosen.length === 1 ? "1 message" : `${chosen.length} messages`;
      if (
        chosen.length > 0 &&
        !args.yes &&
        !(await confirm.ask(`Drop ${count}? ${chosen.length === 1 ? "It" : "They"} will never be sent.`))
      ) {
        warn("Nothing was dropped.");
        process.exitCode = EXIT_FAILURE;
        return;
      }
      const outcomes = await change(api, chosen, "dropped");
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

/** A message to change; without an owner it does not exist. */
interface Chosen {
  readonly id: string;
  readonly owner?: string;
}

async function findChosen(api: Api, { ids, platform }: Choice): Promise<readonly Chosen[]> {
  if (ids === undefined) {
    const filter = { status: ["dead" as const], ...(platform === undefined ? {} : { platform: [platform] }) };
    const { messages } = await listMessages(api, filter, { limit: Number.POSITIVE_INFINITY });
    return messages;
  }
  const chosen: Chosen[] = [];
  for (const id of ids) chosen.push({ id, ...(await ownerOf(api, id)) });
  return chosen;
}

async function ownerOf({ client, anyOwner: headers }: Api, id: string): Promise<{ readonly owner?: string }> {
  try {
    const { owner } = (await client.getMessage({ path: { message_id: id }, headers })).data;
    return { owner };
  } catch (error) {
    if (error instanceof AgentApiError && error.code === "message_not_found") return {};
    throw error;
  }
}

type Done = "retried" | "dropped";
/** Done, or the code of the API that says why not. */
type Outcome = readonly [id: string, outcome: string];

/** Changes messages, those of one owner at a time. */
async function change(api: Api, chosen: readonly Chosen[], done: Done): Promise<readonly Outcome[]> {
  const outcomes = new Map<string, string>();
  for (const [owner, messages] of Map.groupBy(chosen, (each) => each.owner)) {
    for (let at = 0; at < messages.length; at += MAX_IDS) {
      const ids = messages.slice(at, at + MAX_IDS).map(({ id }) => id);
      const refused = owner === undefined ? undefined : await changeOfOwner(api, { owner, ids }, done);
      for (const id of ids) outcomes.set(id, refused ? (refused.get(id) ?? done) : "message_not_found");
    }
  }
  return chosen.map(({ id }) => [id, outcomes.get(id) ?? done]);
}

/** Returns the codes of the messages that were refused. */
async function changeOfOwner(
  { client, ownedBy }: Api,
  { owner, ids }: { readonly owner: string; readonly ids: string[] },
  done: Done,
): Promise<ReadonlyMap<string, string>> {
  const headers = ownedBy(owner);
  const { data } =
    done === "retried"
      ? await client.retryMessages({ body: { ids, accept_duplicate: true }, headers })
      : await client.dropMessages({ body: { ids }, headers });
  return new Map(data.refused.map(({ id, code }) => [id, code]));
}

const REFUSALS: Readonly<Record<string, string>> = {
  message_not_found: "no message has this id; `agentd outbox list` lists the messages",
  message_not_retryable: "it is already delivered or dropped",
  message_being_sent: "it is being sent now; try again when the attempt has ended",
};

function report(
  outcomes: readonly Outcome[],
  {
    done,
    isJson,
    isAll,
  }: {
    readonly done: Done;
    readonly isJson: boolean;
    /** All dead messages were meant: to find none is not a failure. */
    readonly isAll: boolean;
  },
): void {
  const isDone = (outcome: string) => outcome === done;
  if (isJson) printJson({ messages: outcomes.map(([id, outcome]) => ({ id, outcome })) });
  for (const [id, outcome] of isJson ? [] : outcomes) {
    if (isDone(outcome)) print(`${outcome} ${id}`);
    else warn(`${JSON.stringify(id)}: ${REFUSALS[outcome] ?? "its status has changed"}.`);
  }
  if (outcomes.length === 0 && !isJson) warn("No dead messages: nothing to do.");
  if (done === "retried" && !isJson && outcomes.some(([, outcome]) => isDone(outcome))) {
    warn("A running `agentd gateway` sends due messages within seconds.");
  }
  if ((outcomes.length === 0 && !isAll) || !outcomes.every(([, outcome]) => isDone(outcome)))
    process.exitCode = EXIT_FAILURE;
}
