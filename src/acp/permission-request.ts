/** Leave for a call as editors ask their users for it. Pure. */
import type {
  PermissionOption,
  RequestPermissionRequest,
  ToolCallContent,
  ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import type { AskChoice } from "../../generated/http/client/types.gen.ts";
import type { JournalEvent } from "../store/journal.ts";
import type { PutQuestion } from "./question.ts";
import { fenced, textContent } from "./tool-text.ts";

type Data = JournalEvent["data"];

/** Least leave first, as clients show them. */
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

export function permissionRequest(question: PutQuestion): RequestPermissionRequest {
  const { sessionId, data } = question;
  return { sessionId, options: permissionOptions(data), toolCall: askedCall(question) };
}

/** The call that waits. What was told of it stands; the reason why it is asked about comes last. */
export function askedCall({ data, toolCallId, told }: Pick<PutQuestion, "data" | "toolCallId" | "told">) {
  const command = typeof data["command"] === "string" ? data["command"] : undefined;
  const reason = typeof data["description"] === "string" ? data["description"] : "";
  const content: ToolCallContent[] = [
    // Of a call without a command all that was told is what it would change; some of that is told in words.
    ...(told?.content?.filter(({ type }) => type === "diff" || command === undefined) ?? []),
    ...(command === undefined ? [] : [textContent(fenced(`$ ${command}`))]),
    ...(reason === "" ? [] : [textContent(reason)]),
  ];
  const input = told?.rawInput ?? (command === undefined ? undefined : { command });
  return {
    toolCallId,
    title: told?.title ?? String(data["title"]),
    kind: told?.kind ?? KINDS[String(data["kind"])] ?? "other",
    status: "pending" as const,
    content,
    ...(told?.locations?.length ? { locations: told.locations } : {}),
    ...(input === undefined ? {} : { rawInput: input }),
  };
}

/** What may be answered, by names that say what it covers. */
export function permissionOptions(data: Data): PermissionOption[] {
  const choices = data["choices"] as readonly AskChoice[];
  return OPTIONS.filter(({ choice }) => choices.includes(choice)).map(({ choice, ...option }) => ({
    ...option,
    name: NAMES[choice](scopeOf(data)),
  }));
}

/** The choice that an option stands for. What was not offered denies. */
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
  const line = covers.replaceAll(/\s+/g, " ").trim();
  const characters = Array.from(line);
  const short =
    characters.length <= MAX_SCOPE_CHARACTERS
      ? line
      : `${characters.slice(0, MAX_SCOPE_CHARACTERS - 1).join("")}…`;
  return `\`${short}\``;
}
