import { OURSELVES, type QuestionKind } from "../../agent/question/question.ts";
import { toServiceError } from "../../base/errors.ts";
import type { JournalEvent } from "../../store/journal/journal.ts";
import { askClarify } from "./clarify.ts";
import { clientQuirks } from "../wire/client-quirks.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { MadeCalls } from "./synthetic-calls.ts";
import { askPermission } from "./permission.ts";
import { macrotask, type Answered, type PutQuestion, type ReportedCall } from "./question.ts";
import { sendHint } from "./question-report.ts";
import type { AcpSession } from "../session/session.ts";
import { toolCallIdOf } from "../tools/tool-call-id.ts";
import type { AcpTurn } from "../prompt/turn.ts";

export interface TurnQuestionsOptions {
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
  readonly #made: MadeCalls;
  /** The newest of the questions that are put in turn. */
  #line = Promise.resolve();

  constructor(options: TurnQuestionsOptions) {
    this.#options = options;
    this.#made = new MadeCalls(options.connection, options.session.id);
  }

  /** Takes an event that asks: `approval.request`, `clarify.request`, `sudo.request` or `secret.request`. */
  put({ type, runId, data }: JournalEvent): void {
    const { connection, session, turn, callOf } = this.#options;
    const id = String(data["request_id"]);
    const callId = data["tool_call_id"];
    const toolCallId =
      typeof callId === "string" ? toolCallIdOf(runId ?? "", callId) : this.#made.make(id, data);
    const withdrawn = new AbortController();
    this.#open.set(id, withdrawn);
    const question: PutQuestion = {
      id,
      kind: type.split(".")[0] as QuestionKind,
      data,
      sessionId: session.id,
      toolCallId,
      told: callOf(toolCallId),
      signal: AbortSignal.any([turn.signal, withdrawn.signal]),
    };
    this.#line = this.#line.then(() => this.#settle(question)).catch(connection.onFault);
  }

  /** Takes an event that closes a question, whoever closed it: `*.responded` or `*.expired`. */
  settled({ type, data }: JournalEvent): void {
    if (type === "approval.expired" && data["reason"] === "timeout") {
      clientQuirks(this.#options.connection).isSilent = true;
    }
    const id = String(data["request_id"]);
    this.#made.end(id, type.endsWith(".responded") && data["choice"] !== "deny");
    this.#withdraw(id);
  }

  /** Withdraws what is open. */
  close(): void {
    this.#made.close();
    for (const id of this.#open.keys()) this.#withdraw(id);
  }

  #withdraw(id: string): void {
    this.#open.get(id)?.abort();
    this.#open.delete(id);
  }

  async #settle(question: PutQuestion): Promise<void> {
    const { connection, turn } = this.#options;
    const { id, signal } = question;
    if (signal.aborted) return;
    const deps = await connection.deps();
    try {
      const answered = await ask(connection, question);
      await macrotask();
      if (signal.aborted || answered.type === "open") return;
      if (answered.type === "cancel") return turn.cancel();
      const by = answered.type === "reply" ? answered.by : "acp";
      await deps.agent.deps.questions.answer(id, { owner: deps.owner, by, ...answered.reply });
      if (answered.type === "later") turn.endWithQuestion();
    } catch (error) {
      const { code } = toServiceError(error);
      if (code !== "ask_not_pending" && code !== "ask_not_found") throw error;
      deps.log.debug("an answer came too late", { question: id, reason: code });
    }
  }
}

async function ask(connection: AcpConnection, question: PutQuestion): Promise<Answered> {
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
