/** Verifies who sent a request, by its signature. Pure but for the machine's crypto. */
import { hmacSha256, isSameSecret } from "../../base/digest.ts";
import { WEBHOOK_SOURCES } from "./event.ts";

/** The body as sent, and the headers. */
export interface SignedRequest {
  /** Names in any case; values are Latin-1, as HTTP carries them. */
  readonly headers: { get(name: string): string | null };
  readonly body: Uint8Array;
}

export interface SignatureRules {
  /** All valid secrets: two while a secret is being rotated. */
  readonly secrets: readonly string[];
  /** How far the sender's clock may differ from ours, both ways. */
  readonly toleranceSeconds: number;
  /** Whether `Authorization: Bearer` with the secret is accepted. */
  readonly takesBearer: boolean;
  readonly nowMs: number;
}

export type SignatureResult =
  /** `nonce` identifies the signature of a scheme that signs the time: the same nonce again is a replay. */
  | { readonly status: "valid"; readonly scheme: string; readonly nonce?: string }
  | { readonly status: "invalid"; readonly scheme: string | undefined; readonly reason: Problem };

export type Problem = "missing" | "mismatch" | "stale" | "malformed";

type Outcome = Problem | { readonly nonce?: string };

interface Scheme {
  readonly name: string;
  /** The scheme decides when one of these headers is present: a weaker scheme beside it does not count. */
  readonly commit: readonly string[];
  verify(request: SignedRequest, rules: SignatureRules): Outcome;
}

const HEX_MAC = /^[0-9a-f]{64}$/;
const UNIX_SECONDS = /^\d{1,12}$/;
/** Signatures that are checked of one header. */
const MAX_SIGNATURES = 16;

/** In order of precedence: the first scheme whose header is present decides. */
const SCHEMES: readonly Scheme[] = [
  timedList("svix", "svix", ["svix-id", "svix-timestamp", "svix-signature"]),
  // Services that sign in other ways send its other headers too.
  timedList("standard", "webhook", ["webhook-signature"]),
  bodyMac("linear", "linear-signature", ""),
  bodyMac("hub", "x-hub-signature-256", "sha256="),
  ...WEBHOOK_SOURCES.flatMap(({ tokenHeader }) => (tokenHeader === undefined ? [] : [token(tokenHeader)])),
  {
    name: "v2",
    commit: ["x-webhook-signature-v2"],
    verify({ headers, body }, rules) {
      const timestamp = headers.get("x-webhook-timestamp") ?? "";
      const given = headers.get("x-webhook-signature-v2") ?? "";
      if (!UNIX_SECONDS.test(timestamp) || !HEX_MAC.test(given)) return "malformed";
      const isMatch = matches(rules.secrets, fromHex(given), (key) => hmacSha256(key, `${timestamp}.`, body));
      if (!isMatch) return "mismatch";
      return isFresh(timestamp, rules) ? { nonce: `v2:${timestamp}:${given}` } : "stale";
    },
  },
  bodyMac("v1", "x-webhook-signature", ""),
];

/**
 * Verifies the strongest signature that a request carries; weaker ones beside it do not count. It tries all secrets in
 * constant time. A malformed signature is refused like a wrong one.
 */
export function verifySignature(request: SignedRequest, rules: SignatureRules): SignatureResult {
  const scheme = SCHEMES.find(({ commit }) => commit.some((name) => request.headers.get(name) !== null));
  const chosen =
    scheme ?? (rules.takesBearer && request.headers.get("authorization") !== null ? bearer : undefined);
  if (!chosen) return { status: "invalid", scheme: undefined, reason: "missing" };
  const outcome = chosen.verify(request, rules);
  return typeof outcome === "string"
    ? { status: "invalid", scheme: chosen.name, reason: outcome }
    : { status: "valid", scheme: chosen.name, ...outcome };
}

