/** Items that a request names instead of sending them: what the owner's stored responses were asked with, or said. */
import type { InputItem } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store } from "../../store/store.ts";
import type { StoredItem } from "./store.ts";

/** Newest responses whose items can be referred to, and events of theirs that are looked at. */
const MAX_RESPONSES = 100;
const MAX_EVENTS = 10_000;

/**
 * The items, with the item itself in the place of each `item_reference`. ServiceError `invalid_request` for one that is
 * not kept.
 */
export async function resolveReferences(
  store: Store,
  items: readonly InputItem[],
  owner: string,
): Promise<readonly InputItem[]> {
  const wanted = items.flatMap((item) => (isReference(item) ? [item.id ?? ""] : []));
  if (wanted.length === 0) return items;
  const asked = await askedItems(store, owner);
  const isOpen = wanted.some((id) => !asked.has(id) && ignoredType(id) === undefined);
  const said = isOpen ? await saidItems(store, owner, new Set(wanted)) : new Map<string, InputItem>();
  return items.map((item, index) => {
    if (!isReference(item)) return item;
    const id = item.id ?? "";
    const type = ignoredType(id);
    const found = asked.get(id) ?? said.get(id) ?? (type === undefined ? undefined : { type, id });
    if (found) return found;
    const param = `input[${index}].id`;
    const what = `${param} refers to ${JSON.stringify(id)}, which is not kept here. Send the item itself.`;
    throw new ServiceError("invalid_request", what, { param });
  });
}

function isReference({ type, role, content, id }: InputItem): boolean {
  if (type === "item_reference") return true;
  return type === undefined && role === undefined && content === undefined && typeof id === "string";
}

/** Reasoning and calls of the agent's own tools say nothing to the agent that it does not know. */
function ignoredType(id: string): "reasoning" | "mcp_call" | undefined {
  if (id.startsWith("rs_")) return "reasoning";
  return id.startsWith("mcp_") ? "mcp_call" : undefined;
}

async function askedItems(store: Store, owner: string): Promise<ReadonlyMap<string, InputItem>> {
  const rows = await store.read
    .selectFrom("responses")
    .select("input")
    .where("owner", "=", owner)
    .orderBy("created_at", "desc")
    .limit(MAX_RESPONSES)
    .execute();
  const items = rows.flatMap(({ input }) => JSON.parse(input) as readonly StoredItem[]);
  return new Map(items.map((item) => [item.id, item]));
}

/** Messages of the agent, and calls it asked the client to make. */
async function saidItems(
  store: Store,
  owner: string,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, InputItem>> {
  const rows = await store.read
    .selectFrom("responses")
    .innerJoin("events", "events.run_id", "responses.run_id")
    .select(["events.type", "events.data"])
    .where("responses.owner", "=", owner)
    .where("events.type", "in", ["message.completed", "tool.requested"])
    .orderBy("responses.created_at", "desc")
    .limit(MAX_EVENTS)
    .execute();
  const found = new Map<string, InputItem>();
  for (const { data } of rows) {
    const item = toItem(JSON.parse(data) as Said);
    if (wanted.has(item.id)) found.set(item.id, item);
  }
  return found;
}

type Said =
  | { readonly message_id: string; readonly text: string }
  | { readonly tool_call_id: string; readonly tool: string; readonly arguments: string };

function toItem(said: Said): InputItem & { readonly id: string } {
  if ("message_id" in said) {
    return { type: "message", id: said.message_id, role: "assistant", content: said.text };
  }
  const { tool_call_id: id, tool: name, arguments: json } = said;
  return { type: "function_call", id: `fc_${id}`, call_id: id, name, arguments: json };
}
