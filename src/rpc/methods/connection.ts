/** Methods about the connection. */
import { gatewayEvents, hostRequests } from "../../../generated/gateway/host.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { DEMO_MODEL, isReady, formatModel } from "../../agent/model.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { gatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import { describeServer, isOpenTo, PROTOCOL } from "../connection/ready.ts";
import { hasScope } from "../connection/calls.ts";

type Names =
  | "rpc.discover"
  | "client.capabilities"
  | "gateway.capabilities"
  | "ping"
  | "gateway.ping"
  | "setup.status"
  | "pet.cells";

export const connectionMethods: RpcGroup<Names, RpcContext> = {
  // The documents are large and rarely requested, so they are loaded on demand.
  "rpc.discover": async () => {
    const [gateway, host] = await Promise.all([
      import("../../../generated/specs/gateway.openrpc.json", { with: { type: "json" } }),
      import("../../../generated/specs/host.openrpc.json", { with: { type: "json" } }),
    ]);
    const types = Object.entries(gatewayEvents).map(([type, { payload }]) => [type, payload]);
    return {
      ...gateway.default,
      "x-client-methods": host.default.methods,
      "x-event-types": Object.fromEntries(types) as Record<string, unknown>,
    };
  },

  "client.capabilities": ({ params, ctx: { peer } }) => {
    const { protocol_version: version = PROTOCOL.version, client, events } = params;
    if (version < PROTOCOL.min_version || version > PROTOCOL.version) {
      throw new ServiceError(
        "unsupported_protocol_version",
        `This server does not support version ${version} of the protocol. Use version ${PROTOCOL.version}.`,
        { details: { supported: { min_version: PROTOCOL.min_version, version: PROTOCOL.version } } },
      );
    }
    // Answering a request settles the question, so it takes the same scope as the methods that do.
    const serverRequests = params.server_requests && hasScope(peer.identity, "approvals");
    peer.introduce({
      ...(client?.name === undefined ? {} : { name: client.name.slice(0, MAX_NAME) }),
      ...(client?.version === undefined ? {} : { version: client.version.slice(0, MAX_NAME) }),
      serverRequests,
      optOut: new Set(events?.opt_out),
      deltas: events?.deltas ?? "all",
    });
    return {
      protocol: { version },
      server_requests: serverRequests ? Object.keys(hostRequests) : [],
      declines_not_shown: false,
    };
  },

  "gateway.capabilities": ({ ctx: { deps, peer } }) => {
    const { limits, shellExec } = deps.settings;
    return {
      ...describeServer({ version: deps.version, limits, shellExec: isOpenTo(shellExec, peer) }),
      methods: Object.keys(gatewayRequests),
      events: Object.keys(gatewayEvents),
      requests: Object.keys(hostRequests),
    };
  },

  ping: () => ({ pong: true }),
  "gateway.ping": () => ({ pong: true }),

  "setup.status": ({ ctx: { deps } }) => {
    const { models } = deps.agent.deps;
    const { provider } = models.default;
    const demo = provider === DEMO_MODEL.provider;
    const known = models.list().find(({ name }) => name === provider);
    // Hosts create no session while this is false. The demo model also answers, and a provider without a key needs
    // no setup.
    return {
      provider_configured: known !== undefined && isReady(known),
      model: formatModel(models.default),
      demo,
    };
  },

  "pet.cells": () => ({ enabled: false }),
};

const MAX_NAME = 128;
