/** `agentd deliveries list` and `show`: nothing changes. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets as hide } from "../../config/secrets/values.ts";
import { findMessage, listMessages } from "../../store/outbox/messages.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { SHOWN_STATUSES, statusNamed, toPlatformName } from "./options.ts";
import { messageEntry, messageText, messagesTable } from "./text.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";

const MAX_LIMIT = 500;
const json = { type: "boolean", description: "Print JSON" } as const;

export const listCommand = defineCommand({
  meta: { name: "list", description: "List messages to people, newest first" },
  args: {
    status: { type: "enum", options: [...SHOWN_STATUSES], description: "Only those that stand so" },
    target: {
      type: "string",
      valueHint: "platform",
      description: "Only those to this platform, such as telegram",
    },
    ref: { type: "string", valueHint: "id", description: "Only what this run or webhook delivery owes" },
    limit: {
      type: "string",
      valueHint: "number",
      default: "50",
      description: `Messages a page, 1 to ${MAX_LIMIT}`,
    },
    before: {
      type: "string",
      valueHint: "id",
      description: "Go on where a page ended: those older than this one",
    },
    json,
  },
  async run({ args }) {
    const limit = toLimit(args.limit);
    const request = {
      ...(args.status === undefined ? {} : { statuses: [statusNamed(args.status)] }),
      ...(args.target === undefined ? {} : { platform: toPlatformName(args.target) }),
      ...(args.ref === undefined ? {} : { ref: args.ref }),
      ...(args.before === undefined ? {} : { before: args.before }),
    };
    const database = await findDatabase();
    if (!database.exists) {
      warn(noDatabase(database.location));
      if (args.json) printJson({ deliveries: [], next_before: null });
      return;
    }
    await hideSecrets();
    await withDatabase(database, async (store) => {
      const found = await listMessages(store, { ...request, limit: limit + 1 });
      const page = found.slice(0, limit);
      const next = found.length > limit ? page.at(-1)?.id : undefined;
      if (args.json)
        return printJson({ deliveries: page.map((each) => messageEntry(each)), next_before: next ?? null });
      if (page.length > 0) print(messagesTable(page, Date.now()));
      else warn("There are no such messages.");
      if (next !== undefined) warn(`There are more: --before ${next}`);
    });
  },
});

export const showCommand = defineCommand({
  meta: { name: "show", description: "Show a message: where it goes, how it went, and what to do" },
  args: {
    message: { type: "positional", required: true, description: "Id of the message (out_...)" },
    text: { type: "boolean", description: "Print what it says, too; secrets in it are masked" },
    json,
  },
  async run({ args }) {
    const database = await findDatabase();
    if (!database.exists) throw new ServiceError("not_found", noDatabase(database.location));
    await hideSecrets();
    await withDatabase(database, async (store) => {
      const found = await findMessage(store, args.message);
      if (!found) throw missing(args.message);
      const { payload, attemptLog, ...message } = found;
      const shown = args.text ? payload : undefined;
      if (args.json) printJson(messageEntry(message, { isWhole: true, payload: shown, attemptLog }));
      else print(messageText(message, { nowMs: Date.now(), payload: shown, attemptLog }));
    });
  },
});

export function missing(id: string): ServiceError {
  const hint = "`agentd deliveries list` lists what there is.";
  return new ServiceError("not_found", `There is no message ${JSON.stringify(id)}. ${hint}`);
}

/** What platforms say, and addresses, may hold them. */
async function hideSecrets(): Promise<void> {
  hide(await loadConfig(currentContext()));
}

function toLimit(text: string): number {
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be a number from 1 to ${MAX_LIMIT}, not ${JSON.stringify(text)}.`);
}
