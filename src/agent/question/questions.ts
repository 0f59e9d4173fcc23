import type { AskChoice } from "../../../generated/http/client/types.gen.ts";
import type { Clock } from "../../base/time.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import { redactValue } from "../../base/observe.ts";
import type { NewEvent } from "../../store/journal/journal.ts";
import { isUnavailable, retryWhileUnavailable } from "../../store/tx/group.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import {
  checkReply,
  expiredEvent,
  requestEvent,
  respondedEvent,
  type QuestionKind,
  type QuestionContent,
  type QuestionReplies,
} from "./question.ts";
import { moveRun, isParked } from "../run/run.ts";
import { enqueueQuestionWebhook } from "../run/webhook.ts";

/** How a question ended. `by` names who answered. */
export type QuestionOutcome<K extends QuestionKind = "approval"> =
  | ({ readonly status: "answered"; readonly id: string; readonly by: string } & Learned[K])
  | { readonly status: "expired" }
  | { readonly status: "cancelled" };

/** What the asker learns of an answer. */
interface Learned {
  readonly approval: QuestionReplies["approval"];
  readonly clarify: QuestionReplies["clarify"];
  /** Undefined: refused. */
  readonly sudo: { readonly password: string | undefined };
  readonly secret: { readonly stored: boolean };
}

export interface QuestionSubject {
  readonly sessionId: string;
  readonly runId: string;
  readonly owner: string;
}

/** Where the values of secrets go. */
export interface SecretKeeper {
  /** ServiceError when it cannot hold the value. */
  set(name: string, value: string): Promise<void>;
}

/**
 * Questions are rows: stored before anyone sees them, answered once, from any surface and any process, and closed
 * when their time or their run is over. The asker learns the outcome from the journal like everyone else; a password
 * alone goes from hand to hand, in memory, and so is taken by the process that asks for it only.
 */
export class Questions {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #secrets: SecretKeeper | undefined;
  /** Passwords on their way from the answer to the asker, by question; a key without a value is waited for. */
  readonly #passwords = new Map<string, string | undefined>();
  /** The newest answer under way, by question: they are taken one after the other. */
  readonly #answering = new Map<string, Promise<void>>();
  /** Runs that may have an open question without a waiting caller: the store failed when it was asked or closed. */
  readonly #uncertain = new Set<string>();

  constructor(store: Store, clock: Clock, secrets?: SecretKeeper) {
    this.#store = store;
    this.#clock = clock;
    this.#secrets = secrets;
  }

