import { OURSELVES, type QuestionKind } from "../../agent/question/question.ts";
import { toServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { askClarify } from "./clarify.ts";
import { clientQuirks } from "../wire/client.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { askPermission, askedCall } from "./permission.ts";
import {
  macrotask,
  type QuestionResult,
  type ClientQuestion,
  type ReportedCall,
  sendHint,
  sendUpdate,
} from "./question.ts";
import type { AcpSession } from "../session/session.ts";
import { toolCallIdOf } from "../tools/view.ts";
import type { AcpTurn } from "../prompt/turn.ts";

interface TurnQuestionsOptions {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly turn: AcpTurn;
  /** What the client was told last of a call, by the id that it knows; undefined when nothing. */
  readonly callOf: (toolCallId: string) => ReportedCall | undefined;
}

/**
 * What one turn asks its user: told to the client one after the other, answered into the one record that all surfaces
 * share, and withdrawn when somebody else answers or the turn ends. Nothing here throws or rejects.
 */
export class TurnQuestions {
  readonly #options: TurnQuestionsOptions;
  readonly #open = new Map<string, AbortController>();
  readonly #syntheticCalls: SyntheticCalls;
  /** The newest of the questions that are put in turn. */
  #queue = Promise.resolve();

  constructor(options: TurnQuestionsOptions) {
    this.#options = options;
    this.#syntheticCalls = new SyntheticCalls(options.connection, options.session.id);
  }

  /** Takes an event that asks: `approval.request`, `clarify.request`, `sudo.request` or `secret.request`. */
  ask({ type, runId, data }: JournalEvent): void {
    const { connection, session, turn, callOf } = this.#options;
    const id = String(data["request_id"]);
    const callId = data["tool_call_id"];
    const toolCallId =
      typeof callId === "string" ? toolCallIdOf(runId ?? "", callId) : this.#syntheticCalls.make(id, data);
    const withdrawn = new AbortController();
    this.#open.set(id, withdrawn);
    const question: ClientQuestion = {
      id,
      kind: type.split(".")[0] as QuestionKind,
      data,
      sessionId: session.id,
      toolCallId,
      sentCall: callOf(toolCallId),
      signal: AbortSignal.any([turn.signal, withdrawn.signal]),
    };
    this.#queue = this.#queue.then(() => this.#settle(question)).catch(connection.onFault);
  }

  /** Takes an event that closes a question, whoever closed it: `*.responded` or `*.expired`. */
  settled({ type, data }: JournalEvent): void {
    if (type === "approval.expired" && data["reason"] === "timeout") {
      clientQuirks(this.#options.connection).isSilent = true;
    }
    const id = String(data["request_id"]);
    this.#syntheticCalls.end(id, type.endsWith(".responded") && data["choice"] !== "deny");
    this.#withdraw(id);
  }

  /** Withdraws what is open. */
  close(): void {
    this.#syntheticCalls.close();
    for (const id of this.#open.keys()) this.#withdraw(id);
  }

  #withdraw(id: string): void {
    this.#open.get(id)?.abort();
    this.#open.delete(id);
  }

  async #settle(question: ClientQuestion): Promise<void> {
    const { connection, turn } = this.#options;
    const { id, signal } = question;
    if (signal.aborted) return;
    const deps = await connection.deps();
    try {
      const result = await askClient(connection, question);
      await macrotask();
      if (signal.aborted || result.type === "open") return;
      if (result.type === "cancel") return turn.cancel();
      const by = result.type === "reply" ? result.by : "acp";
      await deps.agent.deps.questions.answer(id, { owner: deps.owner, by, ...result.reply });
      if (result.type === "later") turn.endWithQuestion();
    } catch (error) {
      const { code } = toServiceError(error);
      if (code !== "ask_not_pending" && code !== "ask_not_found") throw error;
      deps.log.debug("an answer came too late", { question: id, reason: code });
    }
  }
}

async function askClient(connection: AcpConnection, question: ClientQuestion): Promise<QuestionResult> {
  switch (question.kind) {
    case "approval":
      return askPermission(connection, question);
    case "clarify":
      return askClarify(connection, question);
    case "sudo":
      sendHint(connection, question, NO_PASSWORDS);
      return { type: "reply", reply: { password: "" }, by: OURSELVES };
    case "secret":
      sendHint(connection, question, noSecrets(String(question.data["env_var"])));
      return { type: "reply", reply: { value: "" }, by: OURSELVES };
  }
}

/** Editors show what is typed into a form, and may keep it. */
const NO_PASSWORDS =
  "A command asks for a password, which is never asked for in an editor. Run it in a terminal, or with the terminal interface of agentd.";

const noSecrets = (name: string): string =>
  `${name} is needed, a secret, which is never asked for in an editor. Give it in a terminal: run \`agentd acp --setup\`, or the terminal interface of agentd.`;

/** A sub-agent's question belongs to no call that the client knows, but must name one: so a call is made for it. */
class SyntheticCalls {
  readonly #connection: AcpConnection;
  readonly #sessionId: string;
  readonly #open = new Set<string>();

  constructor(connection: AcpConnection, sessionId: string) {
    this.#connection = connection;
    this.#sessionId = sessionId;
  }

  /** Tells of the call; its id is that of the question. */
  make(id: string, data: JournalEvent["data"]): string {
    this.#open.add(id);
    sendUpdate(this.#connection, this.#sessionId, {
      sessionUpdate: "tool_call",
      ...askedCall({ data, toolCallId: id, sentCall: undefined }),
    });
    return id;
  }

  end(id: string, isAllowed: boolean): void {
    if (!this.#open.delete(id)) return;
    sendUpdate(this.#connection, this.#sessionId, {
      sessionUpdate: "tool_call_update",
      toolCallId: id,
      status: isAllowed ? "completed" : "failed",
    });
  }

  close(): void {
    for (const id of this.#open) this.end(id, false);
  }
}
