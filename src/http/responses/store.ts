import { responseIdOf } from "../../agent/run/run.ts";
import type { InputItem } from "../../../generated/http/client/types.gen.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Store, Tx } from "../../store/store.ts";
import type { ResponseRow, RunRow } from "../../store/schema/tables.ts";
import type { ResponseRequest } from "./object.ts";
import type { HttpDeps } from "../deps.ts";

/** An input item as it is kept: each has an id. */
export type StoredItem = InputItem & { readonly id: string; readonly type: string };

type Responses = Pick<HttpDeps, "store" | "agent">;

/** A stored response of `owner`, its run as recovery leaves it. ServiceError `response_not_found`, for others' too. */
export async function findResponse(deps: Responses, id: string, owner: string): Promise<ResponseRow> {
  const row = await lookUp(deps, id, owner);
  if (row) return row;
  throw new ServiceError(
    "response_not_found",
    `There is no stored response ${JSON.stringify(id)}. Responses are kept for a limited time, the least used go first.`,
  );
}

/** The stored response that a request goes on from, as {@link findResponse}. ServiceError `previous_response_not_found`. */
export async function findPrevious(deps: Responses, id: string, owner: string): Promise<ResponseRow> {
  const row = await lookUp(deps, id, owner);
  if (row) return row;
  throw new ServiceError(
    "previous_response_not_found",
    `There is no stored response ${JSON.stringify(id)} to go on from. Send the conversation as input instead.`,
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

/** What is kept of a response beside its run. */
export interface KeptResponse {
  readonly request: ResponseRequest;
  readonly input: readonly InputItem[];
  readonly conversation: string | undefined;
  readonly previousId: string | undefined;
}

/**
 * Stores a response in the transaction that records its run. Of an owner's responses at most `limit` are kept; the
 * least recently used goes first, and none that is at work.
 */
export async function keepResponse(tx: Tx, run: RunRow, kept: KeptResponse, limit: number): Promise<void> {
  const id = responseIdOf(run.id);
  const row: ResponseRow = {
    id,
    owner: run.owner,
    run_id: run.id,
    session_id: run.session_id,
    conversation: kept.conversation ?? null,
    previous_id: kept.previousId ?? null,
    next_id: null,
    request: JSON.stringify(kept.request),
    input: JSON.stringify(kept.input.map((item, index) => withId(item, index, id))),
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

/** Notes that a response was asked for: it is forgotten later than others. */
export async function touchResponse(store: Store, id: string): Promise<void> {
  await store.write((tx) => tx.update("responses", { id }, { used_at: tx.nowMs }), { durable: false });
}

/** False when it is gone already. */
export function forgetResponse(store: Store, id: string): Promise<boolean> {
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

/** Clients page by the ids of items and refer to them, so each gets one. Messages are kept in one form. */
function withId(item: InputItem, index: number, responseId: string): StoredItem {
  const type = item.type ?? "message";
  const suffix = `${responseId.slice("resp_".length)}_${index}`;
  const id =
    typeof item.id === "string" && item.id !== "" ? item.id : `${PREFIXES[type] ?? "item"}_${suffix}`;
  if (type !== "message") return { ...item, id, type };
  return { ...item, id, type, status: item.status ?? "completed", content: partsOf(item) };
}

function partsOf({ role, content }: InputItem): unknown {
  if (typeof content !== "string") return content;
  if (role !== "assistant") return [{ type: "input_text", text: content }];
  return [{ type: "output_text", text: content, annotations: [], logprobs: [] }];
}
