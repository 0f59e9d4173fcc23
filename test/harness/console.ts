/** A browser that uses the console, as far as its requests show. */
import assert from "node:assert/strict";
import type { ConsoleCode, ConsoleSession } from "../../generated/http/client/types.gen.ts";
import { post } from "./runs.ts";
import type { TestService } from "./service.ts";

export const SESSION = "/api/console/session";
export const SESSIONS = "/api/console/sessions";
export const CODES = "/api/console/codes";

/** What a page sends that this server has given to its browser. */
export interface Browser {
  readonly session: ConsoleSession;
  readonly cookie: string;
  readonly token: string;
  /** Headers of a page's own request. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Headers of a request that a page of this server makes, without a session. */
export function ownPage(service: Pick<TestService, "url">): Readonly<Record<string, string>> {
  return { authorization: "", origin: service.url, "sec-fetch-site": "same-origin" };
}

export function attemptSignIn(
  service: TestService,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return post(service, SESSION, body, { ...ownPage(service), ...headers });
}

export async function signIn(service: TestService, body: object): Promise<Browser> {
  const response = await attemptSignIn(service, body);
  const session = (await response.json()) as ConsoleSession;
  assert.equal(response.status, 201, JSON.stringify(session));
  const [cookie = ""] = (response.headers.get("set-cookie") ?? "").split(";");
  const { token } = session;
  assert.ok(token);
  return { session, cookie, token, headers: { ...ownPage(service), cookie, "x-agentd-console": token } };
}

export async function createCode(
  service: TestService,
  body: object = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<ConsoleCode> {
  const response = await post(service, CODES, body, headers);
  const code = (await response.json()) as ConsoleCode;
  assert.equal(response.status, 201, JSON.stringify(code));
  return code;
}
