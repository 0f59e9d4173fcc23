/** Verifies who sent a request, by its signature, and signs test requests. Pure but for the machine's crypto. */
import { hmacSha256, isSameSecret } from "../../base/text.ts";
import { WEBHOOK_SOURCES } from "./event.ts";
import { hmac } from "../../base/text.ts";
import { sha256 } from "../../base/text.ts";
import { SENDERS, type SignatureScheme } from "./schemes.ts";

/** The body as sent, and the headers. */
export interface SignedRequest {
  /** Names in any case; values are Latin-1, as HTTP carries them. */
  readonly headers: Pick<Headers, "get" | "keys">;
  readonly body: Uint8Array;
  /** The secret in the path of the URL. */
  readonly pathSecret?: string | undefined;
}

export interface SignatureRules {
  /** All valid secrets: two while a secret is being rotated. */
  readonly secrets: readonly string[];
  /** How far the sender's clock may differ from ours, both ways. */
  readonly toleranceSeconds: number;
  /** How a request may prove itself with the secret instead of a signature. */
  readonly auth: "signature" | "bearer" | "basic" | "path";
  /** The only scheme that is accepted. Undefined: those that their headers identify. */
  readonly scheme?: SignatureScheme | undefined;
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
/** Seconds, or milliseconds. */
const UNIX_TIME = /^\d{1,13}$/;
/** Any larger time is in milliseconds: as seconds it would be the year 5138. */
const MAX_SECONDS = 99_999_999_999;
const MAX_HEADER_CHARACTERS = 4_096;
/** Most signatures that are checked per header. */
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
  // Bitbucket and Jira. A sender of its SHA-1 form sends X-Hub-Signature-256 too, which precedes.
  bodyMac("hub", "x-hub-signature", "sha256="),
];

/**
 * Verifies the secret in the path; else the scheme of the route; else the strongest signature that the request carries,
 * where weaker ones beside it do not count. It tries all secrets in constant time. A malformed signature is refused like a
 * wrong one.
 */
export function verifySignature(request: SignedRequest, rules: SignatureRules): SignatureResult {
  const scheme = schemeFor(request, rules);
  if (!scheme) return { status: "invalid", scheme: undefined, reason: "missing" };
  const outcome = scheme.verify(request, rules);
  return typeof outcome === "string"
    ? { status: "invalid", scheme: scheme.name, reason: outcome }
    : { status: "valid", scheme: scheme.name, ...outcome };
}

function schemeFor({ headers, pathSecret }: SignedRequest, rules: SignatureRules): Scheme | undefined {
  if (pathSecret !== undefined) return rules.auth === "path" ? inPath : undefined;
  if (rules.scheme) return configured(rules.scheme);
  const found = SCHEMES.find(({ commit }) => commit.some((name) => headers.get(name) !== null));
  const authorization = AUTHORIZATIONS[rules.auth];
  return found ?? (headers.get("authorization") === null ? undefined : authorization);
}

/** Returns why a request was refused, for the log: which signature was present but not accepted. */
export function describeRefusal(
  { scheme, reason }: Extract<SignatureResult, { readonly status: "invalid" }>,
  { headers }: SignedRequest,
): string {
  if (scheme !== undefined && reason !== "missing") return `${scheme}: ${reason}`;
  const what = scheme === undefined ? "no known signature" : `${scheme}: the signature is missing`;
  const [name] = [...headers.keys()].filter((each) => LIKE_SIGNATURE.test(each));
  if (name === undefined) return what;
  const preset = [...SENDERS.values()].find(({ header }) => header === name);
  const hint = preset && preset.name !== scheme ? `; set scheme: ${preset.name} on the route` : "";
  return `${what}; ${name.slice(0, MAX_NAME_CHARACTERS)} is present, but the route does not accept it${hint}`;
}

