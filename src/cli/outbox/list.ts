/** `agentd outbox list` and `show`, which only read. */
import type { Message } from "../../client/http.ts";
import { AgentApiError } from "../../client/http.ts";
import { ServiceError } from "../../base/errors.ts";
import { SHOWN_STATUSES } from "../../deliver/outbox/message.ts";
import { withApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import {
  jsonOption,
  limitOption,
  requiredArgument,
  switchOption,
  textOption,
  toLimit,
} from "../kit/options.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { listMessages, MESSAGE_HEAD, messageCells, messageText, toPlatformName } from "./messages.ts";

const MAX_LIMIT = 500;

export const listCommand = defineApiCommand({
  meta: { name: "list", description: "List outbound messages, newest first" },
  args: {
    status: { type: "enum", options: [...SHOWN_STATUSES], description: "Filter by status" },
    target: textOption("platform", "Filter by platform, such as telegram"),
    ref: textOption("id", "Filter by the run or webhook delivery that created the message"),
    limit: limitOption("Messages", { max: MAX_LIMIT, fallback: 50 }),
    before: textOption("id", "Continue after this id: list older messages"),
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const query = {
      ...(args.status === undefined ? {} : { status: [args.status as Message["status"]] }),
      ...(args.target === undefined ? {} : { platform: [toPlatformName(args.target)] }),
      ...(args.ref === undefined ? {} : { ref: args.ref }),
    };
    await withApi(async (api) => {
      const { messages, next } = await listMessages(api, query, { limit, before: args.before });
      if (args.json) return printJson({ messages, next_before: next });
      const nowMs = Date.now();
      const cells = messages.map((each) => messageCells(each, nowMs));
      if (messages.length > 0) printTable(MESSAGE_HEAD, cells);
      else warn("No messages match.");
      if (next !== null) warn(`More messages: --before ${next}`);
    });
  },
});

export const showCommand = defineApiCommand({
  meta: { name: "show", description: "Show a message: its target, its attempts, and what to do next" },
  args: {
    message: requiredArgument("Id of the message (out_...)"),
    text: switchOption("Also print the text of the message; secrets are masked"),
    json: jsonOption,
  },
  async run({ args }) {
    await withApi(async ({ client, anyOwner: headers }) => {
      const query = args.text ? { include: ["text" as const] } : {};
      const { data: message } = await client
        .getMessage({ path: { message_id: args.message }, query, headers })
        .catch((error: unknown) => {
          throw isMissing(error) ? missing(args.message) : error;
        });
      if (args.json) printJson(message);
      else print(messageText(message, Date.now()));
    });
  },
});

function isMissing(error: unknown): boolean {
  return error instanceof AgentApiError && error.code === "message_not_found";
}

function missing(id: string): ServiceError {
  const hint = "`agentd outbox list` lists the messages.";
  return new ServiceError("message_not_found", `No message has the id ${JSON.stringify(id)}. ${hint}`);
}
