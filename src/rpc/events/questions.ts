import type { GatewayEvent, HostMethod, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { AskChoice, ClarifyQuestion, FileChange } from "../../../generated/http/client/types.gen.ts";
import {
  type QuestionKind,
  type QuestionReplies,
  toApprovalRequest,
  requestEvent,
} from "../../agent/question/question.ts";
import { ServiceError } from "../../base/errors.ts";
import { LruMap } from "../../base/data.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { hasScope } from "../connection/calls.ts";
import type { RpcPeer, RpcDeps } from "../deps.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type {
  ApprovalAskedPayload,
  ClarifyAskedPayload,
  RequestCancelPayload,
  SecretAskedPayload,
  SudoAskedPayload,
} from "../../../generated/gateway/types/types.gen.ts";
import { diffOf, turnIdOf } from "./payloads.ts";

interface HostQuestion {
  readonly method: HostMethod;
  readonly entry: JournalEvent;
  readonly owner: string;
  /** Aborts when the question closes. */
  readonly signal: AbortSignal;
}

/** How often a host is asked whose answers do not fit. */
const MAX_ATTEMPTS = 3;

/** Asks one host, and settles the question with its answer. Never rejects. */
export async function askHost(deps: RpcDeps, peer: RpcPeer, question: HostQuestion): Promise<void> {
  const { method, entry, signal } = question;
  const id = String(entry.data["request_id"]);
  const params = questionParams(method, entry.sessionId, entry.data);
  try {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      const answer = await peer.ask(method, id, params as HostRequests[HostMethod]["params"], { signal });
      if (answer.status === "declined") return await decline(deps, peer, question);
      if (answer.status === "gone") return;
      const issue = answer.status === "invalid" ? answer.issue : await settle(deps, question, answer.result);
      if (issue === undefined) return;
      const message = `The answer to the question ${id} does not fit: ${issue.replace(/\.$/, "")}. The question stays open.`;
      const payload = { message, code: "bad_value", fatal: false };
      peer.event({ type: "error", session_id: entry.sessionId, ts: deps.clock.now(), payload });
    }
  } catch (error) {
    // Another answer came first. The question stays as it is.
    const level = error instanceof ServiceError ? "debug" : "warn";
    deps.log[level]("a host's answer was rejected", { id, method, code: codeOf(error) });
  }
}

/** Settles a question with a host's answer. Resolves to what is wrong with the answer, if it does not fit. */
async function settle(
  deps: RpcDeps,
  { method, entry, owner }: HostQuestion,
  result: HostRequests[HostMethod]["result"],
): Promise<string | undefined> {
  const reply = replyOf(method, result, entry);
  if (!reply) return "it has neither answer nor answers";
  try {
    await deps.agent.deps.questions.answer(String(entry.data["request_id"]), { owner, by: "rpc", ...reply });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "invalid_request") return error.message;
    throw error;
  }
  if ("all" in result && result.all === true && "choice" in reply) {
    await settleAll(deps, { sessionId: entry.sessionId, owner, choice: reply.choice });
  }
  return undefined;
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
): QuestionReplies[QuestionKind] | undefined {
  switch (method) {
    case "approval": {
      const { choice } = result as HostRequests["approval"]["result"];
      return { choice: narrowed(choice, data["choices"] as readonly AskChoice[]) };
    }
    case "clarify": {
      const questions = data["questions"] as readonly ClarifyQuestion[];
      return clarification(questions, result as HostRequests["clarify"]["result"]);
    }
    case "sudo":
      return { password: (result as HostRequests["sudo"]["result"]).value };
    case "secret":
      return { value: (result as HostRequests["secret"]["result"]).value };
  }
}

/**
 * Returns the reply to all questions of a request; undefined without an answer. A single answer belongs to the first
 * question. Questions without an answer are skipped.
 */