/** Returns the same in sentences for the owner of the route: what is wrong, and what to do about it. */
export function explainRefusal(
  refused: Extract<SignatureResult, { readonly status: "invalid" }>,
  request: SignedRequest,
  { toleranceSeconds }: Pick<SignatureRules, "toleranceSeconds">,
): string {
  const { scheme = "", reason } = refused;
  if (reason === "mismatch" && SECRETS.test(scheme))
    return `The secret in the request (${scheme}) is not the secret of the route. Set the same secret on both sides.`;
  switch (reason) {
    case "mismatch":
      return `The signature (${scheme}) does not match. The secrets of the sender and of the route differ, or the body was changed on its way. Set the same secret on both sides.`;
    case "stale":
      return `The signature (${scheme}) was made more than ${toleranceSeconds} s ago, or in the future. Compare the clocks of the sender and of this machine.`;
    case "malformed":
      return `The signature (${scheme}) is not written as its scheme requires. Check how the sender signs.`;
    case "missing":
      return `The request has no signature that the route accepts (${describeRefusal(refused, request)}). Set the secret of the route at the sender.`;
  }
}

/** Schemes that send the secret itself. */
const SECRETS = /^(path|bearer|basic)$|token/;
const LIKE_SIGNATURE = /signature|hmac|-sign$|secret-token/;
const MAX_NAME_CHARACTERS = 64;

/** A scheme of {@link SENDERS} or of the configuration. */
function configured(scheme: SignatureScheme): Scheme {
  return {
    name: scheme.name,
    commit: [scheme.header],
    verify({ headers, body }, rules) {
      const value = headers.get(scheme.header);
      if (value === null) return "missing";
      if (value.length > MAX_HEADER_CHARACTERS) return "malformed";
      if (scheme.kind === "token") return checkToken(rules.secrets, value);
      const parts = value.split(",").map((part) => part.trim());
      const timestamp = timestampOf(scheme, headers, parts);
      const given = signaturesIn(scheme, parts);
      if (given.length === 0 || (timestamp !== undefined && !UNIX_TIME.test(timestamp))) return "malformed";
      const signed = signedBy(scheme, timestamp ?? "", body);
      let matching: string | undefined;
      for (const secret of rules.secrets) {
        const mac = hmac(scheme.algorithm, secret, ...signed);
        for (const each of given) if (isSameSecret(mac, each)) matching = mac.toString("hex");
      }
      if (matching === undefined) return "mismatch";
      if (timestamp === undefined) return {};
      // Not the header as sent: another value in it would make a replay look new.
      return isFresh(timestamp, rules) ? { nonce: `${scheme.name}:${timestamp}:${matching}` } : "stale";
    },
  };
}

/** Undefined: the scheme does not sign the time. Empty: the time is missing. */
function timestampOf(
  { timestampHeader, timestampPrefix }: SignatureScheme,
  headers: SignedRequest["headers"],
  parts: readonly string[],
): string | undefined {
  if (timestampHeader !== undefined) return headers.get(timestampHeader) ?? "";
  if (timestampPrefix === undefined) return undefined;
  return parts.find((part) => part.startsWith(timestampPrefix))?.slice(timestampPrefix.length) ?? "";
}

const MAC_BYTES = { sha1: 20, sha256: 32, sha512: 64 } as const;

function signaturesIn(
  { prefix, encoding, algorithm }: SignatureScheme,
  parts: readonly string[],
): readonly Uint8Array[] {
  return parts
    .filter((part) => part.startsWith(prefix))
    .slice(0, MAX_SIGNATURES)
    .flatMap((part) => {
      const text = part.slice(prefix.length);
      const bytes = encoding === "base64" ? fromBase64(text) : HEX.test(text) ? fromHex(text) : undefined;
      return bytes?.length === MAC_BYTES[algorithm] ? [bytes] : [];
    });
}

const HEX = /^(?:[0-9a-f]{2})+$/;

