import { responseIdOf } from "../../agent/run/run.ts";
import type { InputItem, RunEvent } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { ResponseRow, RunRow } from "../../store/schema/tables.ts";
import type { ResponseRequest } from "./reducer.ts";
import type { HttpDeps } from "../deps.ts";

/** A stored input item. Each has an id. */
export type StoredItem = InputItem & { readonly id: string; readonly type: string };

type Responses = Pick<HttpDeps, "store" | "agent">;

/** Finds a stored response of `owner`. ServiceError `response_not_found`, including for responses of others. */
export async function findResponse(deps: Responses, id: string, owner: string): Promise<ResponseRow> {
  const row = await lookUp(deps, id, owner);
  if (row) return row;
  throw new ServiceError(
    "response_not_found",
    `No response ${JSON.stringify(id)} is stored. Responses expire, and the least recently used are deleted first.`,
  );
}

/** Finds the stored response that a request continues. ServiceError `previous_response_not_found`. */
export async function findPrevious(deps: Responses, id: string, owner: string): Promise<ResponseRow> {
  const row = await lookUp(deps, id, owner);
  if (row) return row;
  throw new ServiceError(
    "previous_response_not_found",
    `No response ${JSON.stringify(id)} is stored to continue from. Send the conversation as input instead.`,
    { param: "previous_response_id" },
  );
}

async function lookUp(
  { store, agent }: Responses,
  id: string,
  owner: string,
): Promise<ResponseRow | undefined> {
  const rows = store.read.selectFrom("responses").selectAll();
  const row = await rows.where("id", "=", id).where("owner", "=", owner).executeTakeFirst();
  if (row) await agent.settle([row.session_id]);
  return row;
}

/** What is stored of a response besides its run. */
export interface ResponseRecord {
  readonly request: ResponseRequest;
  readonly input: readonly InputItem[];
  readonly conversation: string | undefined;
  readonly previousId: string | undefined;
}

/**
 * Stores a response in the transaction that records its run. Each owner keeps at most `limit` responses; the least
 * recently used finished one is deleted first.
 */
export async function storeResponse(
  tx: Tx,
  run: RunRow,
  record: ResponseRecord,
  limit: number,
): Promise<void> {
  const id = responseIdOf(run.id);
  const row: ResponseRow = {
    id,
    owner: run.owner,
    run_id: run.id,
    session_id: run.session_id,
    conversation: record.conversation ?? null,
    previous_id: record.previousId ?? null,
    next_id: null,
    request: JSON.stringify(record.request),
    input: JSON.stringify(record.input.map((item, index) => withId(item, index, id))),
    created_at: tx.nowMs,
    used_at: tx.nowMs,
  };
  await tx.insert("responses", [row]);
  await evict(tx, run.owner, limit);
}

async function evict(tx: Tx, owner: string, limit: number): Promise<void> {
  const { count } = await tx.db
    .selectFrom("responses")
    .select((of) => of.fn.countAll().as("count"))
    .where("owner", "=", owner)
    .executeTakeFirstOrThrow();
  const surplus = Number(count) - limit;
  if (surplus <= 0) return;
  const oldest = tx.db
    .selectFrom("responses")
    .innerJoin("runs", "runs.id", "responses.run_id")
    .select("responses.id")
    .where("responses.owner", "=", owner)
    .where("runs.ended_at", "is not", null)
    .orderBy("responses.used_at")
    .orderBy("responses.id")
    .limit(surplus);
  await tx.db.deleteFrom("responses").where("id", "in", oldest).execute();
}

/** Marks a response as recently used. */
export async function touchResponse(store: Store, id: string): Promise<void> {
  await store.write((tx) => tx.update("responses", { id }, { used_at: tx.nowMs }), { durable: false });
}

/** Returns false when the response is already gone. */
export function removeResponse(store: Store, id: string): Promise<boolean> {
  return store.write(async (tx) => {
    const { numDeletedRows } = await tx.db.deleteFrom("responses").where("id", "=", id).executeTakeFirst();
    return numDeletedRows > 0n;
  });
}

export function storedRequest(row: Pick<ResponseRow, "request">): ResponseRequest {
  return JSON.parse(row.request) as ResponseRequest;
}

export function storedInput(row: ResponseRow): readonly StoredItem[] {
  return JSON.parse(row.input) as StoredItem[];
}

const PREFIXES: Readonly<Record<string, string>> = {
  message: "msg",
  function_call: "fc",
  function_call_output: "fco",
  reasoning: "rs",
  mcp_call: "mcp",
};

/** Adds an id: clients page by item ids and refer to them. All messages are stored in one form. */
function withId(item: InputItem, index: number, responseId: string): StoredItem {
  const type = item.type ?? "message";
  const suffix = `${responseId.slice("resp_".length)}_${index}`;
  const id =
    typeof item.id === "string" && item.id !== "" ? item.id : `${PREFIXES[type] ?? "item"}_${suffix}`;
  if (type !== "message") return { ...item, id, type };
  return { ...item, id, type, status: item.status ?? "completed", content: partsOf(item) };
}

function partsOf({ role, content }: InputItem): InputItem["content"] {
  if (typeof content !== "string") return content;
  if (role !== "assistant") return [{ type: "input_text", text: content }];
  return [{ type: "output_text", text: content, annotations: [], logprobs: [] }];
}

/** Limits of the search for referenced items: newest responses, and their events. */
const MAX_RESPONSES = 100;
const MAX_EVENTS = 10_000;

/** Returns the input items of an owner's newest responses, by id. */
export async function inputItemsOf(store: Store, owner: string): Promise<ReadonlyMap<string, InputItem>> {
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

/** Returns the wanted output items among an owner's stored events: messages, and calls with what came of them. */
export async function outputItemsOf(
  store: Store,
  owner: string,
  wanted: ReadonlySet<string>,
): Promise<ReadonlyMap<string, InputItem>> {
  const rows = await store.read
    .selectFrom("responses")
    .innerJoin("events", "events.run_id", "responses.run_id")
    .select(["events.type", "events.data"])
    .where("responses.owner", "=", owner)
    .where("events.type", "in", ["message.completed", "tool.requested", "tool.started", "tool.completed"])
    .orderBy("responses.created_at", "desc")
    .limit(MAX_EVENTS)
    .execute();
  const found = new Map<string, InputItem>();
  for (const { type, data } of rows) {
    const item = toItem(type as OutputData["event"], JSON.parse(data) as OutputData);
    // A call of the agent's own tools is an item of two events.
    if (wanted.has(item.id)) found.set(item.id, { ...found.get(item.id), ...item });
  }
  return found;
}

type OutputData = Extract<
  RunEvent,
  { event: "message.completed" | "tool.requested" | "tool.started" | "tool.completed" }
>;

function toItem(type: OutputData["event"], data: OutputData): InputItem & { readonly id: string } {
  const event = { ...data, event: type } as OutputData;
  if (event.event === "message.completed") {
    return { type: "message", id: event.message_id, role: "assistant", content: event.text };
  }
  const { tool_call_id: id, tool: name } = event;
  if (event.event === "tool.requested") {
    return { type: "function_call", id: `fc_${id}`, call_id: id, name, arguments: event.arguments };
  }
  const own = { type: "mcp_call", id: `mcp_${id}`, name };
  if (event.event === "tool.started") return { ...own, arguments: JSON.stringify(event.arguments ?? {}) };
  const text = event.result ?? event.preview ?? "";
  return event.error ? { ...own, output: null, error: text } : { ...own, output: text };
}
