/** Servers that answer tests, and fetches of them through the guard. */
import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { BlockedAddressError, guardedFetch, type GuardedFetchOptions } from "../../../src/base/net/fetch.ts";

export interface Cleaner {
  after(clean: () => unknown): void;
}

export async function serve(test: Cleaner, listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

const limits = { timeoutMs: 10_000, maxBytes: 1_000_000, allowedPrivateHosts: [] };
export const get = (url: string, options: Partial<GuardedFetchOptions> = {}) =>
  guardedFetch(url, { ...limits, ...options });
export const text = (body: Uint8Array) => new TextDecoder().decode(body);
export const to =
  (...addresses: string[]) =>
  async () =>
    addresses;

/** What the guard says to a URL; a lookup that must not happen fails the test. */
export async function refusal(
  url: string,
  options: Partial<GuardedFetchOptions> = {},
): Promise<BlockedAddressError> {
  const lookup = async (name: string) => assert.fail(`${name} was looked up`);
  const error = await get(url, { lookup, ...options }).then(
    () => assert.fail(`${url} was fetched`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof BlockedAddressError, `${url}: ${String(error)}`);
  return error;
}
