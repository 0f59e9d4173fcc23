/** `agentd platforms test`: sends a message through a platform, without the outbox. */
import process from "node:process";
import type { TestPlatformBody } from "../../client/http.ts";
import type { PlatformName } from "../../config/platform-settings.ts";
import { platforms as traits } from "../../deliver/target.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { testPlatform, trialIsGood, trialText } from "./trial.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { repeatedOption } from "../kit/options.ts";
import { suggest } from "../../base/suggest.ts";
import { platformNames } from "../../deliver/platform/platforms.ts";

const MAX_TIMEOUT_SECONDS = 50;

export const testCommand = defineApiCommand({
  meta: {
    name: "test",
    description: "Send a test message through a platform; exit code 0 when the platform accepted it",
  },
  args: {
    platform: {
      type: "positional",
      required: true,
      description: "Name of the platform; `agentd platforms list` lists all",
    },
    "chat-id": { type: "string", valueHint: "id", description: "Chat; default: the home channel" },
    "thread-id": { type: "string", valueHint: "id", description: "Thread or topic of the chat" },
    text: {
      type: "string",
      valueHint: "markdown",
      description: "Text; default: a greeting",
    },
    extra: {
      type: "string",
      valueHint: "key=value",
      description: "Further fields, as in deliver_extra. Repeatable.",
    },
    timeout: { type: "string", valueHint: "seconds", default: "50", description: "Timeout" },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args, rawArgs }) {
    const platform = toPlatform(args.platform);
    const chat = idOf(args["chat-id"], "chat-id");
    const thread = idOf(args["thread-id"], "thread-id");
    refuseStrayChat(platform, chat ?? thread);
    const body: TestPlatformBody = {
      ...(chat === undefined ? {} : { chat_id: chat }),
      ...(thread === undefined ? {} : { thread_id: thread }),
      ...(args.text === undefined ? {} : { text: args.text }),
      extra: Object.fromEntries(repeatedOption(rawArgs, "extra").map((pair) => toPair(pair, "extra"))),
      timeout_seconds: toTimeout(args.timeout),
    };
    const trial = await testPlatform(platform, body);
    if (args.json) printJson(trial);
    else if (trialIsGood(trial)) print(trialText(trial));
    else warn(trialText(trial));
    if (!trialIsGood(trial)) process.exitCode = EXIT_FAILURE;
  },
});

function refuseStrayChat(platform: PlatformName, chat: string | undefined): void {
  if (traits[platform].address !== "none" || chat === undefined) return;
  throw new UsageError(`${platform} has no chats. Use --extra, such as --extra repo=owner/name.`);
}

function idOf(text: string | undefined, name: string): string | undefined {
  if (text === undefined || text.trim() !== "") return text?.trim();
  throw new UsageError(`--${name} is empty. Omit it to use the home channel.`);
}

function toTimeout(text: string): number {
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (seconds >= 1 && seconds <= MAX_TIMEOUT_SECONDS) return seconds;
  throw new UsageError(`--timeout must be a number of seconds from 1 to ${MAX_TIMEOUT_SECONDS}.`);
}

/** Returns the configurable platform of that name. Throws UsageError for any other. */
export function toPlatform(text: string): PlatformName {
  const found = platformNames.find((name) => name === text);
  if (found) return found;
  if (Object.hasOwn(traits, text))
    throw new UsageError(`${text} needs no configuration and cannot be tested.`);
  throw new UsageError(`${JSON.stringify(text)} is not a platform${suggest(text, platformNames)}`);
}

/** Parses `key=value` of an option. The error never contains the value. */
export function toPair(text: string, option: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new UsageError(`--${option} must be key=value.`);
}
