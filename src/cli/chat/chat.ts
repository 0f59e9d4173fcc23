/** `agentd chat`: chat with the agent, at a terminal or through pipes. */
import packageFile from "../../../package.json" with { type: "json" };
import process from "node:process";
import { defineCommand } from "citty";
import type { ChatProgram } from "../../chat/run-chat.ts";
import type { SessionTarget } from "../../client/conversation/current-session.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { print, printData, warn } from "../kit/output.ts";
import { programName } from "../kit/program.ts";
import { EXIT_FAILURE } from "./run.ts";
import { fstatSync } from "node:fs";
import { readLines, readSecret, readStandardInput, warnOfArgument, writeLine } from "../kit/streams.ts";
import type { TurnEnd } from "../../chat/run-turn.ts";

/** Exit code of an interrupted program, as shells expect. */
const EXIT_INTERRUPTED = 130;
/** Of a line with an answer. */
const MAX_ANSWER_CHARACTERS = 64 * 1024;

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
      description:
        "API key for --url. Other users of this machine see it in the process list: prefer API_SERVER_KEY or --token-stdin",
    },
    "token-stdin": {
      type: "boolean",
      description: "Read the API key for --url from standard input. The prompt is then an argument",
    },
    attach: {
      type: "boolean",
      description: "Attach to the gateway of this home, started by `agentd gateway`, instead of starting one",
    },
    json: {
      type: "boolean",
      description: "Print each event of the gateway as a line of JSON, for scripts",
    },
    answers: {
      type: "boolean",
      description:
        "With --json: read answers to questions from standard input, one JSON object per line. Without it every question is refused",
    },
    "no-color": { type: "boolean", description: "No colours (or set NO_COLOR)" },
    theme: {
      type: "string",
      valueHint: "light or dark",
      description: "Colours for this background (default: what the terminal says in COLORFGBG, else dark)",
    },
  },
  async run({ args }) {
    checkInput(args);
    const target = targetOf(args);
    const { chatTransport, ChildLog } = await import("./gateway.ts");
    const notes = new ChildLog();
    const token = args["token-stdin"] ? await readSecret("--token-stdin") : args.token;
    warnOfArgument("--token", args.token, "Set API_SERVER_KEY, or pass --token-stdin.");
    const { transport } = await chatTransport({ ...args, token }, notes.add);
    const { version } = packageFile;
    const program = {
      transport,
      version,
      target,
      ...(args.model === undefined ? {} : { model: args.model }),
    };
    const isTerminal = process.stdin.isTTY && process.stdout.isTTY && !args.json;
    try {
      if (isTerminal) await atTerminal(program, { prompt: args.prompt, ...coloursOf(args) });
      else if (args.json) await asJson(program, args);
      else await throughPipes(program, await readPrompt(args));
    } catch (error) {
      if (error instanceof UsageError) throw error;
      await report(error, { notes: notes.lines, isJson: args.json === true });
    }
  },
});

interface Args {
  readonly prompt?: string | undefined;
  readonly token?: string | undefined;
  readonly "token-stdin"?: boolean | undefined;
  readonly json?: boolean | undefined;
  readonly answers?: boolean | undefined;
  readonly resume?: string | undefined;
  readonly continue?: boolean | undefined;
  readonly model?: string | undefined;
  readonly cwd?: string | undefined;
  readonly url?: string | undefined;
  readonly attach?: boolean | undefined;
  readonly "no-color"?: boolean | undefined;
  readonly theme?: string | undefined;
}

/** Standard input holds one thing: the key, the answers, or text for the prompt. */
function checkInput(args: Args): void {
  const { url, token, json, answers, prompt = "" } = args;
  const readsToken = args["token-stdin"] === true;
  if ((token !== undefined || readsToken) && url === undefined)
    throw new UsageError(`--token${readsToken ? "-stdin" : ""} needs --url.`);
  if (token !== undefined && readsToken) throw new UsageError("Give either --token or --token-stdin.");
  if (answers && !json) throw new UsageError("--answers needs --json.");
  if (answers && readsToken)
    throw new UsageError("Give either --answers or --token-stdin: both read standard input.");
  if (readsToken && process.stdin.isTTY)
    throw new UsageError("--token-stdin needs piped input. At a terminal, set API_SERVER_KEY.");
  if ((answers || readsToken) && prompt.trim() === "")
    throw new UsageError(
      `Pass the prompt as an argument: ${answers ? "--answers" : "--token-stdin"} reads standard input.`,
    );
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
  { prompt, hasColour, isLight }: Colours & { readonly prompt: string | undefined },
): Promise<void> {
  const [{ runChat }, { createChatMachine }] = await Promise.all([
    import("../../chat/run-chat.ts"),
    import("./machine.ts"),
  ]);
  const sessionId = await runChat({
    ...program,
    ...(prompt === undefined ? {} : { prompt }),
    input: process.stdin,
    output: process.stdout,
    hasColour,
    isLight,
    machine: createChatMachine(currentContext()),
    render: async () => (await import("../../chat/view/render-chat.ts")).renderChat,
  });
  if (sessionId === undefined) return;
  const { cleanLine } = await import("../../client/conversation/clean-text.ts");
  print(`To continue: ${programName()} chat --resume ${cleanLine(sessionId)}`);
}

