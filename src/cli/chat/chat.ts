/** `agentd chat`: chat with the agent, at a terminal or through pipes. */
import process from "node:process";
import { defineCommand } from "citty";
import type { ChatProgram } from "../../chat/run-chat.ts";
import type { SessionTarget } from "../../chat/current-session.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, warn } from "../kit/output.ts";
import { readVersion } from "../kit/version.ts";
import { EXIT_FAILURE } from "./run.ts";
import { fstatSync } from "node:fs";
import { readStandardInput } from "../kit/streams.ts";

/** Exit code of an interrupted program, as shells expect. */
const EXIT_INTERRUPTED = 130;

export const chatCommand = defineCommand({
  meta: {
    name: "chat",
    description:
      "Chat with the agent. Without a terminal it prints one answer: `echo hi | agentd chat`, `agentd chat hi > answer`.",
  },
  args: {
    prompt: {
      type: "positional",
      required: false,
      description: "The first prompt; piped input is appended",
    },
    resume: { type: "string", valueHint: "id or title", description: "Continue this session" },
    continue: { type: "boolean", description: "Continue the most recent session" },
    model: {
      type: "string",
      valueHint: "provider:model",
      description: "Use this model in this session",
    },
    cwd: {
      type: "string",
      valueHint: "folder",
      description: "Working folder of a new session (default: the current folder, unless --url is given)",
    },
    url: {
      type: "string",
      valueHint: "url",
      description:
        "Attach to the gateway at this URL, such as http://127.0.0.1:8642, instead of starting one",
    },
    token: {
      type: "string",
      valueHint: "key",
      description: "API key for --url; prefer API_SERVER_KEY, which no process list shows",
    },
    attach: {
      type: "boolean",
      description: "Attach to the gateway of this home, started by `agentd gateway`, instead of starting one",
    },
    "no-color": { type: "boolean", description: "No colours (or set NO_COLOR)" },
  },
  async run({ args }) {
    const target = targetOf(args);
    const { chatTransport, ChildLog } = await import("./gateway.ts");
    const notes = new ChildLog();
    const { transport } = await chatTransport(args, notes.add);
    const version = await readVersion();
    const program = {
      transport,
      version,
      target,
      ...(args.model === undefined ? {} : { model: args.model }),
    };
    const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
    try {
      if (isTerminal) await atTerminal(program, { prompt: args.prompt, hasColour: hasColour(args) });
      else await throughPipes(program, args.prompt);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      await report(error, notes.lines);
    }
  },
});

interface Args {
  readonly resume?: string | undefined;
  readonly continue?: boolean | undefined;
  readonly model?: string | undefined;
  readonly cwd?: string | undefined;
  readonly url?: string | undefined;
  readonly attach?: boolean | undefined;
  readonly "no-color"?: boolean | undefined;
}

function targetOf({ resume, continue: isRecent, cwd, model, url, attach }: Args): SessionTarget {
  if (resume !== undefined && isRecent) throw new UsageError("Give either --resume or --continue.");
  if (resume !== undefined) return { kind: "saved", ref: resume };
  if (isRecent) return { kind: "recent" };
  // A gateway on another machine has other folders.
  const folder = cwd ?? (url === undefined || attach ? process.cwd() : undefined);
  return {
    kind: "new",
    ...(folder === undefined ? {} : { cwd: folder }),
    ...(model === undefined ? {} : { model }),
  };
}

async function atTerminal(
  program: ChatProgram,
  { prompt, hasColour: isColoured }: { readonly prompt: string | undefined; readonly hasColour: boolean },
): Promise<void> {
  const { runChat } = await import("../../chat/run-chat.ts");
  const sessionId = await runChat({
    ...program,
    ...(prompt === undefined ? {} : { prompt }),
    input: process.stdin,
    output: process.stdout,
    hasColour: isColoured,
    render: async () => (await import("../../chat/view/render-chat.ts")).renderChat,
  });
  if (sessionId === undefined) return;
  const { cleanLine } = await import("../../chat/clean-text.ts");
  print(`To continue: agentd chat --resume ${cleanLine(sessionId)}`);
}

async function throughPipes(program: ChatProgram, words: string | undefined): Promise<void> {
  const prompt = await readPrompt(words);
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(name, () => stop.abort());
  const [{ runPlain }, { cleanText }] = await Promise.all([
    import("../../chat/run-plain.ts"),
    import("../../chat/clean-text.ts"),
  ]);
  const end = await runPlain({
    ...program,
    prompt,
    // For a program or a file the answer is written unchanged.
    write: (text) => print(process.stdout.isTTY ? cleanText(text) : text),
    report: warn,
    signal: stop.signal,
  });
  if (end === "complete") return;
  process.exitCode = end === "interrupted" && stop.signal.aborted ? EXIT_INTERRUPTED : EXIT_FAILURE;
}

function hasColour({ "no-color": isOff }: Args): boolean {
  const { NO_COLOR, TERM } = process.env;
  return isOff !== true && !NO_COLOR && TERM !== "dumb" && process.stdout.hasColors();
}

/** Prints the last log lines of the child gateway, which contain the reason, and the error. */
async function report(error: unknown, notes: readonly string[]): Promise<void> {
  const [{ describeFailure }, { cleanText }] = await Promise.all([
    import("../../chat/gateway.ts"),
    import("../../chat/clean-text.ts"),
  ]);
  const message = describeFailure(error);
  const last = notes.findLast((line) => line.trim() !== "");
  // The client's message already ends with the last line.
  const isSaid = last !== undefined && message.endsWith(last.trim());
  for (const line of isSaid ? notes : [...notes, message]) warn(cleanText(line));
  process.exitCode = EXIT_FAILURE;
}

/**
 * Returns the prompt: the words of the command line and the piped input. Throws {@link UsageError} when both are empty
 * or the input is too long.
 */
async function readPrompt(words: string | undefined): Promise<string> {
  const piped = isPiped() ? await readStandardInput() : "";
  const prompt = [words ?? "", piped].filter((text) => text.trim() !== "").join("\n\n");
  if (prompt.trim() !== "") return prompt;
  throw new UsageError("The prompt is empty. Pass a prompt or pipe one in: echo hi | agentd chat");
}

/** Returns whether standard input is a pipe, a file or a socket. */
function isPiped(): boolean {
  try {
    const input = fstatSync(0);
    return !process.stdin.isTTY && (input.isFIFO() || input.isFile() || input.isSocket());
  } catch {
    return false; // closed
  }
}
