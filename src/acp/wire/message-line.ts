/** A message of the protocol as a line of text, both ways. Pure. */
import type { AnyMessage } from "@agentclientprotocol/sdk/unstable";
import type { Line } from "../../base/lines.ts";
import { isRecord } from "../../base/json/schema.ts";

/** What came of a line: a message, or the answer that the client gets instead. */
export type ReadLine = { readonly message: AnyMessage } | { readonly answer: AnyMessage };

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

/** Undefined for a line of nothing but blanks. `maxBytes` is what a line may have, for the error. */
export function readLine(line: Line, maxBytes: number): ReadLine | undefined {
  if (!("text" in line)) {
    if (line.problem === "long") return tooLong(line.head, maxBytes);
    return { answer: failure(null, PARSE_ERROR, "This line is not UTF-8.") };
  }
  if (/^\s*$/.test(line.text)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(line.text);
  } catch {
    return { answer: failure(null, PARSE_ERROR, "This line is not JSON.") };
  }
  const problem = findProblem(value);
  if (problem !== undefined) return { answer: failure(null, INVALID_REQUEST, problem) };
  return { message: value as AnyMessage };
}

/** One line, without its end. JSON may hold two characters that some readers take for the end of a line. */
export function toLine(message: AnyMessage): string {
  const text = JSON.stringify(message);
  if (!/[\u2028\u2029]/.test(text)) return text;
  return text.replaceAll("\u2028", String.raw`\u2028`).replaceAll("\u2029", String.raw`\u2029`);
}

export function failure(
  id: string | number | null,
  code: number,
  message: string,
  data?: Readonly<Record<string, unknown>>,
): AnyMessage {
  return { jsonrpc: "2.0", id, error: { code, message, ...(data ? { data } : {}) } };
}

/** What the SDK takes, it answers or passes over; it would send the rest back, of whatever size. */
function findProblem(value: unknown): string | undefined {
  if (Array.isArray(value)) return "Batches are not supported: send one message a line.";
  if (!isRecord(value)) return "A message is a JSON object.";
  const { jsonrpc, id, method } = value;
  const isCall = typeof method === "string";
  if (!isCall && !("method" in value) && ("result" in value || "error" in value)) return undefined;
  if (jsonrpc !== "2.0") return 'A message has "jsonrpc": "2.0".';
  if (!isCall) return "A message has a method, or is an answer with a result or an error.";
  return "id" in value && !isId(id) ? "An id is a string, a number or null." : undefined;
}

function isId(id: unknown): id is string | number | null {
  return id === null || typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}

/**
 * Whoever waits for what the line was is told: the client, when its head is that of a request; our own side, when it is
 * that of an answer.
 */
function tooLong(head: string, maxBytes: number): ReadLine {
  const message = `A message has at most ${maxBytes} bytes (acp.max_line_bytes).`;
  const own = /^\s*\{[^{[]*/.exec(head)?.[0] ?? "";
  const id = /"id"\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.)*")\s*[,}]/.exec(own)?.[1];
  const kind = /"(method|result|error)"\s*:/.exec(own)?.[1];
  if (id === undefined || kind === undefined) return { answer: failure(null, INVALID_REQUEST, message) };
  const error = failure(JSON.parse(id) as string | number, INVALID_REQUEST, message);
  return kind === "method" ? { answer: error } : { message: error };
}