  /**
   * Stores a question, waits for its outcome and resolves with it. While it is open the run waits (status
   * `waiting_for_approval`). When `signal` aborts the question is closed as cancelled. `timeoutMs` 0 waits without end.
   */
  async ask<K extends QuestionKind>(
    kind: K,
    subject: QuestionSubject,
    question: QuestionContent[K],
    options: QuestionOptions,
  ): Promise<QuestionOutcome<K>> {
    const { timeoutMs, callId } = options;
    const id = createId("ask", this.#clock.now());
    if (kind === "sudo") this.#passwords.set(id, undefined);
    const opening = this.#open({ id, kind, subject, question, timeoutMs, callId });
    const opened = await opening.catch((error: unknown) => {
      this.#passwords.delete(id);
      this.#uncertain.add(subject.runId);
      throw error;
    });
    if (!opened) {
      this.#passwords.delete(id);
      return { status: "cancelled" };
    }
    try {
      return (await this.#wait(opened.row, opened.after, options)) as QuestionOutcome<K>;
    } finally {
      this.#passwords.delete(id);
    }
  }

  /**
   * Waits for the outcome of an approval that another process requested, which may be answered already. Its expiry does
   * not change.
   */
  async attach(row: QuestionRow, { signal }: { readonly signal: AbortSignal }): Promise<QuestionOutcome> {
    const timeoutMs = row.expires_at === null ? 0 : Math.max(1, row.expires_at - this.#clock.now());
    return (await this.#wait(row, 0, { timeoutMs, signal })) as QuestionOutcome;
  }

  /**
   * Uses an approval, once: false when it was used before, when another process has taken the session over, or when
   * `signal` aborted meanwhile. True: the call may begin.
   */
  async take(
    questionId: string,
    { sessionId, signal }: { readonly sessionId: string; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const taken = { id: questionId, status: "answered", used_at: null };
    const lease = { lease_owner: this.#store.owner };
    return this.#store.write(async (tx) => {
      if (signal.aborted) return false;
      // Also keeps other processes from taking the session over before this is committed.
      if ((await tx.update("sessions", { id: sessionId, ...lease }, lease)) === 0) return false;
      return (await tx.update("questions", taken, { used_at: tx.nowMs })) === 1;
    });
  }

  /** Closes questions of an ending run, inside `tx`, that failures of the store may have left open. */
  async closeUncertain(tx: Tx, runId: string): Promise<void> {
    if (this.#uncertain.has(runId)) await cancelOpenQuestions(tx, this.#store, runId);
  }

  /** Forgets a run that has ended. */
  forget(runId: string): void {
    this.#uncertain.delete(runId);
  }

  /** Closes a question, if it is open, whose answer is no longer needed. */
  async withdraw(row: QuestionRow): Promise<void> {
    await this.#close(row, "cancelled");
  }

  /** Expires a question, if it is open, because no surface can show it. */
  async giveUp(questionId: string): Promise<void> {
    const questions = this.#store.read.selectFrom("questions").selectAll();
    const row = await questions.where("id", "=", questionId).executeTakeFirst();
    if (row) await this.#close(row, "timeout");
  }

  async #wait(
    row: QuestionRow,
    after: number,
    { timeoutMs, signal }: Pick<QuestionOptions, "timeoutMs" | "signal">,
  ): Promise<QuestionOutcome<QuestionKind>> {
    const ended = new AbortController();
    const trouble = Promise.withResolvers<never>();
    const patiently = <T>(work: () => Promise<T>) =>
      retryWhileUnavailable(work, { clock: this.#clock, forMs: Number.POSITIVE_INFINITY, signal });
    const expire = () => void patiently(() => this.#close(row, "timeout")).catch(trouble.reject);
    const stopTimer = timeoutMs > 0 ? this.#clock.after(timeoutMs, expire) : undefined;
    // A question whose run is parked stays open for the next process.
    const cancel = () =>
      isParked(signal) ? ended.abort() : void this.#close(row, "cancelled").catch(trouble.reject);
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    try {
      const outcome = patiently(() => this.#outcome(row, { after, signal: ended.signal }));
      outcome.catch(() => {}); // the loser of the race must not count as unhandled
      return await Promise.race([outcome, trouble.promise]);
    } catch (error) {
      if (isUnavailable(error)) this.#uncertain.add(row.run_id);
      throw error;
    } finally {
      ended.abort();
      stopTimer?.();
      signal.removeEventListener("abort", cancel);
    }
  }

  /** The open questions of a run or a session, oldest first. */
  async open(
    where: { readonly runId: string } | { readonly sessionId: string },
  ): Promise<readonly QuestionRow[]> {
    const open = this.#store.read.selectFrom("questions").selectAll().where("status", "=", "open");
    const mine =
      "runId" in where
        ? open.where("run_id", "=", where.runId)
        : open.where("session_id", "=", where.sessionId);
    return mine.orderBy("created_at").orderBy("id").execute();
  }

  /**
   * Answers an open question of `owner`; the first valid answer wins.
   * ServiceError `ask_not_found` for an unknown or foreign id, `ask_not_pending` when it is closed already or waits for
   * a password in another process, `invalid_request` for an answer that does not fit the question.
   */
  async answer(
    questionId: string,
    answer: Answer,
    /** Runs inside the transaction of the answer. */
    alsoRecord?: (tx: Tx) => Promise<void>,
  ): Promise<void> {
    const before = this.#answering.get(questionId);
    const work = (async () => {
      await before?.catch(() => {});
      await this.#answer(questionId, answer, alsoRecord);
    })();
    this.#answering.set(questionId, work);
    try {
      await work;
    } finally {
      if (this.#answering.get(questionId) === work) this.#answering.delete(questionId);
    }
  }

  /** Never two of a question at once in this process: a password or secret of the one that loses must not stay. */
  async #answer(
    questionId: string,
    { owner, by, ...given }: Answer,
    alsoRecord?: (tx: Tx) => Promise<void>,
  ): Promise<void> {
    // What people type may hold a secret that is known here, by mistake.
    const isText = "answers" in given || "choice" in given;
    const reply = isText ? (redactValue(given) as typeof given) : given;
    const row = await this.#store.read
      .selectFrom("questions")
      .selectAll()
      .where("id", "=", questionId)
      .executeTakeFirst();
    if (!row || row.owner !== owner) {
      throw new ServiceError("ask_not_found", `Question ${JSON.stringify(questionId)} does not exist.`);
    }
    checkReply(row, reply);
    if (row.status !== "open") throw closedAlready(questionId);
    if (row.expires_at !== null && row.expires_at <= this.#clock.now()) {
      // The process that would expire it may be dead.
      await this.#close(row, "timeout");
      throw closedAlready(questionId);
    }
    await this.#deliver(row, reply);
    const won = await this.#store.write(async (tx) => {
      const set = {
        status: "answered",
        answer: "choice" in reply || "answers" in reply ? JSON.stringify(reply) : null,
        answered_by: by,
        answered_at: tx.nowMs,
      };
      if ((await tx.update("questions", { id: questionId, status: "open" }, set)) === 0) return false;
      await this.#resume(tx, row, respondedEvent(row, reply, by));
      await alsoRecord?.(tx);
      return true;
    });
    if (!won) throw closedAlready(questionId);
  }

  /** Hands over passwords and secrets, which are not stored, before the answer is announced. */
  async #deliver(row: QuestionRow, reply: QuestionReplies[QuestionKind]): Promise<void> {
    if ("password" in reply) {
      if (!this.#passwords.has(row.id)) {
        throw new ServiceError(
          "ask_not_pending",
          "The command that needs this password runs in another process. Answer where it runs.",
        );
      }
      this.#passwords.set(row.id, reply.password === "" ? undefined : reply.password);
    }
    if ("value" in reply && reply.value !== "") {
      const { env_var: name } = JSON.parse(row.question) as QuestionContent["secret"];
      await this.#secrets?.set(name, reply.value);
    }
  }

  /** Undefined when the run has ended, for example because its process slept past its lease: nothing is asked then. */
  async #open({
    id,
    kind,
    subject,
    question,
    timeoutMs,
    callId,
  }: Opening): Promise<{ row: QuestionRow; after: number } | undefined> {
    return this.#store.write(async (tx) => {
      const row: QuestionRow = {
        id,
        session_id: subject.sessionId,
        run_id: subject.runId,
        owner: subject.owner,
        kind,
        status: "open",
        question: JSON.stringify(question),
        answer: null,
        answered_by: null,
        created_at: tx.nowMs,
        expires_at: timeoutMs > 0 ? tx.nowMs + timeoutMs : null,
        answered_at: null,
        call_id: callId ?? null,
        used_at: null,
      };
      if (!(await moveRun(tx, subject.runId, { from: "running", to: "waiting_for_approval" }))) {
        const run = await tx.find("runs", { id: subject.runId });
        if (run && run.ended_at !== null) return undefined;
      }
      await tx.insert("questions", [row]);
      await enqueueQuestionWebhook(tx, this.#store, row);
      const [appended] = await this.#store.journal.append(tx, subject.sessionId, [requestEvent(row)]);
      return { row, after: appended?.runSeq ?? 0 };
    });
  }

  async #close(row: QuestionRow, reason: "timeout" | "cancelled"): Promise<void> {
    const status = reason === "timeout" ? "expired" : "cancelled";
    await this.#store.write(async (tx) => {
      if ((await tx.update("questions", { id: row.id, status: "open" }, { status })) === 0) return;
      await this.#resume(tx, row, expiredEvent(row, reason));
    });
  }

  /** Appends the closing event, and lets the run continue when nothing else is open. */
  async #resume(tx: Tx, row: QuestionRow, event: NewEvent): Promise<void> {
    await this.#store.journal.append(tx, row.session_id, [event]);
    const other = await tx.db
      .selectFrom("questions")
      .select("id")
      .where("run_id", "=", row.run_id)
      .where("status", "=", "open")
      .limit(1)
      .executeTakeFirst();
    if (!other) await moveRun(tx, row.run_id, { from: "waiting_for_approval", to: "running" });
  }

  async #outcome(
    row: QuestionRow,
    from: { after: number; signal: AbortSignal },
  ): Promise<QuestionOutcome<QuestionKind>> {
    for await (const events of this.#store.journal.follow({ runId: row.run_id }, from)) {
      for (const { type, data } of events) {
        if (data["request_id"] !== row.id) continue;
        if (type.endsWith(".responded")) return this.#answered(row, data);
        if (type.endsWith(".expired")) {
          return { status: data["reason"] === "timeout" ? "expired" : "cancelled" };
        }
      }
    }
    return { status: "cancelled" }; // the store closed under us
  }

  #answered(row: QuestionRow, data: Readonly<Record<string, unknown>>): QuestionOutcome<QuestionKind> {
    const by = String(data["by"]);
    const { id } = row;
    const reason = data["reason"] === undefined ? {} : { reason: String(data["reason"]) };
    switch (row.kind as QuestionKind) {
      case "approval":
        return {
          status: "answered",
          id,
          by,
          choice: data["choice"] as AskChoice,
          ...reason,
          ...(data["for_session"] === true ? { forSession: true } : {}),
        };
      case "clarify":
        return {
          status: "answered",
          id,
          by,
          answers: data["answers"] as Record<string, string>,
          ...(data["ends_turn"] === true ? { endsTurn: true } : {}),
        };
      case "sudo":
        return { status: "answered", id, by, password: this.#passwords.get(row.id) };
      case "secret":
        return { status: "answered", id, by, stored: data["skipped"] === false };
    }
  }
}

type Answer = { readonly owner: string; readonly by: string } & QuestionReplies[QuestionKind];

export interface QuestionOptions {
  /** 0 waits without end. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The call that waits, when it is one of the run that is asked about. */
  readonly callId?: string | undefined;
}

interface Opening {
  readonly id: string;
  readonly kind: QuestionKind;
  readonly subject: QuestionSubject;
  readonly question: QuestionContent[QuestionKind];
  readonly timeoutMs: number;
  readonly callId: string | undefined;
}

/** Closes what a dead run left open, inside `tx`. */
export async function cancelOpenQuestions(tx: Tx, store: Store, runId: string): Promise<void> {
  const rows = await tx.db
    .selectFrom("questions")
    .selectAll()
    .where("run_id", "=", runId)
    .where("status", "=", "open")
    .execute();
  for (const row of rows) {
    await tx.update("questions", { id: row.id, status: "open" }, { status: "cancelled" });
    await store.journal.append(tx, row.session_id, [expiredEvent(row, "cancelled")]);
  }
}

function closedAlready(questionId: string): ServiceError {
  return new ServiceError("ask_not_pending", `The question ${questionId} is closed already.`);
}
