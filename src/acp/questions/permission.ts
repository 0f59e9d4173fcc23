import {
  RequestError,
  type PermissionOption,
  type RequestPermissionRequest,
  type ToolCallContent,
  type ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import { OURSELVES } from "../../agent/question/question.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { macrotask, type QuestionResult, type ClientQuestion, sendHint } from "./question.ts";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { truncate } from "../prompt/content.ts";
import { diffContent, fenced, textContent } from "../tools/content.ts";

/** How long further questions wait after one timed out. */
const SILENT_WAIT_MS = 30_000;

/** Asks the client's user for permission. Any answer that does not allow the call denies it. */
export async function askPermission(
  connection: AcpConnection,
  question: ClientQuestion,
): Promise<QuestionResult> {
  const quirks = connection.quirks;
  if (quirks.hasNoPermissions) return DENIED;
  const stopWaiting = quirks.isSilent ? await shortWait(connection, question) : undefined;
  try {
    const { outcome } = await connection.client.request(
      "session/request_permission",
      permissionRequest(question),
      { cancellationSignal: question.signal, stopWaitingOnCancel: true },
    );
    quirks.isSilent = false;
    if (outcome.outcome === "cancelled") return { type: "cancel" };
    const choice = readChoice(question.data, String((outcome as { readonly optionId: unknown }).optionId));
    return { type: "reply", reply: { choice }, by: "acp" };
  } catch (error) {
    await macrotask();
    if (question.signal.aborted) return { type: "open" };
    // An invalid result throws too. The user saw the question, so the next one is asked as well.
    if (!(error instanceof RequestError)) return NOT_UNDERSTOOD;
    disablePermissions(connection, question);
    return DENIED;
  } finally {
    stopWaiting?.();
  }
}

/** Stops permission requests to this client and notifies its user. */
export function disablePermissions(connection: AcpConnection, question: ClientQuestion): void {
  connection.quirks.hasNoPermissions = true;
  sendHint(connection, question, NO_PERMISSIONS);
}

/** Expires the question early. The journal reports that to all surfaces, including this one. */
async function shortWait(connection: AcpConnection, { id }: ClientQuestion): Promise<() => void> {
  const { clock, agent, log } = await connection.deps();
  return clock.after(SILENT_WAIT_MS, () => {
    agent.deps.questions
      .giveUp(id)
      .catch((error: unknown) => log.warn("cannot expire a question", { question: id, error }));
  });
}

const NO_PERMISSIONS =
  "This editor rejects permission requests. agentd now denies every action that needs permission.";

const DENIED = {
  type: "reply",
  reply: { choice: "deny", reason: "this editor cannot ask its user for permission" },
  by: OURSELVES,
} as const satisfies QuestionResult;

const NOT_UNDERSTOOD = {
  type: "reply",
  reply: { choice: "deny", reason: "this editor sent an invalid answer" },
  by: OURSELVES,
} as const satisfies QuestionResult;

type Data = JournalEvent["data"];

/** Options in display order: the narrowest permission first. */
const OPTIONS = [
  { choice: "once", optionId: "allow_once", kind: "allow_once" },
  { choice: "session", optionId: "allow_session", kind: "allow_always" },
  { choice: "always", optionId: "allow_always", kind: "allow_always" },
  { choice: "deny", optionId: "deny", kind: "reject_once" },
] as const satisfies readonly (Omit<PermissionOption, "name"> & { readonly choice: AskChoice })[];

const KINDS: Readonly<Record<string, ToolKind | undefined>> = {
  command: "execute",
  file: "edit",
  network: "fetch",
};

const MAX_SCOPE_CHARACTERS = 80;
const MAX_TITLE_CHARACTERS = 160;

function permissionRequest(question: ClientQuestion): RequestPermissionRequest {
  const { sessionId, data } = question;
  return { sessionId, options: permissionOptions(data), toolCall: askedCall(question) };
}

/** Returns the waiting call as the client knows it, followed by the reason for the question. */
export function askedCall({
  data,
  toolCallId,
  sentCall,
}: Pick<ClientQuestion, "data" | "toolCallId" | "sentCall">) {
  const command = typeof data["command"] === "string" ? data["command"] : undefined;
  const reason = typeof data["description"] === "string" ? data["description"] : "";
  const changes = (data["changes"] as readonly FileChange[] | undefined) ?? [];
  const shown = sentCall ? (sentCall.content ?? []) : changes.map(diffContent);
  const locations = sentCall ? (sentCall.locations ?? []) : changes.map(({ path }) => ({ path }));
  const content: ToolCallContent[] = [
    // Without a command, the content is the change, which may be text.
    ...shown.filter(({ type }) => type === "diff" || command === undefined),
    ...(command === undefined ? [] : [textContent(fenced(`$ ${command}`))]),
    ...(reason === "" ? [] : [textContent(reason)]),
  ];
  const input = sentCall?.rawInput ?? (command === undefined ? undefined : { command });
  return {
    toolCallId,
    title: sentCall?.title ?? titleOf(data),
    kind: sentCall?.kind ?? KINDS[String(data["kind"])] ?? "other",
    status: "pending" as const,
    content,
    ...(locations.length > 0 ? { locations } : {}),
    ...(input === undefined ? {} : { rawInput: input }),
  };
}

/** Returns the options. Their names say what each permission covers. */
function permissionOptions(data: Data): PermissionOption[] {
  const choices = data["choices"] as readonly AskChoice[];
  return OPTIONS.filter(({ choice }) => choices.includes(choice)).map(({ choice, ...option }) => ({
    ...option,
    name: NAMES[choice](scopeOf(data)),
  }));
}

/** Returns the choice of an option. An unknown option denies. */
function readChoice(data: Data, optionId: string): AskChoice {
  const choices = data["choices"] as readonly AskChoice[];
  const chosen = OPTIONS.find((option) => option.optionId === optionId && choices.includes(option.choice));
  return chosen?.choice ?? "deny";
}

const NAMES: Readonly<Record<AskChoice, (scope: string) => string>> = {
  once: () => "Allow once",
  session: (scope) => `Allow ${scope} for this session`,
  always: (scope) => `Always allow ${scope}`,
  deny: () => "Deny",
};

function scopeOf(data: Data): string {
  const covers =
    typeof data["covers"] === "string" ? data["covers"] : String(data["command"] ?? data["tool"]);
  const short = truncate(covers.replaceAll(/\s+/g, " ").trim(), MAX_SCOPE_CHARACTERS);
  return `\`${short}\``;
}

/** Returns the title of any kind of question, in one line. */
function titleOf({ title, questions, command, prompt }: Data): string {
  const [first] = (questions as readonly ClarifyQuestion[] | undefined) ?? [];
  return truncate(String(title ?? first?.question ?? command ?? prompt), MAX_TITLE_CHARACTERS);
}