function clarification(
  questions: readonly ClarifyQuestion[],
  { answer, answers }: HostRequests["clarify"]["result"],
): QuestionReplies["clarify"] | undefined {
  if (answer === undefined && answers === undefined) return undefined;
  const given = new Map(Object.entries(answers ?? {}));
  const answerTo = (id: string, at: number) => (answers || at > 0 ? (given.get(id) ?? "") : (answer ?? ""));
  return { answers: Object.fromEntries(questions.map(({ id }, at) => [id, answerTo(id, at)])) };
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
class Declines {
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
function declinesOf({ store }: RpcDeps): Declines {
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

export const QUESTION_METHODS: ReadonlySet<string> = new Set<HostMethod>([
  "approval",
  "clarify",
  "sudo",
  "secret",
]);

/** Returns the kind of question that a journal entry is about, if any. */
export function questionMethodOf(type: string): HostMethod | undefined {
  const [kind = ""] = type.split(".");
  return QUESTION_METHODS.has(kind) ? (kind as HostMethod) : undefined;
}

export function questionPayload<K extends HostMethod>(method: K, data: Data): Payloads[K] {
  const call = data["tool_call_id"];
  const frame = {
    request_id: String(data["request_id"]),
    expires_at: data["expires_at"] as number | null,
    ...(typeof call === "string" ? { tool_id: call } : {}),
  };
  const make: { readonly [M in HostMethod]: () => Payloads[M] } = {
    approval: () => approval(data, frame),
    clarify: () => clarify(data, frame),
    sudo: () => ({ ...frame, command: String(data["command"]) }),
    secret: () => ({ ...frame, prompt: String(data["prompt"]), env_var: String(data["env_var"]) }),
  };
  return make[method]();
}

/** Returns the parameters of a question as a request: its fields, and the same fields as `payload`. */
function questionParams(method: HostMethod, sessionId: string, data: Data): object {
  const payload = questionPayload(method, data);
  return { session_id: sessionId, ...payload, payload };
}

/** Returns an open question for a client that attached after it was asked. */
export function openRequest(row: QuestionRow) {
  const method = row.kind as HostMethod;
  return {
    id: row.id,
    method,
    params: { ...questionParams(method, row.session_id, requestEvent(row).data) },
  };
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
  readonly tool_id?: string;
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

/** `question` holds the first question, for hosts that show one at a time; `questions` holds all. */
function clarify(data: Data, frame: Frame): ClarifyAskedPayload {
  const questions = data["questions"] as readonly ClarifyQuestion[];
  const [first] = questions;
  return {
    ...frame,
    question: first?.question ?? "",
    choices: first?.choices?.length ? [...first.choices] : null,
    multi_select: first?.multi_select ?? false,
    questions: questions.map((each) => ({ ...each, qid: each.id })),
  };
}

/** Answers of a connection to some questions of a request, by request. */
const partialAnswers = new WeakMap<RpcPeer, LruMap<string, Readonly<Record<string, string>>>>();
const MAX_PARTIAL = 64;

/** What a single answer completes, or which questions it leaves. */
export type ClarifyProgress =
  | { readonly reply: QuestionReplies["clarify"] }
  | { readonly remaining: number; readonly next: ClarifyAskedPayload };

/**
 * Records the answer to the question that a connection shows. A host that shows one question at a time gets the next
 * one; each connection goes through the questions independently.
 */
export function answerNext(peer: RpcPeer, row: QuestionRow, answer: string): ClarifyProgress {
  const known = partialAnswers.get(peer) ?? new LruMap(MAX_PARTIAL);
  partialAnswers.set(peer, known);
  const { data } = requestEvent(row);
  const questions = data["questions"] as readonly ClarifyQuestion[];
  const before = known.get(row.id) ?? {};
  const [shown, ...rest] = questions.filter(({ id }) => before[id] === undefined);
  const answers = shown ? { ...before, [shown.id]: answer } : before;
  const seesNext = !peer.profile.serverRequests && !peer.profile.optOut.has("clarify.request");
  if (rest.length > 0 && seesNext) {
    known.set(row.id, answers);
    return { remaining: rest.length, next: questionPayload("clarify", { ...data, questions: rest }) };
  }
  known.delete(row.id);
  const all = questions.map(({ id }) => [id, answers[id] ?? ""]);
  return { reply: { answers: Object.fromEntries(all) as Record<string, string> } };
}

/** Returns the event of an open question for a connection: without the parts that the connection has answered. */
export function openQuestionEvent(peer: RpcPeer, entry: JournalEvent): GatewayEvent {
  const { type, sessionId, runId, data, atMs: ts } = entry;
  const method = questionMethodOf(type) ?? "approval";
  const answers = partialAnswers.get(peer)?.get(String(data["request_id"]));
  const questions = data["questions"] as readonly ClarifyQuestion[] | undefined;
  const rest = answers ? { questions: questions?.filter(({ id }) => answers[id] === undefined) } : {};
  const payload = questionPayload(method, { ...data, ...rest });
  const turn = runId === null ? {} : { turn_id: turnIdOf(runId) };
  return { type: `${method}.request`, session_id: sessionId, ts, ...turn, payload } as GatewayEvent;
}
