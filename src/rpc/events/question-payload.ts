/** Questions as hosts see them, from the data of their events. */
import type { HostMethod } from "../../../generated/gateway/host.gen.ts";
import type {
  ApprovalAskedPayload,
  ClarifyAskedPayload,
  RequestCancelPayload,
  SecretAskedPayload,
  SudoAskedPayload,
} from "../../../generated/gateway/types/types.gen.ts";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import { requestEvent } from "../../agent/question/question.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import { diffOf } from "./tool-payload.ts";

type Data = JournalEvent["data"];

interface Payloads {
  readonly approval: ApprovalAskedPayload;
  readonly clarify: ClarifyAskedPayload;
  readonly sudo: SudoAskedPayload;
  readonly secret: SecretAskedPayload;
}

const METHODS: ReadonlySet<string> = new Set<HostMethod>(["approval", "clarify", "sudo", "secret"]);

/** Which kind of question an event of the journal is about; undefined: it is about none. */
export function questionMethodOf(type: string): HostMethod | undefined {
  const [kind = ""] = type.split(".");
  return METHODS.has(kind) ? (kind as HostMethod) : undefined;
}

export function questionPayload<K extends HostMethod>(method: K, data: Data): Payloads[K] {
  const frame = {
    request_id: String(data["request_id"]),
    expires_at: data["expires_at"] as number | null,
  };
  const make: { readonly [M in HostMethod]: () => Payloads[M] } = {
    approval: () => approval(data, frame),
    clarify: () => clarify(data, frame),
    sudo: () => ({ ...frame, command: String(data["command"]) }),
    secret: () => ({ ...frame, prompt: String(data["prompt"]), env_var: String(data["env_var"]) }),
  };
  return make[method]();
}

/** An open question, for those who come when it was asked already. */
export function openRequest(row: QuestionRow) {
  const method = row.kind as HostMethod;
  const payload: object = questionPayload(method, requestEvent(row).data);
  return { id: row.id, method, params: { ...payload, session_id: row.session_id } };
}

/** Why a question is open no more. */
export function cancelPayload(method: HostMethod, { type, data }: JournalEvent): RequestCancelPayload {
  const about = { id: String(data["request_id"]), method };
  if (type.endsWith(".expired")) {
    return { ...about, reason: data["reason"] === "timeout" ? "timeout" : "interrupted" };
  }
  const choice = data["choice"];
  return { ...about, reason: "resolved", ...(typeof choice === "string" ? { resolution: choice } : {}) };
}

interface Frame {
  readonly request_id: string;
  readonly expires_at: number | null;
}

function approval(data: Data, frame: Frame): ApprovalAskedPayload {
  const choices = data["choices"] as AskChoice[];
  const { title, description, command, tool, changes } = data;
  const diff = diffOf((changes as readonly FileChange[] | undefined) ?? []);
  return {
    ...frame,
    command: typeof command === "string" ? command : String(title),
    description: typeof description === "string" ? description : String(title),
    choices: [...choices],
    allow_permanent: choices.includes("always"),
    allow_session: choices.includes("session"),
    ...(typeof tool === "string" ? { tool_name: tool } : {}),
    ...(diff === "" ? {} : { inline_diff: diff }),
  };
}

/** The first question stands in `question`, for hosts that know of one only; all of them in `questions`. */
function clarify(data: Data, frame: Frame): ClarifyAskedPayload {
  const questions = data["questions"] as ClarifyQuestion[];
  const [first] = questions;
  const choices = (first as { readonly choices?: readonly string[] } | undefined)?.choices ?? [];
  return {
    ...frame,
    question: first?.question ?? "",
    choices: choices.length > 0 ? choices.map(labelOf) : null,
    questions: [...questions],
  };
}

function labelOf(choice: unknown): string {
  return typeof choice === "string" ? choice : String((choice as { readonly label?: string }).label ?? "");
}
