import type { HostMethod, HostRequests } from "../../generated/gateway/host.gen.ts";
import type { AskKind, AskReplies } from "../agent/question.ts";
import { ServiceError } from "../base/errors.ts";
import type { JournalEvent } from "../store/journal.ts";
import type { RpcPeer } from "./peer.ts";
import { questionPayload } from "./question-payload.ts";
import type { RpcRoom } from "./room.ts";

interface HostQuestion {
  readonly method: HostMethod;
  readonly entry: JournalEvent;
  readonly owner: string;
  /** Aborts when the question is open no more. */
  readonly signal: AbortSignal;
}

/** Puts a question to one host as a request, and its answer into the question. Never rejects. */
export async function askHost(room: RpcRoom, peer: RpcPeer, question: HostQuestion): Promise<void> {
  const { method, entry, owner, signal } = question;
  const id = String(entry.data["request_id"]);
  const params = { session_id: entry.sessionId, payload: questionPayload(method, entry.data) };
  try {
    const answer = await peer.ask(method, id, params as HostRequests[HostMethod]["params"], { signal });
    if (answer.status !== "answered") return;
    const reply = replyOf(method, answer.result, entry);
    await room.agent.parts.asks.answer(id, { owner, by: "rpc", ...reply });
  } catch (error) {
    // Somebody else was first, or it is no answer to this question: it stays as it is for the others.
    const level = error instanceof ServiceError ? "debug" : "warn";
    room.log[level]("a host's answer was not taken", { id, method, code: codeOf(error) });
  }
}

function replyOf(
  method: HostMethod,
  result: HostRequests[HostMethod]["result"],
  { data }: JournalEvent,
): AskReplies[AskKind] {
  switch (method) {
    case "approval":
      return { choice: (result as HostRequests["approval"]["result"]).choice };
    case "clarify": {
      // A host answers the first question; the others are skipped.
      const { answer } = result as HostRequests["clarify"]["result"];
      const questions = data["questions"] as readonly { readonly id: string }[];
      return { answers: Object.fromEntries(questions.map(({ id }, at) => [id, at === 0 ? answer : ""])) };
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
