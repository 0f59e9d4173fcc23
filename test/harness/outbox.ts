/** What tests of the outbox over HTTP share: messages in any status, and their changes. */
import assert from "node:assert/strict";
import type { Message } from "../../generated/http/client/types.gen.ts";
import type { Store } from "../../src/store/store.ts";
import type { OutboxRow } from "../../src/store/schema/tables.ts";
import { storedChanges } from "./changes.ts";
import type { TestService } from "./service.ts";

/** A chat on a platform without settings: its messages stay where they are. */
export const CHAT = "telegram:-1001";

export interface NewRow {
  readonly status?: OutboxRow["status"];
  readonly target?: string;
  readonly ref?: string;
  readonly owner?: string;
  readonly text?: string;
}

interface WithStore {
  readonly service: { readonly store: Store };
}

/** Adds messages that are due in an hour, or have ended. */
export async function addMessages(service: WithStore, count: number, row: NewRow = {}): Promise<string[]> {
  const { store } = service.service;
  const { status = "due", target = CHAT, ref = "run_1", owner = "default", text = "private words" } = row;
  return store.write(async (tx) => {
    const ids: string[] = [];
    for (let index = 0; index < count; index++) {
      const payload = { text, extra: {} };
      const availableAtMs = tx.nowMs + 3_600_000;
      ids.push(await store.outbox.enqueue(tx, { owner, target, payload, ref, availableAtMs }));
    }
    const isPending = status === "due" || status === "leased";
    const ended = { last_error: "It said no.", done_at: tx.nowMs };
    const lease = status === "leased" ? { lease_owner: store.owner } : {};
    for (const id of ids)
      await tx.update("outbox", { id }, { status, ...lease, ...(isPending ? {} : ended), blocked: 0 });
    return ids;
  });
}

export async function addMessage(service: WithStore, row: NewRow = {}): Promise<string> {
  const [id] = await addMessages(service, 1, row);
  return id ?? assert.fail();
}

export async function getMessage(service: TestService, id: string, query = ""): Promise<Message> {
  const response = await service.request(`/v1/outbox/${id}${query}`);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Message;
}

/** Waits for the status of a message. */
export async function messageWith(
  service: TestService,
  id: string,
  status: Message["status"],
): Promise<Message> {
  for (;;) {
    const message = await getMessage(service, id);
    if (message.status === status) return message;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The stored events of messages, as `id type status actor`. */
export async function messageEvents(service: TestService): Promise<readonly string[]> {
  const rows = await storedChanges(service.service.store);
  return rows.flatMap(({ type, ref, data, actor }) =>
    type.startsWith("message.") ? [`${ref} ${type} ${String(data["status"])} ${actor}`] : [],
  );
}

export const idsOf = (messages: readonly Message[]) => messages.map(({ id }) => id);
