/** Leave that is given or refused for all that a session asks at once. */
import type { AskChoice } from "../../../generated/http/client/types.gen.ts";
import { toApprovalRequest } from "../../agent/question/question.ts";
import { ServiceError } from "../../base/errors.ts";
import type { QuestionRow } from "../../store/schema/tables.ts";
import type { RpcDeps } from "../deps.ts";

/** The open approvals of a session, oldest first. */
export async function openApprovals({ agent }: RpcDeps, sessionId: string): Promise<readonly QuestionRow[]> {
  const open = await agent.deps.questions.open({ sessionId });
  return open.filter(({ kind }) => kind === "approval");
}

/** Resolves to how many were settled. Where a choice is not offered, the next narrower one holds. */
export async function settleAll(
  deps: RpcDeps,
  { sessionId, owner, choice }: { sessionId: string; owner: string; choice: AskChoice },
): Promise<number> {
  let settled = 0;
  for (const row of await openApprovals(deps, sessionId)) {
    const { choices } = toApprovalRequest(row);
    try {
      const reply = { choice: narrowed(choice, choices) };
      await deps.agent.deps.questions.answer(row.id, { owner, by: "rpc", ...reply });
      settled += 1;
    } catch (error) {
      // Somebody else was first with this one.
      if (!(error instanceof ServiceError) || error.row.rpc !== 4009) throw error;
    }
  }
  return settled;
}

/** The choice, or the widest one within it that is offered. */
export function narrowed(choice: AskChoice, offered: readonly AskChoice[]): AskChoice {
  return NARROWER[choice].find((each) => offered.includes(each)) ?? "deny";
}

const NARROWER: Readonly<Record<AskChoice, readonly AskChoice[]>> = {
  always: ["always", "session", "once"],
  session: ["session", "once"],
  once: ["once"],
  deny: ["deny"],
};
