/** The gateway's shapes, from the generated contract that the client has too. */
export type {
  GatewayEvent,
  GatewayEvents,
  GatewayEventType,
  GatewayPayload,
} from "../../generated/gateway/host.gen.ts";
export type {
  CommandCatalog,
  Completions,
  LiveSession,
  OpenRequest,
  SessionInfo,
  SlashResult,
  SubagentReport,
  TranscriptMessage,
} from "../../generated/gateway/types/types.gen.ts";
