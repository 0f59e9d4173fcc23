/** Slash commands of the chat and of the gateway, and completions for the composer. */
import { reasonOf, type GatewayCall } from "./gateway.ts";
import { cleanLine } from "./clean-text.ts";
import { listModels } from "./pickers.ts";
import type { Completion } from "./state.ts";

/** Commands of the chat itself. */
const LOCAL_COMMANDS: readonly { readonly name: string; readonly description: string }[] = [
  { name: "sessions", description: "Switch to another session" },
  { name: "clear", description: "Clear the conversation" },
  { name: "copy", description: "Copy the last answer" },
  { name: "export", description: "Write the conversation to a Markdown file" },
  { name: "agents", description: "List the sub-agents of this session" },
  { name: "image", description: "Attach an image to the next prompt" },
  { name: "keys", description: "List the keys" },
  { name: "quit", description: "Leave" },
];

/** Returns the chat's part of `/help`. */
export function localHelp(): string {
  const lines = LOCAL_COMMANDS.map(({ name, description }) => `  /${name.padEnd(10)}${description}`);
  return ["In this chat", ...lines, `  ${"!command".padEnd(11)}Run a shell command`].join("\n");
}

/** Returns what a new chat says first. */
export function welcomeText({
  model,
  provider,
}: {
  readonly model: string;
  readonly provider: string;
}): string {
  const name = provider === "" || model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
  const who =
    provider === "demo"
      ? "The demo model answers: it only repeats what you write. Leave and run `agentd setup` to connect a real model."
      : `${name} answers. /model chooses another one.`;
  const what =
    provider === "demo"
      ? 'Try "list the files", or "run: date" to see an approval.'
      : "Try: explain this project · @ attaches a file · drop an image here · /help";
  return `${who}\n${what}`;
}

/** The result of a command. */
interface CommandOutcome {
  /** Text to print. */
  readonly output?: string;
  readonly isWarning?: boolean;
  /** Prompt to submit. */
  readonly prompt?: string;
  /** How to submit the prompt during a turn; absent: as any prompt. */
  readonly mode?: "queue";
  /** Text for the composer. */
  readonly prefill?: string;
  /** Session to switch to. */
  readonly sessionId?: string;
}

const MAX_ALIASES = 5;
/** Errors after which `command.dispatch` is used instead. */
const DISPATCHED = new Set(["not_dispatchable", "unknown_method"]);

export interface TypedCommand {
  /** Lower case, without the slash. */
  readonly name: string;
  readonly args: string;
}

/** Parses a command. Undefined for any other text: `/usr/bin is full` is a prompt. */
export function parseSlash(text: string): TypedCommand | undefined {
  const match = /^\/([A-Za-z][\w-]*)(?:\s+([\s\S]*))?$/.exec(text.trim());
  return match ? { name: (match[1] ?? "").toLowerCase(), args: (match[2] ?? "").trim() } : undefined;
}

