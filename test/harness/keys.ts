/** API keys that are created while the server runs, for their tests. */
import assert from "node:assert/strict";
import type { ApiKey } from "../../generated/http/client/types.gen.ts";
import { post } from "./runs.ts";
import { KEY, startTestService, type TestService } from "./service.ts";

export const KEYS = "/v1/keys";
export const READER = "reader-key-0123456789";
export const configured = [
  { key: KEY, name: "default", scopes: ["admin"] },
  { key: READER, name: "reader", scopes: ["read"] },
];
export const reader = { authorization: `Bearer ${READER}` };

export const bearer = (key: string | null) => ({ authorization: `Bearer ${key}` });

export async function createKey(
  service: TestService,
  body: object = {},
): Promise<ApiKey & { readonly key: string }> {
  const response = await post(service, KEYS, { name: "phone", scopes: ["read"], ...body });
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as ApiKey & { readonly key: string };
}

/** Another process of the same database. */
export function replicaOf(service: TestService, options: Parameters<typeof startTestService>[0] = {}) {
  return startTestService({ ...options, like: service });
}

/** Stops a replica, and leaves the database to the other one. */
export const stop = (replica: TestService) => replica.service.stop({ graceMs: 0 });

export const status = async (service: TestService, key: string | null, path = "/v1/sessions") =>
  (await service.request(path, { headers: bearer(key) })).status;
