import type { HostRequests } from "../../../generated/gateway/host.gen.ts";
import type { Answerer, GatewayQuestions, QuestionMethod } from "./types.ts";

export interface ReceivedQuestion {
  readonly id: string;
  readonly method: QuestionMethod;
  readonly params: HostRequests[QuestionMethod]["params"];
}

interface Open {
  readonly question: ReceivedQuestion;
  readonly withdrawn: AbortController;
  /** The connection on which the question is an open request; undefined when it only came with a session. */
  on: object | undefined;
  answer?: object | undefined;
}

interface QuestionServiceOptions {
  readonly questions: GatewayQuestions;
  /** Sends an answer, on the question's connection if it is still open. Undefined declines. */
  send(question: ReceivedQuestion, answer: object | undefined, on: object | undefined): void;
  onThrown(question: ReceivedQuestion, error: unknown): void;
}

/** The open questions of the host, over all connections. */
export class QuestionService {
  readonly #options: QuestionServiceOptions;
  readonly #open = new Map<string, Open>();

  constructor(options: QuestionServiceOptions) {
    this.#options = options;
  }

  /** Asks the host a question. A known question is not asked again; if it was answered, the answer is sent again. */
  async ask(question: ReceivedQuestion, on?: object): Promise<void> {
    const { questions, send, onThrown } = this.#options;
    const known = this.#open.get(question.id);
    if (known) {
      known.on = on ?? known.on;
      if (known.answer) send(question, known.answer, on);
      return;
    }
    const open: Open = { question, on, withdrawn: new AbortController() };
    const { signal } = open.withdrawn;
    this.#open.set(question.id, open);
    try {
      open.answer = await (questions[question.method] as Answerer<"approval"> | undefined)?.(
        question.params as HostRequests["approval"]["params"],
        { signal },
      );
    } catch (error) {
      if (!signal.aborted) onThrown(question, error);
    }
    if (signal.aborted) return;
    if (!open.answer) this.#open.delete(question.id);
    send(question, open.answer, open.on);
  }

  /** Cancels a question that is no longer open. */
  withdraw(id: string): void {
    this.#open.get(id)?.withdrawn.abort();
    this.#open.delete(id);
  }

  /** Cancels the questions of a session, except `open` and those asked on this connection. */
  keepOnly(sessionId: string, open: ReadonlySet<string>, connection: object): void {
    for (const [id, { question, on }] of this.#open) {
      if (question.params.session_id === sessionId && !open.has(id) && on !== connection) this.withdraw(id);
    }
  }

  close(): void {
    for (const id of this.#open.keys()) this.withdraw(id);
  }
}
