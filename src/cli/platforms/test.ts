/** `agentd platforms test`: a real message through a platform, now, past the outbox. */
import process from "node:process";
import { defineCommand } from "citty";
import type { PlatformName } from "../../config/platform-settings.ts";
import { platforms as traits } from "../../deliver/platform/names.ts";
import { formatTarget } from "../../deliver/target.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { toPair, toPlatform } from "./options.ts";
import { sendTrial, trialIsGood, trialText, untilInterrupted, type TrialMessage } from "./trial.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { oneLine } from "../sessions/text.ts";
import { repeatedOption } from "../kit/options.ts";

const MAX_TIMEOUT_SECONDS = 600;
/** As shells have it for a program that Ctrl-C ended. */
const EXIT_INTERRUPTED = 130;

export const testCommand = defineCommand({
  meta: {
    name: "test",
    description: "Send a real message through a platform, now; exit code 0 when the platform took it",
  },
  args: {
    platform: {
      type: "positional",
      required: true,
      description: "Such as telegram; `agentd platforms list` has all",
    },
    "chat-id": { type: "string", valueHint: "id", description: "Where to; without it the home channel" },
    "thread-id": { type: "string", valueHint: "id", description: "Thread or topic of the chat" },
    text: {
      type: "string",
      valueHint: "markdown",
      description: "What to say; without it a word of greeting",
    },
    extra: {
      type: "string",
      valueHint: "key=value",
      description: "What the platform is told besides, as deliver_extra; may be given again",
    },
    timeout: { type: "string", valueHint: "seconds", default: "60", description: "Longest time it may take" },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args, rawArgs }) {
    const platform = toPlatform(args.platform);
    const message: TrialMessage = {
      platform,
      chat: idOf(args["chat-id"], "chat-id"),
      thread: idOf(args["thread-id"], "thread-id"),
      text: args.text,
      extra: Object.fromEntries(repeatedOption(rawArgs, "extra").map((pair) => toPair(pair, "extra"))),
    };
    refuseStrayChat(message);
    const timeoutMs = toTimeout(args.timeout) * 1000;
    const onSend = (address: string) => {
      if (!args.json) print(sendingText(platform, address));
    };
    const trial = await sendTrial(message, { timeoutMs, signal: untilInterrupted(), onSend });
    if (args.json) printJson(trial);
    else if (trialIsGood(trial)) print(trialText(trial));
    else warn(trialText(trial));
    if (!trialIsGood(trial)) process.exitCode = trial.outcome === "stopped" ? EXIT_INTERRUPTED : EXIT_FAILURE;
  },
});

function sendingText(platform: PlatformName, address: string): string {
  const none = address === "" && traits[platform].address !== "none";
  const chat = none ? ", without a chat: none was given, and there is no home channel" : "";
  return `Sending to ${oneLine(formatTarget({ platform, address }))}${chat}`;
}

function refuseStrayChat({ platform, chat, thread }: TrialMessage): void {
  if (traits[platform].address !== "none" || (chat ?? thread) === undefined) return;
  throw new UsageError(
    `${platform} has no chats. What it needs is given with --extra, such as --extra repo=owner/name.`,
  );
}

function idOf(text: string | undefined, name: string): string | undefined {
  if (text === undefined || text.trim() !== "") return text?.trim();
  throw new UsageError(`--${name} is empty. Leave it out to use the home channel.`);
}

function toTimeout(text: string): number {
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (seconds >= 1 && seconds <= MAX_TIMEOUT_SECONDS) return seconds;
  throw new UsageError(`--timeout must be a number of seconds from 1 to ${MAX_TIMEOUT_SECONDS}.`);
}
