import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { OURSELVES } from "../../agent/question/question.ts";
import { clientQuirks } from "../wire/client-quirks.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { choiceOf, permissionRequest } from "./permission-request.ts";
import { macrotask, type Answered, type PutQuestion } from "./question.ts";
import { sendHint } from "./question-report.ts";

/** How long later questions wait once one was not answered at all. */
const SILENT_WAIT_MS = 30_000;

/** Asks the client's user for permission. Any answer that does not allow the call denies it. */
export async function askPermission(connection: AcpConnection, question: PutQuestion): Promise<Answered> {
  const quirks = clientQuirks(connection);
  if (quirks.hasNoPermissions) return DENIED;
  const stopWaiting = quirks.isSilent ? await shortWait(connection, question) : undefined;
  try {
    const { outcome } = await connection.client.request(
      "session/request_permission",
      permissionRequest(question),
      { cancellationSignal: question.signal, stopWaitingOnCancel: true },
    );
    quirks.isSilent = false;
    if (outcome.outcome === "cancelled") return { type: "cancel" };
    const choice = choiceOf(question.data, String((outcome as { readonly optionId: unknown }).optionId));
    return { type: "reply", reply: { choice }, by: "acp" };
  } catch (error) {
    await macrotask();
    if (question.signal.aborted) return { type: "open" };
    // A result of the wrong shape throws too. It came from somebody who was asked, so the next question is put as well.
    if (!(error instanceof RequestError)) return NOT_UNDERSTOOD;
    noteNoPermissions(connection, question);
    return DENIED;
  } finally {
    stopWaiting?.();
  }
}

/** From now on the client gets no requests for permission, and its user a notice that says so. */
export function noteNoPermissions(connection: AcpConnection, question: PutQuestion): void {
  clientQuirks(connection).hasNoPermissions = true;
  sendHint(connection, question, NO_PERMISSIONS);
}

/** Its end is told to everybody, us as well. */
async function shortWait(connection: AcpConnection, { id }: PutQuestion): Promise<() => void> {
  const { clock, agent, log } = await connection.deps();
  return clock.after(SILENT_WAIT_MS, () => {
    agent.deps.questions
      .giveUp(id)
      .catch((error: unknown) => log.warn("a question stays open", { question: id, error }));
  });
}

const NO_PERMISSIONS =
  "This editor answers requests for permission with an error. What needs permission is denied from now on.";

const DENIED = {
  type: "reply",
  reply: { choice: "deny", reason: "this editor cannot ask its user for permission" },
  by: OURSELVES,
} as const satisfies Answered;

const NOT_UNDERSTOOD = {
  type: "reply",
  reply: { choice: "deny", reason: "the answer of this editor could not be understood" },
  by: OURSELVES,
} as const satisfies Answered;
