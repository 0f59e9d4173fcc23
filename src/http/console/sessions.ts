/** Browsers that are signed in: they open what their key opens, as long as it is the same key. Touches the machine. */
import { randomBytes } from "node:crypto";
import { LruMap } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import type { KeyValidity } from "../../base/net/request.ts";
import { createId, firstCharacters, isSameSecret, sha256 } from "../../base/text.ts";
import type { Clock } from "../../base/time.ts";
import type { ConsoleSessionRow } from "../../store/schema/tables.ts";
import type { Store } from "../../store/store.ts";
import type { KeyHolder, KeyRing } from "../edge/access.ts";
import {
  COOKIE_PREFIX,
  cookieHeader,
  cookieOf,
  isSecure,
  requireOwnPage,
  requirePrivate,
  TOKEN_HEADER,
  type BrowserRequest,
} from "./headers.ts";
import { deleteSessions, insertSession, listSessions, sessionsById } from "./queries.ts";

export interface ConsoleSessionsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly keys: KeyRing;
  readonly allowPlainHttp: boolean;
}

/** A key that signs a browser in. */
export interface SignInKey {
  readonly name: string;
  /** SHA-256 of its value, in hex. */
  readonly digest: string;
  readonly source: "config" | "api";
}

/** A session with its two halves, which are not stored. */
export interface OpenedSession {
  readonly row: ConsoleSessionRow;
  readonly holder: KeyHolder;
  readonly token: string;
  /** The header that sets the cookie. */
  readonly cookie: string;
}

/** What signs browsers in. */
export interface SignIns {
  readonly sessions: ConsoleSessions;
  readonly attempts: SignInAttempts;
}

/** What the handlers of the sign-in share. */
export interface OpensSignIns {
  readonly console: {
    /** ServiceError `not_found` while the console is off. */
    signIns(): Promise<SignIns>;
  };
}

const LIFE_MS = 30 * 86_400_000;
const IDLE_MS = 12 * 3_600_000;
/** How long a session is used without a look at the database: another process may have ended it. */
const CACHE_MS = 2_000;
/** How often the sessions of open streams and sockets are checked. */
const CHECK_MS = 2_000;
/** How exact the time of the last use is. */
const USED_MS = 60_000;
const MAX_CACHED = 1_024;
const MAX_BROWSER = 256;
/** 32 bytes as base64url. */
const HALF = /^[\w-]{43}$/;

/** Something open that ends with its session. */
interface Use {
  readonly id: string;
  readonly end: () => void;
}

export class ConsoleSessions {
  readonly #deps: ConsoleSessionsDeps;
  #cache = new LruMap<string, { readonly row: ConsoleSessionRow; readonly readAtMs: number }>(MAX_CACHED);
  readonly #uses = new Set<Use>();
  #cancelCheck: (() => void) | undefined;

  constructor(deps: ConsoleSessionsDeps) {
    this.#deps = deps;
  }

