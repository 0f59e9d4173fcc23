import type { AskChoice } from "../../generated/http/client/types.gen.ts";
import type { Clock } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { createId } from "../base/ids.ts";
import type { Store, Tx } from "../store/store.ts";
import type { AskRow } from "../store/tables.ts";
import { runEvent } from "./event.ts";
import { toApprovalRequest, type ApprovalQuestion } from "./question.ts";
import { moveRun } from "./run.ts";

/** How a question ended. `by` names who answered. */
export type AskOutcome =
  | { readonly status: "answered"; readonly choice: AskChoice; readonly by: string }
  | { readonly status: "expired" }
  | { readonly status: "cancelled" };

export interface AskSubject {
  readonly sessionId: string;
  readonly runId: string;
  readonly owner: string;
}

/**
 * Questions are rows: stored before anybody sees them, answered once, from any surface and any process, and closed
 * when their time or their run is over. The asker learns the outcome from the journal like everyone else.
 */
export class Asks {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Stores an approval, waits for its outcome and resolves with it. While it is open the run waits for approval.
   * When `signal` aborts the question is closed as cancelled. `timeoutMs` 0 waits without end.
   */
  async approval(
    subject: AskSubject,
    question: ApprovalQuestion,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<AskOutcome> {
    const { row, after } = await this.#open(subject, question, options.timeoutMs);
    const ended = new AbortController();
    const trouble = Promise.withResolvers<never>();
    const close = (status: "expired" | "cancelled") => void this.#close(row, status).catch(trouble.reject);
    const stopTimer =
      options.timeoutMs > 0 ? this.#clock.after(options.timeoutMs, () => close("expired")) : undefined;
    const cancel = () => close("cancelled");
    options.signal.addEventListener("abort", cancel, { once: true });
    if (options.signal.aborted) cancel();
    try {
      return await Promise.race([this.#outcome(row, { after, signal: ended.signal }), trouble.promise]);
    } finally {
      ended.abort();
      stopTimer?.();
      options.signal.removeEventListener("abort", cancel);
    }
  }

  /** The open questions of a run, oldest first. */
  async open(runId: string): Promise<readonly AskRow[]> {
    return this.#store.read
      .selectFrom("asks")
      .selectAll()
      .where("run_id", "=", runId)
      .where("status", "=", "open")
      .orderBy("created_at")
      .orderBy("id")
      .execute();
  }

  /**
   * Answers an open question of `owner`; the first valid answer wins.
   * ServiceError `ask_not_found` for an unknown or foreign id, `ask_not_pending` when it is closed already,
   * `invalid_request` for a choice that was not offered.
   */
  async answer(askId: string, answer: { owner: string; choice: AskChoice; by: string }): Promise<void> {
    const row = await this.#store.read
      .selectFrom("asks")
      .selectAll()
      .where("id", "=", askId)
      .executeTakeFirst();
    if (!row || row.owner !== answer.owner) {
      throw new ServiceError("ask_not_found", `There is no question ${JSON.stringify(askId)}.`);
    }
    const offered = toApprovalRequest(row).choices;
    if (!offered.includes(answer.choice)) {
      throw new ServiceError("invalid_request", `choice must be one of: ${offered.join(", ")}.`, {
        param: "choice",
      });
    }
    const won = await this.#store.write(async (tx) => {
      const set = {
        status: "answered",
        answer: JSON.stringify({ choice: answer.choice }),
        answered_by: answer.by,
        answered_at: tx.nowMs,
      };
      if ((await tx.update("asks", { id: askId, status: "open" }, set)) === 0) return false;
      const data = { request_id: askId, choice: answer.choice, by: answer.by };
      await this.#resume(tx, row, runEvent(row.run_id, "approval.responded", data));
      return true;
    });
    if (!won) throw new ServiceError("ask_not_pending", `The question ${askId} is closed already.`);
  }

  async #open(
    subject: AskSubject,
    question: ApprovalQuestion,
    timeoutMs: number,
  ): Promise<{ row: AskRow; after: number }> {
    const id = createId("ask", this.#clock.now());
    return this.#store.write(async (tx) => {
      const row: AskRow = {
        id,
        session_id: subject.sessionId,
        run_id: subject.runId,
        owner: subject.owner,
        kind: "approval",
        status: "open",
        question: JSON.stringify(question),
        answer: null,
        answered_by: null,
        created_at: tx.nowMs,
        expires_at: timeoutMs > 0 ? tx.nowMs + timeoutMs : null,
        answered_at: null,
      };
      await tx.insert("asks", [row]);
      await moveRun(tx, subject.runId, { from: "running", to: "waiting_for_approval" });
      const event = runEvent(subject.runId, "approval.request", toApprovalRequest(row));
      const [appended] = await this.#store.journal.append(tx, subject.sessionId, [event]);
      return { row, after: appended?.runSeq ?? 0 };
    });
  }

  async #close(row: AskRow, status: "expired" | "cancelled"): Promise<void> {
    await this.#store.write(async (tx) => {
      if ((await tx.update("asks", { id: row.id, status: "open" }, { status })) === 0) return;
      await this.#resume(tx, row, closedEvent(row, status));
    });
  }

  /** Appends the closing event, and lets the run go on when nothing else is open. */
  async #resume(tx: Tx, row: AskRow, event: ReturnType<typeof runEvent>): Promise<void> {
    await this.#store.journal.append(tx, row.session_id, [event]);
    const other = await tx.db
      .selectFrom("asks")
      .select("id")
      .where("run_id", "=", row.run_id)
      .where("status", "=", "open")
      .limit(1)
      .executeTakeFirst();
    if (!other) await moveRun(tx, row.run_id, { from: "waiting_for_approval", to: "running" });
  }

  async #outcome(row: AskRow, from: { after: number; signal: AbortSignal }): Promise<AskOutcome> {
    for await (const events of this.#store.journal.follow({ runId: row.run_id }, from)) {
      for (const event of events) {
        if (event.data["request_id"] !== row.id) continue;
        if (event.type === "approval.responded") {
          const { choice, by } = event.data as { choice: AskChoice; by: string };
          return { status: "answered", choice, by };
        }
        if (event.type === "approval.expired") {
          return { status: event.data["reason"] === "timeout" ? "expired" : "cancelled" };
        }
      }
    }
    return { status: "cancelled" }; // the store closed under us
  }
}

/** Closes what a dead run left open, inside `tx`. */
export async function cancelOpenAsks(tx: Tx, store: Store, runId: string): Promise<void> {
  const rows = await tx.db
    .selectFrom("asks")
    .selectAll()
    .where("run_id", "=", runId)
    .where("status", "=", "open")
    .execute();
  for (const row of rows) {
    await tx.update("asks", { id: row.id, status: "open" }, { status: "cancelled" });
    await store.journal.append(tx, row.session_id, [closedEvent(row, "cancelled")]);
  }
}

function closedEvent(row: AskRow, status: "expired" | "cancelled"): ReturnType<typeof runEvent> {
  const reason = status === "expired" ? "timeout" : "cancelled";
  return runEvent(row.run_id, "approval.expired", { request_id: row.id, reason });
}
