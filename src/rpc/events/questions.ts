import type { HostMethod, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import {
  type QuestionKind,
  type QuestionReplies,
  toApprovalRequest,
  requestEvent,
} from "../../agent/question/question.ts";
import { ServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { type RpcPeer, hasScope } from "../connection/peer.ts";
import type { RpcDeps } from "../deps.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type {
  ApprovalAskedPayload,
  ClarifyAskedPayload,
  RequestCancelPayload,
  SecretAskedPayload,
  SudoAskedPayload,
} from "../../../generated/gateway/types/types.gen.ts";
import { diffOf } from "./payloads.ts";

interface HostQuestion {
  readonly method: HostMethod;
  readonly entry: JournalEvent;
  readonly owner: string;
  /** Aborts when the question closes. */
  readonly signal: AbortSignal;
}

/** Asks one host, and settles the question with its answer. Never rejects. */
export async function askHost(deps: RpcDeps, peer: RpcPeer, question: HostQuestion): Promise<void> {
  const { method, entry, owner, signal } = question;
  const id = String(entry.data["request_id"]);
  const params = { session_id: entry.sessionId, payload: questionPayload(method, entry.data) };
  try {
    const answer = await peer.ask(method, id, params as HostRequests[HostMethod]["params"], { signal });
    if (answer.status === "declined") return await decline(deps, peer, question);
    if (answer.status === "gone") return;
    const reply = replyOf(method, answer.result, entry);
    await deps.agent.deps.questions.answer(id, { owner, by: "rpc", ...reply });
    if ("all" in answer.result && answer.result.all === true && "choice" in reply) {
      await settleAll(deps, { sessionId: entry.sessionId, owner, choice: reply.choice });
    }
  } catch (error) {
    // Another answer came first, or this one does not fit. The question stays as it is.
    const level = error instanceof ServiceError ? "debug" : "warn";
    deps.log[level]("a host's answer was rejected", { id, method, code: codeOf(error) });
  }
}

/**
 * Ends a question that no client can show, as if it had expired. Only in the process that runs the turn: another
 * process may have viewers that this one does not know.
 */
async function decline(deps: RpcDeps, peer: RpcPeer, { method, entry, signal }: HostQuestion): Promise<void> {
  const id = String(entry.data["request_id"]);
  const { sessionId, runId } = entry;
  const isLast = declinesOf(deps).add(deps, peer, { method, id, sessionId, signal });
  const { questions } = deps.agent.deps;
  if (isLast && deps.agent.runs.runningIn(sessionId) === runId) await questions.giveUp(id);
}

function replyOf(
  method: HostMethod,
  result: HostRequests[HostMethod]["result"],
  { data }: JournalEvent,
): QuestionReplies[QuestionKind] {
  switch (method) {
    case "approval": {
      // A host cannot correct its answer, so a choice that is not offered is narrowed.
      const { choice } = result as HostRequests["approval"]["result"];
      return { choice: narrowed(choice, data["choices"] as readonly AskChoice[]) };
    }
    case "clarify": {
      // A single answer belongs to the first question. Questions without an answer are skipped.
      const { answer, answers } = result as HostRequests["clarify"]["result"];
      const given = new Map(Object.entries(answers ?? {}));
      const questions = data["questions"] as readonly { readonly id: string }[];
      const answerTo = (id: string, at: number) => (answers || at > 0 ? (given.get(id) ?? "") : answer);
      return { answers: Object.fromEntries(questions.map(({ id }, at) => [id, answerTo(id, at)])) };
    }
    case "sudo":
      return { password: (result as HostRequests["sudo"]["result"]).value };
    case "secret":
      return { value: (result as HostRequests["secret"]["result"]).value };
  }
}

function codeOf(error: unknown): string {
  return error instanceof ServiceError ? error.code : "internal_error";
}

/** Returns the open approvals of a session, oldest first. */
export async function openApprovals({ agent }: RpcDeps, sessionId: string): Promise<readonly QuestionRow[]> {
  const open = await agent.deps.questions.open({ sessionId });
  return open.filter(({ kind }) => kind === "approval");
}

/** Answers all open approvals of a session. Resolves to their number. A choice that is not offered is narrowed. */
export async function settleAll(
  deps: RpcDeps,
  { sessionId, owner, choice }: { sessionId: string; owner: string; choice: AskChoice },
): Promise<number> {
  let settled = 0;
  for (const row of await openApprovals(deps, sessionId)) {
    const { choices } = toApprovalRequest(row);
    try {
      const reply = { choice: narrowed(choice, choices) };
      await deps.agent.deps.questions.answer(row.id, { owner, by: "rpc", ...reply });
      settled += 1;
    } catch (error) {
      // Another answer came first.
      if (!(error instanceof ServiceError) || error.row.rpc !== 4009) throw error;
    }
  }
  return settled;
}

/** Returns the choice, or the widest offered one below it. */
export function narrowed(choice: AskChoice, offered: readonly AskChoice[]): AskChoice {
  return NARROWER[choice].find((each) => offered.includes(each)) ?? "deny";
}

const NARROWER: Readonly<Record<AskChoice, readonly AskChoice[]>> = {
  always: ["always", "session", "once"],
  session: ["session", "once"],
  once: ["once"],
  deny: ["deny"],
};

export interface Declined {
  readonly method: HostMethod;
  readonly id: string;
  readonly sessionId: string;
  /** Aborts when the question closes or the client leaves. */
  readonly signal: AbortSignal;
}

/** The clients that cannot show a question, by question. */
export class Declines {
  readonly #by = new Map<string, Set<RpcPeer>>();

  /** Records a client. Returns true when no other client of the session can answer. */
  add({ peers }: RpcDeps, peer: RpcPeer, { method, id, sessionId, signal }: Declined): boolean {
    const declined = this.#by.get(id) ?? new Set();
    this.#by.set(id, declined.add(peer));
    signal.addEventListener("abort", () => this.#forget(id, peer), { once: true });
    if (signal.aborted) this.#forget(id, peer);
    for (const other of peers) {
      const isAsked = other.profile.serverRequests || !other.profile.optOut.has(`${method}.request`);
      const mayAnswer = isAsked && hasScope(other.identity, "approvals");
      if (mayAnswer && other.sessions.has(sessionId) && !declined.has(other)) return false;
    }
    return true;
  }

  #forget(id: string, peer: RpcPeer): void {
    const declined = this.#by.get(id);
    declined?.delete(peer);
    if (declined?.size === 0) this.#by.delete(id);
  }
}

const declines = new WeakMap<RpcDeps["store"], Declines>();

/** Returns the declines of a gateway. */
export function declinesOf({ store }: RpcDeps): Declines {
  const known = declines.get(store) ?? new Declines();
  declines.set(store, known);
  return known;
}

type Data = JournalEvent["data"];

interface Payloads {
  readonly approval: ApprovalAskedPayload;
  readonly clarify: ClarifyAskedPayload;
  readonly sudo: SudoAskedPayload;
  readonly secret: SecretAskedPayload;
}

const METHODS: ReadonlySet<string> = new Set<HostMethod>(["approval", "clarify", "sudo", "secret"]);

/** Returns the kind of question that a journal entry is about, if any. */
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

/** Returns an open question for a client that attached after it was asked. */
export function openRequest(row: QuestionRow) {
  const method = row.kind as HostMethod;
  const payload: object = questionPayload(method, requestEvent(row).data);
  return { id: row.id, method, params: { ...payload, session_id: row.session_id } };
}

/** Returns why a question closed. */
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

/** `question` holds the first question, for hosts that know only one; `questions` holds all. */
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
