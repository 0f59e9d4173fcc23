/** Requests for permission as editors show them to their users. Pure. */
import { shorten } from "../../base/text.ts";
import type {
  PermissionOption,
  RequestPermissionRequest,
  ToolCallContent,
  ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { diffContent } from "../tools/diff-content.ts";
import type { PutQuestion } from "./question.ts";
import { fenced, textContent } from "../tools/tool-text.ts";

type Data = JournalEvent["data"];

/** Options in the order that clients show: the one that allows least comes first. */
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

export function permissionRequest(question: PutQuestion): RequestPermissionRequest {
  const { sessionId, data } = question;
  return { sessionId, options: permissionOptions(data), toolCall: askedCall(question) };
}

/** The call that waits, as the client knows it, with the reason why it asks at the end. */
export function askedCall({ data, toolCallId, told }: Pick<PutQuestion, "data" | "toolCallId" | "told">) {
  const command = typeof data["command"] === "string" ? data["command"] : undefined;
  const reason = typeof data["description"] === "string" ? data["description"] : "";
  const changes = (data["changes"] as readonly FileChange[] | undefined) ?? [];
  const shown = told ? (told.content ?? []) : changes.map(diffContent);
  const locations = told ? (told.locations ?? []) : changes.map(({ path }) => ({ path }));
  const content: ToolCallContent[] = [
    // Without a command, the content is what the call would change; some of that is text.
    ...shown.filter(({ type }) => type === "diff" || command === undefined),
    ...(command === undefined ? [] : [textContent(fenced(`$ ${command}`))]),
    ...(reason === "" ? [] : [textContent(reason)]),
  ];
  const input = told?.rawInput ?? (command === undefined ? undefined : { command });
  return {
    toolCallId,
    title: told?.title ?? titleOf(data),
    kind: told?.kind ?? KINDS[String(data["kind"])] ?? "other",
    status: "pending" as const,
    content,
    ...(locations.length > 0 ? { locations } : {}),
    ...(input === undefined ? {} : { rawInput: input }),
  };
}

/** The options, with names that say what each covers. */
export function permissionOptions(data: Data): PermissionOption[] {
  const choices = data["choices"] as readonly AskChoice[];
  return OPTIONS.filter(({ choice }) => choices.includes(choice)).map(({ choice, ...option }) => ({
    ...option,
    name: NAMES[choice](scopeOf(data)),
  }));
}

/** The choice that an option stands for. An option that was not offered denies. */
export function choiceOf(data: Data, optionId: string): AskChoice {
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
  const short = shorten(covers.replaceAll(/\s+/g, " ").trim(), MAX_SCOPE_CHARACTERS);
  return `\`${short}\``;
}

/** Of any kind of question, in one line. */
function titleOf({ title, questions, command, prompt }: Data): string {
  const [first] = (questions as readonly ClarifyQuestion[] | undefined) ?? [];
  return shorten(String(title ?? first?.question ?? command ?? prompt), MAX_TITLE_CHARACTERS);
}
