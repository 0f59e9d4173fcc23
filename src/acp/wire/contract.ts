import type {
  AgentNotificationContext,
  AgentNotificationHandlersByMethod,
  AgentRequestContext,
  AgentRequestParamsByMethod,
  AgentRequestResponsesByMethod,
} from "@agentclientprotocol/sdk/unstable";
import type { acpClaims } from "../../../generated/acp/claims.gen.ts";
import type { AcpConnection } from "./connection.ts";

/** The requests of the spec. */
export type AcpMethod = (typeof acpClaims.requests)[number];
export type AcpNotification = (typeof acpClaims.notifications)[number];
export type AcpExtension = (typeof acpClaims.extensions)[number];

export type AcpCall<K extends AcpMethod> = AgentRequestContext<AgentRequestParamsByMethod[K]>;

/** Request handlers by method. What they throw becomes an error of the protocol. */
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

/** A request outside the protocol's schema. `parse` throws RequestError -32602. */
export interface AcpExtensionHandler<Params, Answer> {
  parse(params: unknown): Params;
  handle(call: AgentRequestContext<Params>, connection: AcpConnection): Promise<Answer>;
}

export type { AgentNotificationContext };
