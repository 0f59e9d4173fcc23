import {
  RequestError,
  type PermissionOption,
  type RequestPermissionRequest,
  type ToolCallContent,
  type ToolCallLocation,
  type ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import { OURSELVES, type QuestionReplies } from "../../agent/question/question.ts";
import type { AcpConnection } from "../wire/connection.ts";
import type { QuestionResult, ClientQuestion } from "./question.ts";
import { macrotask, sendNotice } from "../wire/updates.ts";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { shorten, toOneLine } from "../../base/text.ts";
import { diffContent, fenced, firstChangedLine, textContent } from "../tools/content.ts";

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
    const { optionId } = outcome as { readonly optionId: unknown };
    return { type: "reply", reply: readReply(question.data, String(optionId)), by: "acp" };
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
  sendNotice(connection, question.sessionId, { id: question.id, text: NO_PERMISSIONS });
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

interface Option extends Omit<PermissionOption, "name"> {
  readonly choice: AskChoice;
  /** The denial holds for the rest of the session. */
  readonly forSession?: true;
  /** Says what the choice covers. */
  readonly name: (scope: string) => string;
}

/** Options in display order: the narrowest permission first. */
const OPTIONS: readonly Option[] = [
  { choice: "once", optionId: "allow_once", kind: "allow_once", name: () => "Allow once" },
  {
    choice: "session",
    optionId: "allow_session",
    kind: "allow_always",
    name: (scope) => `Allow ${scope} for this session`,
  },
  {
    choice: "always",
    optionId: "allow_always",
    kind: "allow_always",
    name: (scope) => `Always allow ${scope}`,
  },
  { choice: "deny", optionId: "deny", kind: "reject_once", name: () => "Deny" },
  {
    choice: "deny",
    forSession: true,
    optionId: "deny_session",
    kind: "reject_always",
    name: (scope) => `Deny ${scope} for this session`,
  },
];

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
  const locations = sentCall ? (sentCall.locations ?? []) : changes.map(locationOf);
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

function locationOf(change: FileChange): ToolCallLocation {
  const line = firstChangedLine(change);
  return { path: change.path, ...(line === undefined ? {} : { line }) };
}

/** Returns the options. Their names say what each permission covers. */
function permissionOptions(data: Data): PermissionOption[] {
  const choices = data["choices"] as readonly AskChoice[];
  return OPTIONS.filter(({ choice }) => choices.includes(choice)).map(({ optionId, kind, name }) => ({
    optionId,
    kind,
    name: name(scopeOf(data)),
  }));
}

/** Returns the reply for an option. An unknown option denies. */
function readReply(data: Data, optionId: string): QuestionReplies["approval"] {
  const choices = data["choices"] as readonly AskChoice[];
  const chosen = OPTIONS.find((option) => option.optionId === optionId && choices.includes(option.choice));
  const { choice, forSession } = chosen ?? ({ choice: "deny" } as const);
  return { choice, ...(forSession ? { forSession } : {}) };
}

function scopeOf(data: Data): string {
  const covers =
    typeof data["covers"] === "string" ? data["covers"] : String(data["command"] ?? data["tool"]);
  const short = shorten(toOneLine(covers), MAX_SCOPE_CHARACTERS);
  return `\`${short}\``;
}

/** Returns the title of any kind of question, in one line. */
function titleOf({ title, questions, command, prompt }: Data): string {
  const [first] = (questions as readonly ClarifyQuestion[] | undefined) ?? [];
  return shorten(String(title ?? first?.question ?? command ?? prompt), MAX_TITLE_CHARACTERS);
}
