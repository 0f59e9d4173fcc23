/** What the bytes of a body mean. Pure. */
import { isExactNumber, parseExactJson } from "../../base/json/exact-json.ts";

/** `text` is the body as it was sent; absent where it is no UTF-8, or nobody looked. */
export type ParsedBody =
  | { readonly payload: unknown; readonly text: string }
  | { readonly problem: PayloadProblem; readonly text?: string };

export type PayloadProblem = "malformed" | "type" | "encoding" | "too_deep" | "too_many_fields";

/** Deeper values are refused: what walks over them later must not run out of stack. */
const MAX_DEPTH = 200;
const MAX_FORM_FIELDS = 10_000;

/**
 * JSON by its type, or text that is JSON; forms become an object of their fields, and the field `payload` of a form that
 * holds JSON stands for all of it. An empty body is an empty object.
 */
export function parsePayload(body: Uint8Array, headers: { get(name: string): string | null }): ParsedBody {
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  if (encoding !== "" && encoding !== "identity") return { problem: "encoding" };
  const text = decode(body);
  if (text === undefined) return { problem: "malformed" };
  const type = (headers.get("content-type") ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (type === "application/x-www-form-urlencoded") return fromForm(text);
  if (!isJsonType(type)) return { problem: "type", text };
  return text.trim() === "" ? { payload: {}, text } : fromJson(text);
}

function isJsonType(type: string): boolean {
  return type === "" || type === "text/plain" || type === "application/json" || type.endsWith("+json");
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

function decode(body: Uint8Array): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
}

/** As a body of JSON is taken. */
export function fromJson(text: string): ParsedBody {
  try {
    const payload = parseExactJson(text);
    return isTooDeep(payload) ? { problem: "too_deep", text } : { payload, text };
  } catch {
    return { problem: "malformed", text };
  }
}

function fromForm(text: string): ParsedBody {
  if (hasTooManyFields(text)) return { problem: "too_many_fields", text };
  const form = Object.fromEntries(new URLSearchParams(text));
  const inner = form["payload"] === undefined ? undefined : fromJson(form["payload"]);
  return { payload: inner && "payload" in inner ? inner.payload : form, text };
}

/** Counted before anything is built: a megabyte has half a million. */
function hasTooManyFields(form: string): boolean {
  let fields = 1;
  for (let at = form.indexOf("&"); at !== -1; at = form.indexOf("&", at + 1)) {
    if (++fields > MAX_FORM_FIELDS) return true;
  }
  return false;
}

/** The parser takes any depth, and looking at what it made costs a fifth of looking at the text. */
function isTooDeep(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return !isExactNumber(value);
  const inner: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const each of inner) if (isTooDeep(each, levels - 1)) return true;
  return false;
}
