/** Embeds agentd: starts the service of the command line in your own process. */

// Start
export { startFromHome as createService, type StartOptions, type StartedService } from "./app/start.ts";
export type { Service } from "./app/service.ts";

// Extend
export type { Engine, EngineEvent, EngineTurn, TurnEnd, TurnPorts } from "./agent/engine.ts";
export type { ModelRef } from "./agent/model.ts";
export type { Usage } from "./agent/usage/usage.ts";
export {
  createScriptedEngine,
  type Script,
  type ScriptState,
  type ScriptStep,
} from "./agent/engines/scripted.ts";
export { defineTool, ToolError, type Tool, type ToolContext, type ToolIntent } from "./agent/tool/tool.ts";

// Use
export type { Agent, SessionStatus } from "./agent/agent.ts";
export type { Command, Commands, Directive } from "./agent/agent.ts";
export {
  readAttachment,
  type AttachmentOptions,
  type ReadAttachment,
} from "./agent/attachments/attachment.ts";
export type { SessionPage, SessionSummary } from "./agent/session/session.ts";
export type { Message } from "./agent/engine.ts";
export type { Prompt, Submitted } from "./agent/run/run.ts";
export type { JournalEvent } from "./store/journal/journal.ts";

// Errors
export { ServiceError, type ErrorCode } from "./base/errors.ts";
export { createLog, type Log } from "./base/observe.ts";
export { systemClock } from "./base/time.ts";
