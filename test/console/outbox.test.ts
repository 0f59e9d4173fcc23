import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message } from "../../generated/http/client/types.gen.ts";
import { openStore } from "../../src/store/open.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import { callApi } from "../harness/console-webhooks.ts";

/** Puts messages into the outbox whose attempts have ended. Resolves to their ids. */
async function addEnded(
  shown: ConsoleTest,
  status: "dead" | "unknown",
  texts: readonly string[],
  target = "local",
): Promise<readonly string[]> {
  const store = await openStore({ url: shown.place.database });
  try {
    const { outbox } = store;
    const ids: string[] = [];
    for (const text of texts) {
      // The gateway must not send it between the two writes: both are one.
      const id = await store.write(async (tx) => {
        const message = {
          owner: "default",
          target,
          payload: { text, extra: {} },
          orderingKey: null,
        };
        const added = await outbox.enqueue(tx, message);
        await outbox.claim(tx, { limit: 1, leaseMs: 600_000, ids: [added] });
        await outbox[status](tx, added, "The platform answered 503.");
        return added;
      });
      ids.push(id);
    }
    return ids;
  } finally {
    await store.close();
  }
}

function messageOf(shown: ConsoleTest, id: string): Promise<Message> {
  return callApi<Message>(shown, `/v1/outbox/${id}`);
}

test("dead letters are retried together, each once", async () => {
  await using shown = await startConsole();
  const dead = await addEnded(shown, "dead", ["one", "two", "three"]);
  const [other] = await addEnded(shown, "unknown", ["maybe"]);
  const page = await shown.open("/outbox");
  await page.getByRole("button", { name: "dead 3" }).click();
  await page.waitForURL("**/outbox?state=dead");
  await page.getByRole("button", { name: "Retry all dead (3)" }).click();
  await page.getByRole("button", { name: "Retry 3 messages" }).click();
  await page.getByText("3 messages will be sent again.").waitFor();
  await page.getByText("Nothing matches these filters.").waitFor();
  await page.getByRole("button", { name: "delivered" }).click();
  await page.getByRole("cell", { name: "three" }).waitFor();
  await page.getByRole("cell", { name: "one" }).waitFor();
  for (const id of dead) {
    const { status, attempts, attempt_log: log } = await messageOf(shown, id);
    assert.deepEqual({ status, attempts }, { status: "delivered", attempts: 1 });
    assert.equal(log?.filter(({ outcome }) => outcome === "delivered").length, 1, "each is sent once");
  }
  assert.equal((await messageOf(shown, other!)).status, "unknown", "others are left alone");
});

test("a message shows its attempts and its text, is retried and dropped", async () => {
  await using shown = await startConsole();
  const [first, second] = await addEnded(shown, "dead", ["The deploy is done.", "The second."]);
  const [maybe] = await addEnded(shown, "unknown", ["It may be there."]);
  const page = await shown.open(`/outbox/${first}`);
  await page.getByLabel("Text").getByText("The deploy is done.").waitFor();
  await page.getByRole("alert").getByText("The platform answered 503.").waitFor();
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("listitem").filter({ hasText: "delivered" }).waitFor();

  await page.goto(`/outbox/${second}`);
  await page.getByRole("button", { name: "Drop" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drop" }).click();
  await page.getByText("dropped", { exact: true }).waitFor();
  assert.equal((await messageOf(shown, second!)).status, "dropped");

  await page.goto(`/outbox/${maybe}`);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("dialog").getByText("it may arrive twice").waitFor();
  assert.equal((await messageOf(shown, maybe!)).status, "unknown", "nothing is sent before it is confirmed");
  await page.getByRole("button", { name: "Send it again" }).click();
  await page.getByRole("listitem").filter({ hasText: "delivered" }).waitFor();
});
