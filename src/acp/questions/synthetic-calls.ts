import type { JournalEvent } from "../../store/journal/journal.ts";
import type { AcpConnection } from "../wire/connection.ts";
import { askedCall } from "./permission-request.ts";
import { sendUpdate } from "./question-report.ts";

/** A sub-agent's question belongs to no call that the client knows, but must name one: so a call is made for it. */
export class MadeCalls {
  readonly #connection: AcpConnection;
  readonly #sessionId: string;
  readonly #open = new Set<string>();

  constructor(connection: AcpConnection, sessionId: string) {
    this.#connection = connection;
    this.#sessionId = sessionId;
  }

  /** Tells of the call; its id is that of the question. */
  make(id: string, data: JournalEvent["data"]): string {
    this.#open.add(id);
    sendUpdate(this.#connection, this.#sessionId, {
      sessionUpdate: "tool_call",
      ...askedCall({ data, toolCallId: id, told: undefined }),
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
