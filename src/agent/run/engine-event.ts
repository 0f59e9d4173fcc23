import type { NewEvent } from "../../store/journal/journal.ts";
import type { EngineEvent } from "../engine.ts";
import { runEvent } from "./event.ts";

/** The journal's form of what an engine reports. */
export function fromEngine(runId: string, event: EngineEvent): NewEvent {
  switch (event.type) {
    case "message.start":
      return runEvent(runId, "message.started", { message_id: event.messageId });
    case "message.delta":
      return runEvent(runId, "message.delta", { message_id: event.messageId, delta: event.text });
    case "message.end":
      return runEvent(runId, "message.completed", { message_id: event.messageId, text: event.text });
    case "reasoning.delta":
      return runEvent(runId, "reasoning.delta", { delta: event.text });
    case "reasoning.end":
      return runEvent(runId, "reasoning.completed", { text: event.text });
    case "notice":
      return runEvent(runId, "run.notice", { message: event.text });
  }
}