/** Runs a command of the gateway and resolves aliases. */
export async function runSlash(
  call: GatewayCall,
  { text, sessionId }: { readonly text: string; readonly sessionId: string },
): Promise<CommandOutcome> {
  let command = text.trim().replace(/^\//, "");
  for (let turns = 0; turns <= MAX_ALIASES; turns++) {
    const result = await execute(call, { command, sessionId });
    if (result.type !== "alias") return outcomeOf(result);
    command = String(result.target ?? "").replace(/^\//, "");
  }
  throw new Error(`/${command} is an alias of too many aliases.`);
}

/** The result of `slash.exec` or `command.dispatch`. */
interface CommandResult {
  readonly type?: string;
  readonly output?: string;
  readonly warning?: string;
  readonly target?: string;
  readonly message?: string;
  readonly notice?: string;
  readonly when_busy?: string;
  readonly session_id?: string;
}

async function execute(
  call: GatewayCall,
  { command, sessionId }: { readonly command: string; readonly sessionId: string },
): Promise<CommandResult> {
  try {
    return (await call("slash.exec", { session_id: sessionId, command })) as CommandResult;
  } catch (error) {
    if (!DISPATCHED.has(reasonOf(error) ?? "")) throw error;
    return (await call("command.dispatch", {
      session_id: sessionId,
      command: `/${command}`,
    })) as CommandResult;
  }
}

function outcomeOf(result: CommandResult): CommandOutcome {
  const { type, message, notice, output, warning, session_id: sessionId } = result;
  const text = type === "send" || type === "prefill" ? notice : (output ?? warning);
  return {
    ...(text === undefined || text === ""
      ? {}
      : { output: text, isWarning: output === undefined && !!warning }),
    ...((type === "skill" || type === "send") && message ? { prompt: message } : {}),
    ...(result.when_busy === "queue" ? { mode: "queue" } : {}),
    ...(type === "prefill" && message !== undefined ? { prefill: message } : {}),
    ...(typeof sessionId === "string" ? { sessionId } : {}),
  };
}

const MAX_COMPLETIONS = 30;
/** Matches a path at the end of the text. */
const PATH = /(?:^|\s)(@\S*|(?:\.{1,2}|~)?\/\S*)$/;

interface CompletionRequest {
  readonly text: string;
  readonly sessionId: string;
  readonly signal: AbortSignal;
}

/**
 * Returns completions: commands for text that begins with a slash, paths for a last word that looks like a path,
 * otherwise none.
 */
export async function complete(call: GatewayCall, wanted: CompletionRequest): Promise<readonly Completion[]> {
  const { text, sessionId, signal } = wanted;
  const model = /^\/model\s+(\S*)$/.exec(text)?.[1];
  if (model !== undefined) return models(call, wanted, model);
  if (/^\/[^\s/]*(\s|$)/.test(text)) return commands(call, wanted);
  const word = PATH.exec(text)?.[1];
  if (word === undefined) return [];
  const { items } = await call("complete.path", { word, session_id: sessionId }, { signal });
  return items.map((item) => toCompletion(text.slice(0, text.length - word.length), item));
}

async function commands(call: GatewayCall, wanted: CompletionRequest): Promise<readonly Completion[]> {
  const { text, sessionId, signal } = wanted;
  const params = { text, session_id: sessionId };
  const { items, replace_from: from = 1 } = await call("complete.slash", params, { signal });
  const found = items.map((item) => toCompletion(text.slice(0, from), item));
  const local = LOCAL_COMMANDS.filter(({ name }) => !/\s/.test(text) && `/${name}`.startsWith(text)).map(
    ({ name, description }) => ({ text: `/${name}`, display: `/${name}`, meta: description }),
  );
  const added = local.filter((each) => !found.some((known) => known.text === each.text));
  // A command that is typed in full comes first: Enter runs it, and not another one that it is an alias of.
  const all = [...found, ...added].toSorted((a, b) => Number(b.text === text) - Number(a.text === text));
  return all.slice(0, MAX_COMPLETIONS);
}

/** Completes the name of a model, with or without its provider. */
async function models(
  call: GatewayCall,
  { text, sessionId }: CompletionRequest,
  typed: string,
): Promise<readonly Completion[]> {
  const rows = await listModels(call, sessionId);
  const wanted = typed.toLowerCase();
  return rows
    .filter(({ id }) => id.toLowerCase().includes(wanted))
    .slice(0, MAX_COMPLETIONS)
    .map(({ id, warning, isCurrent }) => ({
      text: text.slice(0, text.length - typed.length) + id,
      display: id,
      meta: warning ?? (isCurrent ? "this one" : ""),
    }));
}

function toCompletion(
  before: string,
  item: { readonly text: string; readonly display: string; readonly meta: string },
): Completion {
  return {
    text: before + cleanLine(item.text, 4_000),
    display: cleanLine(item.display),
    meta: cleanLine(item.meta),
  };
}
