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
  /** The connection on which the question waits as a request; undefined when it was only read of. */
  on: object | undefined;
  answer?: object | undefined;
}

interface QuestionServiceOptions {
  readonly questions: GatewayQuestions;
  /** Sends an answer, to the connection on which the question waits if it still stands; undefined declines. */
  send(question: ReceivedQuestion, answer: object | undefined, on: object | undefined): void;
  onThrown(question: ReceivedQuestion, error: unknown): void;
}

/** Questions that are at the host, over all connections. */
export class QuestionService {
  readonly #options: QuestionServiceOptions;
  readonly #open = new Map<string, Open>();

  constructor(options: QuestionServiceOptions) {
    this.#options = options;
  }

  /** One that is known already is not asked again; if it was answered, the answer is sent again. */
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

  /** The question is open no more. */
  withdraw(id: string): void {
    this.#open.get(id)?.withdrawn.abort();
    this.#open.delete(id);
  }

  /** Of a session only `open` are open still, and what was asked on this very connection. */
  keepOnly(sessionId: string, open: ReadonlySet<string>, connection: object): void {
    for (const [id, { question, on }] of this.#open) {
      if (question.params.session_id === sessionId && !open.has(id) && on !== connection) this.withdraw(id);
    }
  }

  close(): void {
    for (const id of this.#open.keys()) this.withdraw(id);
  }
}
