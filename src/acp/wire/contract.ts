import type {
  AgentNotificationContext,
  AgentNotificationHandlersByMethod,
  AgentRequestContext,
  AgentRequestParamsByMethod,
  AgentRequestResponsesByMethod,
} from "@agentclientprotocol/sdk/unstable";
import type { acpClaims } from "../../../generated/acp/claims.gen.ts";
import type { AcpConnection } from "./connection.ts";

/** Requests that the spec claims. */
export type AcpMethod = (typeof acpClaims.requests)[number];
export type AcpNotification = (typeof acpClaims.notifications)[number];
export type AcpExtension = (typeof acpClaims.extensions)[number];

export type AcpCall<K extends AcpMethod> = AgentRequestContext<AgentRequestParamsByMethod[K]>;

/** Some of the handlers, those of one matter. What they throw becomes the protocol's error. */
export type AcpGroup<K extends AcpMethod> = {
  readonly [M in K]: (
    call: AcpCall<M>,
    connection: AcpConnection,
  ) => Promise<AgentRequestResponsesByMethod[M]>;
};

type AcpNotified<K extends AcpNotification> = Parameters<AgentNotificationHandlersByMethod[K]>[0];

export type AcpNotificationGroup<K extends AcpNotification> = {
  readonly [M in K]: (call: AcpNotified<M>, connection: AcpConnection) => Promise<void>;
};

/** A request that the protocol's schema does not know: `parse` throws RequestError -32602. */
export interface AcpExtensionHandler<Params, Answer> {
  parse(params: unknown): Params;
  handle(call: AgentRequestContext<Params>, connection: AcpConnection): Promise<Answer>;
}

export type { AgentNotificationContext };
