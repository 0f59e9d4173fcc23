import { OURSELVES, type QuestionKind } from "../../agent/question/question.ts";
import { toServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { askClarify } from "./clarify.ts";
import type { AcpConnection, AcpSession, AcpTurn } from "../wire/connection.ts";
import { askPermission, askedCall } from "./permission.ts";
import type { QuestionResult, ClientQuestion, ReportedCall } from "./question.ts";
import { macrotask, sendNotice, sendUpdate } from "../wire/updates.ts";
import { toolCallIdOf } from "../tools/view.ts";

interface TurnQuestionsOptions {
  readonly connection: AcpConnection;
  readonly session: AcpSession;
  readonly turn: AcpTurn;
  /** Returns a call as it was last sent to the client. */
  readonly callOf: (toolCallId: string) => ReportedCall | undefined;
}

/**
 * The questions of one turn. Asks the client one after the other, stores the answers in the question that all surfaces
 * share, and withdraws a question that is answered elsewhere or whose turn ends. Never throws or rejects.
 */
export class TurnQuestions {
  readonly #options: TurnQuestionsOptions;
  readonly #open = new Map<string, AbortController>();
  readonly #syntheticCalls: SyntheticCalls;
  /** Resolves when the last queued question is settled. */
  #queue = Promise.resolve();

  constructor(options: TurnQuestionsOptions) {
    this.#options = options;
    this.#syntheticCalls = new SyntheticCalls(options.connection, options.session.id);
  }

  /** Queues the question of an `approval.request`, `clarify.request`, `sudo.request` or `secret.request`. */
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

  /** Closes the question of a `*.responded` or `*.expired` event. */
  settled({ type, data }: JournalEvent): void {
    if (type === "approval.expired" && data["reason"] === "timeout") {
      this.#options.connection.quirks.isSilent = true;
    }
    const id = String(data["request_id"]);
    this.#syntheticCalls.end(id, type.endsWith(".responded") && data["choice"] !== "deny");
    this.#withdraw(id);
  }

  /** Withdraws all open questions. */
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
      await deps.agent.deps.questions.answer(id, { owner: deps.owner, by: result.by, ...result.reply });
    } catch (error) {
      const { code } = toServiceError(error);
      if (code !== "ask_not_pending" && code !== "ask_not_found") throw error;
      deps.log.debug("an answer arrived too late", { question: id, reason: code });
    }
  }
}

async function askClient(connection: AcpConnection, question: ClientQuestion): Promise<QuestionResult> {
  const hint = (text: string) => sendNotice(connection, question.sessionId, { id: question.id, text });
  switch (question.kind) {
    case "approval":
      return askPermission(connection, question);
    case "clarify":
      return askClarify(connection, question);
    case "sudo":
      hint(NO_PASSWORDS);
      return { type: "reply", reply: { password: "" }, by: OURSELVES };
    case "secret":
      hint(noSecrets(String(question.data["env_var"])));
      return { type: "reply", reply: { value: "" }, by: OURSELVES };
  }
}

/** Editors show what the user types into a form, and may store it. */
const NO_PASSWORDS =
  "A command needs a password. agentd never asks for passwords in an editor. Run the command in a terminal or in `agentd chat`.";

const noSecrets = (name: string): string =>
  `The secret ${name} is missing. agentd never asks for secrets in an editor. Enter it in a terminal: run \`agentd acp --setup\` or \`agentd chat\`.`;

/** Calls for questions of sub-agents: a question must name a call, and the client does not know the sub-agent's. */
class SyntheticCalls {
  readonly #connection: AcpConnection;
  readonly #sessionId: string;
  readonly #open = new Set<string>();

  constructor(connection: AcpConnection, sessionId: string) {
    this.#connection = connection;
    this.#sessionId = sessionId;
  }

  /** Sends a call with the id of the question. */
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