/** Returns the signed text, the body as it came. */
function signedBy(
  scheme: SignatureScheme,
  timestamp: string,
  body: Uint8Array,
): readonly (string | Uint8Array)[] {
  if (scheme.kind === "form") return [urlWithForm(scheme.url ?? "", body)];
  const [before = "", after = ""] = scheme.signed
    .replaceAll("{timestamp}", timestamp)
    .replaceAll("{url}", () => scheme.url ?? "")
    .split("{body}");
  return [before, body, after];
}

/** Twilio: the sorted fields of a form follow the URL without separators. Of other bodies the URL has the digest. */
function urlWithForm(url: string, body: Uint8Array): string {
  const text = new TextDecoder().decode(body);
  if (/^\s*[{[]/.test(text)) return `${url}${url.includes("?") ? "&" : "?"}bodySHA256=${sha256(text)}`;
  const fields = [...new URLSearchParams(text)].toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return url + fields.map(([name, value]) => name + value).join("");
}

/**
 * Returns the headers that sign a body as the sender of the route would: by its scheme, else like GitHub. A route without a
 * signature check gets none.
 */
export function signHeaders(
  {
    secrets,
    scheme,
  }: { readonly secrets: readonly string[] | "none"; readonly scheme: SignatureScheme | undefined },
  body: Uint8Array,
  nowMs: number,
): Readonly<Record<string, string>> {
  if (secrets === "none") return {};
  const [secret = ""] = secrets;
  if (!scheme) return { "x-hub-signature-256": `sha256=${hmacSha256(secret, body).toString("hex")}` };
  if (scheme.kind === "token")
    return { [scheme.header]: String.fromCharCode(...new TextEncoder().encode(secret)) };
  const { header, prefix, timestampHeader, timestampPrefix } = scheme;
  const timestamp = String(Math.floor(nowMs / 1000));
  const mac = hmac(scheme.algorithm, secret, ...signedBy(scheme, timestamp, body)).toString(scheme.encoding);
  const time = timestampPrefix === undefined ? "" : `${timestampPrefix}${timestamp},`;
  return {
    [header]: `${time}${prefix}${mac}`,
    ...(timestampHeader === undefined ? {} : { [timestampHeader]: timestamp }),
  };
}

const inPath: Scheme = {
  name: "path",
  commit: [],
  verify: ({ pathSecret = "" }, { secrets }) => {
    const given = new TextEncoder().encode(pathSecret);
    return matches(secrets, given, (secret) => new TextEncoder().encode(secret)) ? {} : "mismatch";
  },
};

const bearer: Scheme = {
  name: "bearer",
  commit: ["authorization"],
  verify({ headers }, { secrets }) {
    const [, given] = /^Bearer +(\S.*)$/i.exec(headers.get("authorization") ?? "") ?? [];
    return given === undefined ? "malformed" : checkToken(secrets, given);
  },
};

/** RFC 7617. The secret is the password; any user name passes. */
const basic: Scheme = {
  name: "basic",
  commit: ["authorization"],
  verify({ headers }, { secrets }) {
    const [, encoded = ""] = /^Basic +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
    const given = encoded.length > MAX_HEADER_CHARACTERS ? undefined : fromBase64(encoded);
    const colon = given?.indexOf(COLON) ?? -1;
    if (!given || colon === -1) return "malformed";
    const password = given.subarray(colon + 1);
    return matches(secrets, password, (secret) => new TextEncoder().encode(secret)) ? {} : "mismatch";
  },
};

const COLON = 0x3a;
const AUTHORIZATIONS: Readonly<Record<SignatureRules["auth"], Scheme | undefined>> = {
  signature: undefined,
  path: undefined,
  bearer,
  basic,
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
  const seconds = Number(timestamp) > MAX_SECONDS ? Math.floor(Number(timestamp) / 1000) : Number(timestamp);
  return Math.abs(Math.floor(nowMs / 1000) - seconds) <= toleranceSeconds;
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