/** Returns a signal that aborts when the user ends the program. */
function untilEnded(): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(name, () => stop.abort());
  return stop.signal;
}

async function throughPipes(program: ChatProgram, prompt: string): Promise<void> {
  const signal = untilEnded();
  const [{ runPlain }, { cleanText }] = await Promise.all([
    import("../../chat/run-plain.ts"),
    import("../../client/conversation/clean-text.ts"),
  ]);
  const end = await runPlain({
    ...program,
    prompt,
    // For a program or a file the answer is written unchanged.
    write: (text) => printData(process.stdout.isTTY ? cleanText(text) : text),
    report: warn,
    signal,
  });
  process.exitCode = exitCodeOf(end, signal);
}

async function asJson(program: ChatProgram, args: Args): Promise<void> {
  const prompt = await readPrompt(args);
  const signal = untilEnded();
  const { runJson } = await import("../../chat/run-json.ts");
  const over = new AbortController();
  try {
    const end = await runJson({
      ...program,
      prompt,
      write: writeLine,
      report: warn,
      ...(args.answers
        ? { answers: readLines({ signal: over.signal, maxCharacters: MAX_ANSWER_CHARACTERS }) }
        : {}),
      signal,
    });
    process.exitCode = exitCodeOf(end, signal);
  } finally {
    over.abort();
  }
}

function exitCodeOf(end: TurnEnd, signal: AbortSignal): number {
  if (end === "complete") return 0;
  return end === "interrupted" && signal.aborted ? EXIT_INTERRUPTED : EXIT_FAILURE;
}

interface Colours {
  readonly hasColour: boolean;
  /** Whether the terminal's background is light. */
  readonly isLight: boolean;
}

function coloursOf({ "no-color": isOff, theme }: Args): Colours {
  if (theme !== undefined && theme !== "light" && theme !== "dark") {
    throw new UsageError(`--theme must be light or dark, not ${JSON.stringify(theme)}.`);
  }
  const { NO_COLOR, TERM, COLORFGBG } = process.env;
  return {
    hasColour: isOff !== true && !NO_COLOR && TERM !== "dumb" && process.stdout.hasColors(),
    isLight: theme === undefined ? isLightBackground(COLORFGBG) : theme === "light",
  };
}

/** COLORFGBG is `foreground;background` or `foreground;default;background`, as numbers of the 16 colours. */
export function isLightBackground(colours = ""): boolean {
  const background = colours.split(";").at(-1) ?? "";
  return /^(?:7|9|1[0-5])$/.test(background);
}

interface ReportOptions {
  /** The last log lines of the child gateway, which contain the reason. */
  readonly notes: readonly string[];
  readonly isJson: boolean;
}

/** Prints the log of the child gateway and the error; to scripts also as an event. */
async function report(error: unknown, { notes, isJson }: ReportOptions): Promise<void> {
  const [{ describeFailure }, { cleanText }] = await Promise.all([
    import("../../client/conversation/gateway.ts"),
    import("../../client/conversation/clean-text.ts"),
  ]);
  const message = describeFailure(error);
  const last = notes.findLast((line) => line.trim() !== "");
  // The client's message already ends with the last line.
  const isSaid = last !== undefined && message.endsWith(last.trim());
  for (const line of isSaid ? notes : [...notes, message]) warn(cleanText(line));
  if (isJson) await writeLine((await import("../../chat/run-json.ts")).errorLine(message));
  process.exitCode = EXIT_FAILURE;
}

/**
 * Returns the prompt: the words of the command line and the piped input. Throws {@link UsageError} when both are empty
 * or the input is too long.
 */
async function readPrompt(args: Args): Promise<string> {
  const isTaken = args.answers === true || args["token-stdin"] === true;
  const piped = !isTaken && isPiped() ? await readStandardInput() : "";
  const prompt = [args.prompt ?? "", piped].filter((text) => text.trim() !== "").join("\n\n");
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
