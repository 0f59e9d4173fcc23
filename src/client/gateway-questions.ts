import type { HostRequests } from "../../generated/gateway/host.gen.ts";
import type { GatewayQuestions, QuestionMethod } from "./gateway-types.ts";

export interface AskedQuestion {
  readonly id: string;
  readonly method: QuestionMethod;
  readonly params: HostRequests[QuestionMethod]["params"];
}

type Result = HostRequests[QuestionMethod]["result"];

interface Open {
  readonly question: AskedQuestion;
  readonly withdrawn: AbortController;
  /** The connection on which the question waits as a request; undefined when it was only read of. */
  connection: object | undefined;
  answer?: Result;
}

export interface QuestionDeskOptions {
  readonly questions: GatewayQuestions;
  /**
   * Sends an answer; undefined declines. `connection` is the one on which the question waits, to be answered there if it
   * still stands.
   */
  readonly answer: (
    question: AskedQuestion,
    result: Result | undefined,
    connection: object | undefined,
  ) => void;
  readonly onThrown: (question: AskedQuestion, error: unknown) => void;
}

/** Questions that are at the host, over all connections. */
export class QuestionDesk {
  readonly #options: QuestionDeskOptions;
  readonly #open = new Map<string, Open>();

  constructor(options: QuestionDeskOptions) {
    this.#options = options;
  }

  /** One that is known already is not asked again; if it was answered, the answer is sent again. */
  ask(question: AskedQuestion, connection?: object): void {
    const known = this.#open.get(question.id);
    if (!known) return void this.#put(question, connection);
    known.connection = connection ?? known.connection;
    if (known.answer) this.#options.answer(question, known.answer, connection);
  }

  /** The question is open no more. */
  withdraw(id: string): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.withdrawn.abort();
  }

  /** Of a session, only `open` are open still, and what was asked on this very connection. */
  keepOnly(sessionId: string, open: ReadonlySet<string>, connection: object): void {
    for (const [id, { question, connection: on }] of this.#open) {
      if (question.params.session_id === sessionId && !open.has(id) && on !== connection) this.withdraw(id);
    }
  }

  close(): void {
    for (const id of this.#open.keys()) this.withdraw(id);
  }

  async #put(question: AskedQuestion, connection: object | undefined): Promise<void> {
    const { questions, answer, onThrown } = this.#options;
    const ask = questions[question.method] as
      | ((params: object, options: { readonly signal: AbortSignal }) => Promise<Result | undefined>)
      | undefined;
    if (!ask) return answer(question, undefined, connection);
    const open: Open = { question, connection, withdrawn: new AbortController() };
    this.#open.set(question.id, open);
    const { signal } = open.withdrawn;
    let result: Result | undefined;
    try {
      result = await ask(question.params, { signal });
    } catch (error) {
      if (!signal.aborted) onThrown(question, error);
    }
    if (signal.aborted) return;
    if (result) open.answer = result;
    else this.#open.delete(question.id);
    answer(question, result, open.connection);
  }
}
