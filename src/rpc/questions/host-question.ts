import type { HostMethod, HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { AskChoice } from "../../../generated/http/client/types.gen.ts";
import type { QuestionKind, QuestionReplies } from "../../agent/question/question.ts";
import { ServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { narrowed, settleAll } from "./approvals.ts";
import { declinesOf } from "../connection/unsupported.ts";
import type { RpcPeer } from "../connection/peer.ts";
import { questionPayload } from "../events/question-payload.ts";
import type { RpcDeps } from "../deps.ts";

interface HostQuestion {
  readonly method: HostMethod;
  readonly entry: JournalEvent;
  readonly owner: string;
  /** Aborts when the question is open no more. */
  readonly signal: AbortSignal;
}

/** Puts a question to one host as a request, and its answer into the question. Never rejects. */
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
    // Somebody else was first, or it is no answer to this question: it stays as it is for the others.
    const level = error instanceof ServiceError ? "debug" : "warn";
    deps.log[level]("a host's answer was not taken", { id, method, code: codeOf(error) });
  }
}

/**
 * A question that no client can show is over at once, as if its time were. Only where its turn is at work: who follows
 * the session in another process is not known here.
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
      // A host has no second try, as there is no answer to its answer: a choice that is not offered is taken narrower.
      const { choice } = result as HostRequests["approval"]["result"];
      return { choice: narrowed(choice, data["choices"] as readonly AskChoice[]) };
    }
    case "clarify": {
      // One answer is that to the first question. Those without one are skipped.
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
