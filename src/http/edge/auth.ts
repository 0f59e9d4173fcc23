import type { LimitedKey } from "../../agent/run/concurrency.ts";
import { ServiceError } from "../../base/errors.ts";
import type { OperationMeta } from "../../../generated/http/contract.gen.ts";

/** A key that was found: whose it is, and what it may do. */
export interface KeyHolder {
  readonly name: string;
  readonly scopes: readonly string[];
}

/** The keys of the configuration. */
export interface KeyRing {
  /** The key that was presented, compared in constant time. */
  find(presented: string): KeyHolder | undefined;
  /** All of them, with their limits. Absent: none is limited. */
  readonly holders?: readonly LimitedKey[];
  /** False: keys are switched off, on a loopback address only. */
  readonly required: boolean;
}

/** Who is asking. Runs and sessions belong to the name of the key that made them. */
export interface Identity extends KeyHolder {
  /** False when the server asks for no key at all. */
  readonly authenticated: boolean;
}

const ANYBODY: Identity = { name: "anonymous", scopes: ["admin"], authenticated: false };

/**
 * Bearer key -> identity with scopes (RFC 6750). ServiceError `missing_api_key` or `invalid_api_key`, and
 * `insufficient_scope` when the key may not do what the operation needs.
 */
export function authorize(keys: KeyRing, operation: OperationMeta, authorization: string | null): Identity {
  if (operation.security.length === 0 || !keys.required) return ANYBODY;
  const identity = identify(keys, authorization);
  const { scope } = operation;
  if (scope !== undefined && !identity.scopes.includes(scope) && !identity.scopes.includes("admin")) {
    throw new ServiceError(
      "insufficient_scope",
      `The key ${JSON.stringify(identity.name)} has no scope ${JSON.stringify(scope)}. Add it in api_server.keys.`,
    );
  }
  return identity;
}

function identify(keys: KeyRing, authorization: string | null): Identity {
  const presented = authorization?.match(/^bearer +(\S+) *$/i)?.[1];
  if (presented === undefined) {
    throw new ServiceError(
      "missing_api_key",
      "No API key. Send `Authorization: Bearer <key>`; `agentd config path` shows where the key is kept.",
    );
  }
  const key = keys.find(presented);
  if (!key) throw new ServiceError("invalid_api_key", "This API key is not valid.");
  return { name: key.name, scopes: key.scopes, authenticated: true };
}

/**
 * Without a key, a web page that points its own name at this address could drive the agent (DNS rebinding), so only
 * known host names are answered then. ServiceError `host_not_allowed`.
 */
export function checkHost(allowed: readonly string[] | undefined, host: string | null): void {
  if (allowed === undefined) return;
  const name = (host ?? "").replace(/:\d+$/, "").toLowerCase();
  if (allowed.includes(name)) return;
  throw new ServiceError(
    "host_not_allowed",
    `The host name ${JSON.stringify(name)} is not allowed here. Add it to api_server.allowed_hosts.`,
  );
}
