/** From a method's name and parameters to its handler: what there is, what it may be given, who may ask. */
import { gatewayRequests, type GatewayMethod } from "../../../generated/gateway/rpc.gen.ts";
import type { RequestMeta } from "../../../generated/gateway/contract.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Log } from "../../base/observe/log.ts";
import { isRecord } from "../../base/json/schema.ts";
import { formatIssue } from "../../base/json/validate.ts";
import type { RpcCall, RpcHandlers } from "./contract.ts";
import type { RpcIdentity } from "./peer.ts";
import type { RpcContext } from "../deps.ts";
import { rpcSchemas } from "./schemas.ts";
import { requireScope } from "./scope.ts";

/** A call whose parameters fit. */
export interface CheckedCall {
  readonly method: GatewayMethod;
  readonly params: Readonly<Record<string, unknown>>;
}

/**
 * Checks a call against the spec. ServiceError `unknown_method`, `insufficient_scope`, or `invalid_request` with
 * `details.issues`. Parameters that nobody declared are left out and logged.
 */
export function checkCall(
  method: string,
  params: unknown,
  from: { readonly identity: RpcIdentity; readonly log: Log; readonly sizeBytes: number },
): CheckedCall {
  if (!isMethod(method)) throw unknownMethod(method);
  const meta = gatewayRequests[method];
  if (meta.scope !== undefined) requireScope(from.identity, meta.scope, method);
  const given = params ?? {};
  if (!isRecord(given)) {
    throw invalidParams([
      { path: "", message: "must be an object: parameters travel by name", keyword: "type" },
    ]);
  }
  const issues = rpcSchemas.check(meta.params, given, from.sizeBytes);
  if (issues) throw invalidParams(issues);
  return { method, params: pick(given, meta, { method, log: from.log }) };
}

/** Runs the handler. Whatever it throws comes out. */
export function runHandler(
  handlers: RpcHandlers<RpcContext>,
  { method, params }: CheckedCall,
  more: Omit<RpcCall<GatewayMethod, RpcContext>, "params">,
): unknown {
  const handler = handlers[method] as (call: object) => unknown;
  return handler({ params, ...more });
}

function isMethod(name: string): name is GatewayMethod {
  return Object.hasOwn(gatewayRequests, name);
}

/** The declared parameters with their defaults. */
function pick(
  given: Readonly<Record<string, unknown>>,
  { names, defaults }: RequestMeta,
  { method, log }: { readonly method: string; readonly log: Log },
): Readonly<Record<string, unknown>> {
  const unknown = Object.keys(given).filter((name) => !names.includes(name));
  if (unknown.length === 0) return { ...defaults, ...given };
  log.debug("parameters that are not known were ignored", { method, names: unknown.slice(0, MAX_NAMED) });
  const known = names.filter((name) => Object.hasOwn(given, name));
  return { ...defaults, ...Object.fromEntries(known.map((name) => [name, given[name]])) };
}

const MAX_NAMED = 16;
const MAX_METHOD = 64;

function invalidParams(issues: readonly { path: string; message: string; keyword: string }[]): ServiceError {
  const [first] = issues;
  const what = first ? formatIssue(first, "params") : "they do not fit";
  const plain = issues.map(({ path, message }) => ({ path, message }));
  return new ServiceError("invalid_params", `invalid params: ${what}.`, { details: { issues: plain } });
}

/** Hosts look for these words to fall back to another method. */
function unknownMethod(method: string): ServiceError {
  const name = method.length > MAX_METHOD ? `${method.slice(0, MAX_METHOD)}...` : method;
  return new ServiceError("unknown_method", `unknown method: ${name}`);
}
