/** `agentd outbox list` and `show`, which only read. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig } from "../../config/config.ts";
import { hideSecrets as hide } from "../../config/secret-values.ts";
import { SHOWN_STATUSES } from "../../deliver/outbox/message.ts";
import { findMessage, listMessages } from "../../store/outbox/messages.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import {
  statusNamed,
  toPlatformName,
  messageEntry,
  messageText,
  MESSAGE_HEAD,
  messageCells,
} from "./messages.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { findDatabase, noDatabase, withDatabase } from "../kit/database.ts";

const MAX_LIMIT = 500;
const json = { type: "boolean", description: "Print JSON" } as const;

export const listCommand = defineCommand({
  meta: { name: "list", description: "List outbound messages, newest first" },
  args: {
    status: { type: "enum", options: [...SHOWN_STATUSES], description: "Filter by status" },
    target: {
      type: "string",
      valueHint: "platform",
      description: "Filter by platform, such as telegram",
    },
    ref: {
      type: "string",
      valueHint: "id",
      description: "Filter by the run or webhook delivery that created the message",
    },
    limit: {
      type: "string",
      valueHint: "number",
      default: "50",
      description: `Page size, 1 to ${MAX_LIMIT}`,
    },
    before: {
      type: "string",
      valueHint: "id",
      description: "Continue after this id: list older messages",
    },
    json,
  },
  async run({ args }) {
    const limit = toLimit(args.limit);
    const request = {
      ...(args.status === undefined ? {} : { statuses: [statusNamed(args.status)] }),
      ...(args.target === undefined ? {} : { platforms: [toPlatformName(args.target)] }),
      ...(args.ref === undefined ? {} : { ref: args.ref }),
      ...(args.before === undefined ? {} : { before: args.before }),
    };
    const database = await findDatabase();
    if (!database.exists) {
      warn(noDatabase(database.location));
      if (args.json) printJson({ messages: [], next_before: null });
      return;
    }
    await hideSecrets();
    await withDatabase(database, async (store) => {
      const found = await listMessages(store, { ...request, limit: limit + 1 });
      const page = found.slice(0, limit);
      const next = found.length > limit ? page.at(-1)?.id : undefined;
      if (args.json)
        return printJson({ messages: page.map((each) => messageEntry(each)), next_before: next ?? null });
      const nowMs = Date.now();
      const cells = page.map((each) => messageCells(each, nowMs));
      if (page.length > 0) printTable(MESSAGE_HEAD, cells);
      else warn("No messages match.");
      if (next !== undefined) warn(`More messages: --before ${next}`);
    });
  },
});

export const showCommand = defineCommand({
  meta: { name: "show", description: "Show a message: its target, its attempts, and what to do next" },
  args: {
    message: { type: "positional", required: true, description: "Id of the message (out_...)" },
    text: { type: "boolean", description: "Also print the text of the message; secrets are masked" },
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

function missing(id: string): ServiceError {
  const hint = "`agentd outbox list` lists the messages.";
  return new ServiceError("not_found", `No message has the id ${JSON.stringify(id)}. ${hint}`);
}

/** Errors of platforms and addresses may contain secrets. */
async function hideSecrets(): Promise<void> {
  hide(await loadConfig(currentContext()));
}

function toLimit(text: string): number {
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new UsageError(`--limit must be a number from 1 to ${MAX_LIMIT}, not ${JSON.stringify(text)}.`);
}