  /** Opens a session for the key. ServiceError `sign_in_required` when it has just been removed. */
  async open(key: SignInKey, request: BrowserRequest, address: string): Promise<OpenedSession> {
    const { store, clock } = this.#deps;
    const [cookie, token] = [randomHalf(), randomHalf()];
    const nowMs = clock.now();
    const row: ConsoleSessionRow = {
      id: createId("cse", nowMs),
      cookie_sha256: sha256(cookie),
      token_sha256: sha256(token),
      key_name: key.name,
      key_check: key.source === "api" ? key.digest : sha256(`${cookie}:${key.digest}`),
      key_source: key.source,
      address,
      browser: firstCharacters(request.headers.get("user-agent") ?? "", MAX_BROWSER),
      created_at: nowMs,
      last_used_at: nowMs,
      expires_at: nowMs + LIFE_MS,
    };
    const holder = await this.#holderOf(row, cookie);
    if (!holder) throw ended();
    await store.write((tx) => insertSession(tx, row, { nowMs, idleMs: IDLE_MS }));
    const isTls = isSecure(request);
    const header = cookieHeader(this.#cookieName(isTls), cookie, { maxAgeSeconds: LIFE_MS / 1000, isTls });
    return { row, holder, token, cookie: header };
  }

  /** Returns whether the cookie of a request belongs to a session. Enough for a page, which has no data in it. */
  async isSignedIn(request: BrowserRequest): Promise<boolean> {
    return (await this.#find(request)) !== undefined;
  }

  /**
   * Returns who makes a request with both halves of a session. ServiceError `sign_in_required`; `origin_not_allowed` for a
   * page of another origin; `plain_http_not_allowed`.
   */
  async identify(request: BrowserRequest): Promise<KeyHolder> {
    requireOwnPage(request);
    requirePrivate(request, this.#deps);
    const found = await this.#find(request);
    const token = request.headers.get(TOKEN_HEADER) ?? "";
    if (!found || !HALF.test(token) || !isSame(sha256(token), found.row.token_sha256)) throw ended();
    this.#touch(found.row);
    return found.holder;
  }

  /** Returns the sessions of a key, newest first. */
  list(page: Parameters<typeof listSessions>[1]): Promise<readonly ConsoleSessionRow[]> {
    return listSessions(this.#deps.store, page, { nowMs: this.#deps.clock.now(), idleMs: IDLE_MS });
  }

  /** Ends sessions of a key, with their streams and sockets. Returns how many. */
  async end(which: Parameters<typeof deleteSessions>[1]): Promise<number> {
    const ids = await this.#deps.store.write((tx) => deleteSessions(tx, which));
    this.#cache = new LruMap(MAX_CACHED);
    for (const use of this.#uses) if (ids.includes(use.id)) this.#end(use);
    return ids.length;
  }

  /** Returns the header that deletes the cookie. */
  forget(request: BrowserRequest): string {
    const isTls = isSecure(request);
    return cookieHeader(this.#cookieName(isTls), "", { maxAgeSeconds: 0, isTls });
  }

  /** Two servers on one host keep their sessions apart: browsers send cookies to every port. */
  #cookieName(isTls: boolean): string {
    return `${isTls ? "__Host-" : ""}${COOKIE_PREFIX}${sha256(this.#deps.store.epoch).slice(0, 8)}`;
  }

  async #find(
    request: BrowserRequest,
  ): Promise<{ readonly row: ConsoleSessionRow; readonly holder: KeyHolder } | undefined> {
    const cookie = cookieOf(request.headers, this.#cookieName(isSecure(request)));
    if (cookie === undefined || !HALF.test(cookie)) return undefined;
    const row = await this.#read(sha256(cookie));
    if (!row || isOver(row, this.#deps.clock.now())) return undefined;
    const holder = await this.#holderOf(row, cookie);
    if (!holder) return undefined;
    return { row, holder: { ...holder, consoleSession: row.id, validity: this.#validityOf(row, holder) } };
  }

  async #read(digest: string): Promise<ConsoleSessionRow | undefined> {
    const { store, clock } = this.#deps;
    const cached = this.#cache.get(digest);
    if (cached && clock.now() - cached.readAtMs < CACHE_MS) return cached.row;
    const cache = this.#cache;
    const row = await store.find("console_sessions", { cookie_sha256: digest });
    // What was read before a session ended is not kept.
    if (row && cache === this.#cache) cache.set(digest, { row, readAtMs: clock.now() });
    return row;
  }

  /** Returns the holder of the session's key; undefined when that key has been removed or has another value. */
  async #holderOf(row: ConsoleSessionRow, cookie: string): Promise<KeyHolder | undefined> {
    const { keys } = this.#deps;
    if (row.key_source === "api") return keys.findDigest?.(row.key_check);
    const digest = keys.digestOf?.(row.key_name);
    if (digest === undefined || !isSame(sha256(`${cookie}:${digest}`), row.key_check)) return undefined;
    return keys.holders?.find(({ name }) => name === row.key_name);
  }

  #validityOf({ id }: ConsoleSessionRow, { validity }: KeyHolder): KeyValidity {
    return {
      onEnd: (end) => {
        const use = { id, end };
        this.#uses.add(use);
        this.#checkLater();
        const forgetKey = validity?.onEnd(end);
        return () => {
          forgetKey?.();
          this.#uses.delete(use);
          if (this.#uses.size > 0) return;
          this.#cancelCheck?.();
          this.#cancelCheck = undefined;
        };
      },
    };
  }

  /** Saves the time of use, in the background. A failure does not refuse the request. */
  #touch({ id, last_used_at: last, cookie_sha256: digest }: ConsoleSessionRow): void {
    const { clock, store } = this.#deps;
    const nowMs = clock.now();
    if (nowMs - last < USED_MS) return;
    const used = { last_used_at: nowMs };
    const cached = this.#cache.get(digest);
    if (cached) this.#cache.set(digest, { ...cached, row: { ...cached.row, ...used } });
    store.write((tx) => tx.update("console_sessions", { id }, used), { durable: false }).catch(() => {});
  }

  #checkLater(): void {
    this.#cancelCheck ??= this.#deps.clock.after(CHECK_MS, () => {
      this.#cancelCheck = undefined;
      void this.#check();
    });
  }

  /** Ends what belongs to sessions that another process has ended, or that are over. */
  async #check(): Promise<void> {
    try {
      const ids = [...new Set([...this.#uses].map(({ id }) => id))];
      const rows = await sessionsById(this.#deps.store, ids);
      const nowMs = this.#deps.clock.now();
      const live = new Set(rows.filter((row) => !isOver(row, nowMs)).map(({ id }) => id));
      for (const use of this.#uses) if (ids.includes(use.id) && !live.has(use.id)) this.#end(use);
    } catch {
      // The database is away. The next check decides.
    }
    if (this.#uses.size > 0) this.#checkLater();
  }

  #end(use: Use): void {
    this.#uses.delete(use);
    use.end();
  }
}

function isOver({ expires_at: expires, last_used_at: used }: ConsoleSessionRow, nowMs: number): boolean {
  return expires <= nowMs || used <= nowMs - IDLE_MS;
}

function randomHalf(): string {
  return randomBytes(32).toString("base64url");
}

function isSame(a: string, b: string): boolean {
  return isSameSecret(Buffer.from(a), Buffer.from(b));
}

function ended(): ServiceError {
  const what = "You are not signed in, or your session has ended. Open /login, or run `agentd open`.";
  return new ServiceError("sign_in_required", what);
}

// Attempts

const MAX_ATTEMPTS = 10;
const ATTEMPTS_MS = 60_000;
const MAX_ADDRESSES = 4_096;

/** Counts attempts to sign in, by address, in this process. */
export class SignInAttempts {
  readonly #clock: Clock;
  readonly #windows = new LruMap<string, { readonly untilMs: number; count: number }>(MAX_ADDRESSES);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts an attempt. ServiceError `rate_limit_exceeded` beyond ten a minute. */
  count(address: string): void {
    const nowMs = this.#clock.now();
    const open = this.#windows.get(address);
    const window = open && open.untilMs > nowMs ? open : { untilMs: nowMs + ATTEMPTS_MS, count: 0 };
    this.#windows.set(address, window);
    if (++window.count <= MAX_ATTEMPTS) return;
    const retryAfterSeconds = Math.ceil((window.untilMs - nowMs) / 1000);
    const what = `At most ${MAX_ATTEMPTS} sign-ins a minute are allowed from an address. Try again in ${retryAfterSeconds} seconds.`;
    throw new ServiceError("rate_limit_exceeded", what, { retryAfterSeconds });
  }
}
