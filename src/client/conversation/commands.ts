/** Commands that the chat carries out itself: `!command`, `/copy`, `/export` and the next permission mode. */
import { cleanHead, cleanLine } from "./clean-text.ts";
import { reasonOf, type GatewayCall } from "./gateway.ts";
import type { ChatMachine } from "./actions.ts";
import { append } from "./items.ts";
import type { ChatState, TranscriptItem } from "./state.ts";
import type { TranscriptMessage } from "../gateway.ts";

interface SessionCall {
  readonly call: GatewayCall;
  readonly sessionId: string;
}

/** The result of `shell.exec`. */
interface ShellResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const SHELL_TIMEOUT_SECONDS = 120;
const MAX_OUTPUT = 30_000;
const SHELL_IS_OFF =
  "Shell commands are off. Run `agentd config set gateway.shell_exec local` and start the gateway again.";

/** Runs a shell command of the user. The model does not see it. Returns the change that shows its output. */
export async function runShell(
  { call, sessionId }: SessionCall,
  command: string,
  now: () => number,
): Promise<(state: ChatState) => ChatState> {
  const startedAtMs = now();
  // Older gateways lack the method.
  const untyped = call as unknown as (method: string, params: object) => Promise<ShellResult>;
  const params = { session_id: sessionId, command, timeout: SHELL_TIMEOUT_SECONDS };
  const { stdout, stderr, code } = await untyped("shell.exec", params).catch((error: unknown) => {
    if (!SHELL_MISSING.has(reasonOf(error) ?? "")) throw error;
    throw new Error(SHELL_IS_OFF, { cause: error });
  });
  const output = cleanHead([stdout, stderr].filter((text) => text !== "").join("\n"), MAX_OUTPUT);
  return (state) =>
    append(state, {
      kind: "tool",
      name: "!",
      context: cleanLine(command),
      status: code === 0 ? "done" : "failed",
      progress: "",
      output: code === 0 ? output : `${output}\nexit code ${code}`.trim(),
      startedAtMs,
      durationSeconds: (now() - startedAtMs) / 1_000,
    });
}

const SHELL_MISSING: ReadonlySet<string> = new Set(["disabled", "unknown_method"]);

/** Copies the last answer. Returns what to say. */
export async function copyAnswer(
  { settled, live }: Pick<ChatState, "settled" | "live">,
  machine: ChatMachine | undefined,
): Promise<string> {
  const isAnswer = (item: TranscriptItem) => item.kind === "assistant";
  const answer = [...settled, ...live].findLast(isAnswer);
  if (answer === undefined || !("text" in answer)) throw new Error("The session has no answer to copy yet.");
  const isCopied = (await machine?.copy(answer.text.trim())) === true;
  if (!isCopied)
    throw new Error("This machine has no clipboard program, and the terminal did not accept the text.");
  return `Copied the last answer: ${answer.text.trim().length} characters.`;
}

const PAGE = 200;
const MAX_PAGES = 100;

/** Writes the whole conversation as Markdown into a new file. Returns what to say. */
export async function exportSession(
  { call, sessionId }: SessionCall,
  machine: ChatMachine | undefined,
  wanted: string,
): Promise<string> {
  if (machine === undefined) throw new Error("Nothing can be written here.");
  const messages: TranscriptMessage[] = [];
  let before: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = { session_id: sessionId, limit: PAGE, ...(before === undefined ? {} : { before }) };
    const { messages: older, has_more: hasMore } = await call("session.history", params);
    messages.unshift(...older);
    before = older[0]?.message_id;
    if (!hasMore || before === undefined) break;
  }
  if (messages.length === 0) throw new Error("The session has no messages to export yet.");
  const path = wanted === "" ? `agentd-${sessionId}.md` : wanted;
  const file = await machine.writeNewFile(path, toMarkdown(messages)).catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== "EEXIST") throw error;
    throw new Error(`${path} exists. Name another file: /export FILE.`, { cause: error });
  });
  return `Wrote ${messages.length} messages to ${file}`;
}

function toMarkdown(messages: readonly TranscriptMessage[]): string {
  const parts = messages.flatMap(({ role, name, context, text = "" }) => {
    if (role === "tool") return [`- tool ${name ?? ""}: ${cleanLine(context ?? "")}`];
    return text.trim() === "" ? [] : [`## ${role}\n\n${text.trim()}`];
  });
  return `${parts.join("\n\n")}\n`;
}

/** `dont_ask` is left to `/mode`: a key pressed by mistake must not turn approvals off. */
const NEVER_BY_KEY: ReadonlySet<string> = new Set(["dont_ask", "yolo"]);

/** Returns the permission mode after the current one, in the gateway's order. */
export async function nextMode(
  { call, sessionId }: SessionCall,
  current: string | undefined,
): Promise<string> {
  const { items } = await call("complete.slash", { text: "/mode ", session_id: sessionId });
  const modes = items.map(({ text }) => text.trim().split(/\s+/).at(-1) ?? "");
  const offered = modes.filter((mode) => mode !== "" && !NEVER_BY_KEY.has(mode));
  const next = offered[(offered.indexOf(current ?? "") + 1) % Math.max(1, offered.length)];
  if (next === undefined) throw new Error("This gateway has no modes.");
  return next;
}
