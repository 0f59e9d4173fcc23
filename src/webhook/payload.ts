/** What the bytes of a body mean. Pure. */

export type ParsedBody = { readonly payload: unknown } | { readonly flaw: PayloadFlaw };

export type PayloadFlaw = "malformed" | "type" | "encoding" | "too_deep";

/** Deeper values are refused: what walks over them later must not run out of stack. */
const MAX_DEPTH = 200;
const MAX_FORM_FIELDS = 10_000;

/**
 * JSON by its type, or text that is JSON; forms become an object of their fields, and the field `payload` of a form that
 * holds JSON stands for all of it. An empty body is an empty object.
 */
export function parsePayload(body: Uint8Array, headers: { get(name: string): string | null }): ParsedBody {
  const encoding = headers.get("content-encoding")?.trim().toLowerCase() ?? "identity";
  if (encoding !== "identity" && encoding !== "") return { flaw: "encoding" };
  const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  const text = decode(body);
  if (text === undefined) return { flaw: "malformed" };
  if (type === "application/x-www-form-urlencoded") return fromForm(text);
  if (!isJsonType(type)) return { flaw: "type" };
  return text.trim() === "" ? { payload: {} } : fromJson(text);
}

function isJsonType(type: string): boolean {
  return type === "" || type === "text/plain" || type === "application/json" || type.endsWith("+json");
}

function decode(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

function fromJson(text: string): ParsedBody {
  if (isTooDeep(text)) return { flaw: "too_deep" };
  try {
    return { payload: JSON.parse(text) as unknown };
  } catch {
    return { flaw: "malformed" };
  }
}

function fromForm(text: string): ParsedBody {
  const fields = [...new URLSearchParams(text)];
  if (fields.length > MAX_FORM_FIELDS) return { flaw: "malformed" };
  const form = Object.fromEntries(fields);
  const { payload } = form;
  if (payload === undefined) return { payload: form };
  const inner = fromJson(payload);
  return "payload" in inner ? inner : { payload: form };
}

/** Counts brackets outside of texts, before anything is built. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isText) {
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) isText = false;
      continue;
    }
    if (code === QUOTE) isText = true;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) return true;
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--;
  }
  return false;
}

const [QUOTE, BACKSLASH, OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [34, 92, 91, 93, 123, 125];
