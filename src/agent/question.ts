import type { ApprovalRequest, AskChoice } from "../../generated/http/client/types.gen.ts";
import type { AskRow } from "../store/tables.ts";

/** What an approval asks about. Redacted before it gets here. */
export interface ApprovalQuestion {
  readonly tool: string;
  readonly kind: ApprovalRequest["kind"];
  readonly title: string;
  readonly description?: string;
  readonly command?: string;
  readonly choices: readonly AskChoice[];
}

/** A stored approval as every surface shows it. */
export function toApprovalRequest(row: AskRow): ApprovalRequest {
  const question = JSON.parse(row.question) as ApprovalQuestion;
  return {
    ...question,
    request_id: row.id,
    choices: [...question.choices],
    created_at: row.created_at / 1000,
    expires_at: row.expires_at === null ? null : row.expires_at / 1000,
  };
}
