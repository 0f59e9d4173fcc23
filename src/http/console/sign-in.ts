/** The operations that sign browsers in and out. Touches the machine (random numbers). */
import { randomBytes, randomInt } from "node:crypto";
import type { ConsoleSession, ConsoleSessionEntry } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import { sha256 } from "../../base/text.ts";
import { keyStatus } from "../../store/keys/keys.ts";
import type { ConsoleSessionRow } from "../../store/schema/tables.ts";
import { idCursor, listBody } from "../control/page.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { KeyHolder } from "../edge/access.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";
import { requireOwnPage, requirePrivate } from "./headers.ts";
import { countWrongCode, insertCode, takeCode, type ConsoleCodeRow } from "./queries.ts";
import type { OpenedSession, OpensSignIns, SignInKey } from "./sessions.ts";

const LINK_MS = 60_000;
const PHONE_MS = 120_000;
const PHONE_ATTEMPTS = 5;
/** Without letters and digits that look alike. */
const PHONE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ";
const PHONE_CODE = /^[0-9A-Z]{4}-?[0-9A-Z]{4}$/;

/** POST /api/console/codes */
export async function createConsoleCode(
  { body, ctx: { identity } }: HttpRequest<"createConsoleCode", HttpContext>,
  deps: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"createConsoleCode">> {
  await console.signIns();
  if (!identity.authenticated) {
    throw new ServiceError(
      "auth_required",
      "This server requires no API key: open the console without a code.",
    );
  }
  const { kind = "link", key: name = identity.name } = body;
  if (name !== identity.name && !identity.scopes.includes("admin")) {
    const what = `The key ${JSON.stringify(identity.name)} requires the scope "admin" to sign in with another key.`;
    throw new ServiceError("insufficient_scope", what, { param: "key" });
  }
  const key = await findByName(name, deps);
  const code = kind === "link" ? randomBytes(32).toString("base64url") : phoneCode();
  const nowMs = deps.clock.now();
  const expiresAtMs = nowMs + (kind === "link" ? LINK_MS : PHONE_MS);
  const row: ConsoleCodeRow = {
    sha256: sha256(code),
    kind,
    key_name: key.name,
    key_sha256: key.source === "api" ? key.digest : null,
    attempts_left: PHONE_ATTEMPTS,
    expires_at: expiresAtMs,
  };
  await deps.store.write((tx) => insertCode(tx, row, nowMs));
  deps.log.info("a code for the console was created", { kind, key: key.name, by: identity.name });
  return {
    status: 201,
    body: { object: "agent.console_code", kind, code, key: key.name, expires_at: expiresAtMs / 1000 },
  };
}

/** POST /api/console/session */
export async function createConsoleSession(
  { body, raw }: HttpRequest<"createConsoleSession", HttpContext>,
  deps: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"createConsoleSession">> {
  const { sessions, attempts } = await console.signIns();
  requireOwnPage(raw);
  requirePrivate(raw, deps.settings.console);
  const address = addressOf(raw);
  attempts.count(address);
  const key = await keyOf(body, deps);
  const opened = await sessions.open(key, raw, address);
  deps.log.info("a browser signed in", { key: key.name, address, session: opened.row.id });
  return {
    status: 201,
    headers: { "set-cookie": opened.cookie },
    body: { ...toSession(opened.holder, deps), ...toTimes(opened.row), token: opened.token },
  };
}

/** GET /api/console/session */
export async function getConsoleSession(
  { ctx: { identity } }: HttpRequest<"getConsoleSession", HttpContext>,
  deps: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"getConsoleSession">> {
  await console.signIns();
  const id = identity.consoleSession;
  const row = id === undefined ? undefined : await deps.store.find("console_sessions", { id });
  return { status: 200, body: { ...toSession(identity, deps), ...(row ? toTimes(row) : {}) } };
}

/** DELETE /api/console/session */
export async function deleteConsoleSession(
  { ctx: { identity }, raw }: HttpRequest<"deleteConsoleSession", HttpContext>,
  { log }: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"deleteConsoleSession">> {
  const { sessions } = await console.signIns();
  const { consoleSession: id, name } = identity;
  if (id === undefined)
    throw new ServiceError("not_found", "This request belongs to no session of the console.");
  await sessions.end({ keyName: name, id });
  log.info("a browser signed out", { key: name, session: id });
  return {
    status: 200,
    headers: { "set-cookie": sessions.forget(raw) },
    body: { id, object: "agent.console_session", deleted: true },
  };
}

/** GET /api/console/sessions */
export async function listConsoleSessions(
  { query: { limit, after }, ctx: { identity } }: HttpRequest<"listConsoleSessions", HttpContext>,
  _deps: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"listConsoleSessions">> {
  const { sessions } = await console.signIns();
  const before = idCursor(after, "cse_");
  const page = { keyName: identity.name, limit: limit + 1, ...(before === undefined ? {} : { before }) };
  const rows = await sessions.list(page);
  const show = (row: ConsoleSessionRow) => toEntry(row, identity.consoleSession);
  return { status: 200, body: listBody(rows, limit, { positionOf: ({ id }) => id, show }) };
}

/** DELETE /api/console/sessions */
export async function deleteConsoleSessions(
  { query, ctx: { identity } }: HttpRequest<"deleteConsoleSessions", HttpContext>,
  { log }: HttpDeps,
  { console }: OpensSignIns,
): Promise<HttpResponse<"deleteConsoleSessions">> {
  const { sessions } = await console.signIns();
  const { session_id: id, keep_current: keepsCurrent } = query;
  const { name, consoleSession: current } = identity;
  const ended = await sessions.end({
    keyName: name,
    ...(id === undefined ? {} : { id }),
    ...(keepsCurrent && current !== undefined ? { except: current } : {}),
  });
  log.info("browsers were signed out", { key: name, count: ended });
  return { status: 200, body: { object: "agent.console_sessions", ended } };
}

/** Returns the key of a sign-in. ServiceError `invalid_code`, `invalid_api_key`, `invalid_request`. */
async function keyOf(
  { code, key: presented }: { readonly code?: string; readonly key?: string },
  deps: HttpDeps,
): Promise<SignInKey> {
  if (code !== undefined && presented === undefined) return redeem(code, deps);
  if (presented === undefined || code !== undefined)
    throw new ServiceError("invalid_request", "Send either code or key.");
  const holder = await deps.keys.find(presented);
  if (!holder) throw new ServiceError("invalid_api_key", "This API key is not valid.", { param: "key" });
  return keyFrom(holder.name, sha256(presented), deps);
}

async function redeem(given: string, deps: HttpDeps): Promise<SignInKey> {
  const written = given.trim().toUpperCase();
  const isPhone = PHONE_CODE.test(written);
  const code = isPhone ? `${written.slice(0, 4)}-${written.slice(-4)}` : given.trim();
  // The look-up by digest takes no longer for a code that is nearly right.
  const nowMs = deps.clock.now();
  const row = await deps.store.write(async (tx) => {
    const found = await takeCode(tx, sha256(code), nowMs);
    if (!found && isPhone) await countWrongCode(tx);
    return found;
  });
  if (!row) {
    const what = "This code is wrong, was used, or has expired. Run `agentd open` again.";
    throw new ServiceError("invalid_code", what, { param: "code" });
  }
  const digest = row.key_sha256 ?? deps.keys.digestOf?.(row.key_name) ?? "";
  return { name: row.key_name, digest, source: row.key_sha256 === null ? "config" : "api" };
}

/** Finds a key in use by its name. ServiceError `key_not_found`. */
async function findByName(name: string, deps: HttpDeps): Promise<SignInKey> {
  const digest = deps.keys.digestOf?.(name);
  if (digest !== undefined) return { name, digest, source: "config" };
  const row = await (await deps.apiKeys()).named(name);
  if (keyStatus(row, deps.clock.now()) === "active") return { name, digest: row.sha256, source: "api" };
  throw new ServiceError("key_not_found", `The key ${JSON.stringify(name)} has expired.`, { param: "key" });
}

function keyFrom(name: string, digest: string, { keys }: HttpDeps): SignInKey {
  return { name, digest, source: keys.digestOf?.(name) === digest ? "config" : "api" };
}

function phoneCode(): string {
  const letters = Array.from({ length: 8 }, () => PHONE_ALPHABET.charAt(randomInt(PHONE_ALPHABET.length)));
  return `${letters.slice(0, 4).join("")}-${letters.slice(4).join("")}`;
}

/** Returns the address of the peer: that of the proxy behind one, which may not be believed about others. */
function addressOf(request: Request): string {
  return (request as Request & { readonly ip?: string }).ip ?? "";
}

function toSession(holder: KeyHolder, { keys, version, serviceStats }: HttpDeps): ConsoleSession {
  const { name, owner = name, scopes } = holder;
  return {
    object: "agent.console_session",
    id: null,
    token: null,
    key: keys.required ? name : null,
    owner,
    scopes: [...scopes] as ConsoleSession["scopes"],
    auth_required: keys.required,
    version,
    features: { cron: serviceStats.cron !== undefined, webhooks: serviceStats.receiver !== undefined },
    created_at: null,
    expires_at: null,
  };
}

function toTimes({ id, created_at: created, expires_at: expires }: OpenedSession["row"]) {
  return { id, created_at: created / 1000, expires_at: expires / 1000 };
}

function toEntry(row: ConsoleSessionRow, current: string | undefined): ConsoleSessionEntry {
  return {
    object: "agent.console_session",
    id: row.id,
    key: row.key_name,
    address: row.address,
    browser: row.browser,
    is_current: row.id === current,
    created_at: row.created_at / 1000,
    last_used_at: row.last_used_at / 1000,
    expires_at: row.expires_at / 1000,
  };
}
