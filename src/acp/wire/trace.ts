/** Messages as the trace log records them: without secrets, and shortened. Pure. */
import type { AnyMessage } from "@agentclientprotocol/sdk/unstable";
import { MASK, redact } from "../../base/observe.ts";
import { isRecord } from "../../base/data.ts";

const MAX_TEXT = 2_000;
const MAX_ITEMS = 50;
const MAX_DEPTH = 12;
/** Lists of `{name, value}` whose values are secret. */
const SECRET_LISTS = ["env", "headers"];

/** Returns the message as plain data for the log. */
export function toTraceEntry(message: AnyMessage): unknown {
  return shortened(message, 0);
}

function shortened(value: unknown, depth: number): unknown {
  if (typeof value === "string") return shortText(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth === MAX_DEPTH) return "...";
  if (Array.isArray(value)) {
    const items = value.slice(0, MAX_ITEMS).map((item) => shortened(item, depth + 1));
    return value.length > MAX_ITEMS ? [...items, `... ${value.length - MAX_ITEMS} more`] : items;
  }
  const entries = Object.entries(value).slice(0, MAX_ITEMS);
  return Object.fromEntries(
    entries.map(([name, part]) => [
      name,
      SECRET_LISTS.includes(name) ? masked(part) : shortened(part, depth + 1),
    ]),
  );
}

/** Redacts before it cuts: a cut secret may not be recognizable. */
function shortText(text: string): string {
  // A secret that starts within the kept part ends within twice its length.
  const clean = redact(text.slice(0, MAX_TEXT * 2));
  if (clean.length <= MAX_TEXT && text.length <= MAX_TEXT * 2) return clean;
  return `${clean.slice(0, MAX_TEXT)}... ${text.length} characters`;
}

function masked(list: unknown): unknown {
  if (Array.isArray(list))
    return list
      .slice(0, MAX_ITEMS)
      .map((item) => (isRecord(item) ? { name: item["name"], value: MASK } : MASK));
  return isRecord(list) ? Object.fromEntries(Object.keys(list).map((name) => [name, MASK])) : list;
}