const bearer: Scheme = {
  name: "bearer",
  commit: ["authorization"],
  verify({ headers }, { secrets }) {
    const [, given] = /^Bearer +(\S.*)$/i.exec(headers.get("authorization") ?? "") ?? [];
    return given === undefined ? "malformed" : checkToken(secrets, given);
  },
};

function token(header: string): Scheme {
  return {
    name: header,
    commit: [header],
    verify: ({ headers }, { secrets }) => checkToken(secrets, headers.get(header) ?? ""),
  };
}

function bodyMac(name: string, header: string, prefix: string): Scheme {
  return {
    name,
    commit: [header],
    verify({ headers, body }, { secrets }) {
      const value = headers.get(header) ?? "";
      const given = value.startsWith(prefix) ? value.slice(prefix.length) : "";
      if (!HEX_MAC.test(given)) return "malformed";
      return matches(secrets, fromHex(given), (key) => hmacSha256(key, body)) ? {} : "mismatch";
    },
  };
}

/** Standard Webhooks 1.0 and Svix: a list of signatures over id, time and body. */
function timedList(name: string, prefix: string, commit: readonly string[]): Scheme {
  return {
    name,
    commit,
    verify({ headers, body }, rules) {
      const id = headers.get(`${prefix}-id`) ?? "";
      const timestamp = headers.get(`${prefix}-timestamp`) ?? "";
      if (id === "" || !UNIX_SECONDS.test(timestamp)) return "malformed";
      const list = (headers.get(`${prefix}-signature`) ?? "").split(" ", MAX_SIGNATURES);
      const given = list.flatMap((each) => (each.startsWith("v1,") ? (fromBase64(each.slice(3)) ?? []) : []));
      // The sender signed the bytes of the header.
      const head = latin1(`${id}.${timestamp}.`);
      const macs = rules.secrets.flatMap(standardKeys).map((key) => hmacSha256(key, head, body));
      let isMatch = false;
      for (const mac of macs) for (const each of given) isMatch = isSameSecret(mac, each) || isMatch;
      if (!isMatch) return "mismatch";
      return isFresh(timestamp, rules) ? { nonce: `${name}:${timestamp}:${id}` } : "stale";
    },
  };
}

function isFresh(timestamp: string, { nowMs, toleranceSeconds }: SignatureRules): boolean {
  // Senders count in whole seconds: a difference of exactly the tolerance passes.
  return Math.abs(Math.floor(nowMs / 1000) - Number(timestamp)) <= toleranceSeconds;
}

/** Tries every secret, so that the time does not reveal which one matches. */
function matches(
  secrets: readonly string[],
  given: Uint8Array,
  macOf: (secret: string) => Uint8Array,
): boolean {
  let isMatch = false;
  for (const secret of secrets) isMatch = isSameSecret(macOf(secret), given) || isMatch;
  return isMatch;
}

function checkToken(secrets: readonly string[], given: string): Outcome {
  return matches(secrets, latin1(given), (secret) => new TextEncoder().encode(secret)) ? {} : "mismatch";
}

/**
 * Returns the keys that a secret may stand for: the base64 after `whsec_`, or the text itself. Some services show the
 * base64 without its prefix and sign with the decoded bytes, so text that may be base64 counts as both.
 */
function standardKeys(secret: string): readonly Uint8Array[] {
  const isEncoded = secret.startsWith(KEY_PREFIX);
  const key = fromBase64(isEncoded ? secret.slice(KEY_PREFIX.length) : secret);
  if (isEncoded) return key && key.length > 0 ? [key] : [];
  return [new TextEncoder().encode(secret), ...(key && secret.length % 4 === 0 ? [key] : [])];
}

const KEY_PREFIX = "whsec_";

function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

function fromHex(hex: string): Uint8Array {
  return Uint8Array.from({ length: hex.length / 2 }, (_, at) =>
    Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16),
  );
}

/** `atob` alone would ignore spaces. */
function fromBase64(text: string): Uint8Array | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
