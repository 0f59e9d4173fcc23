/** What must hold of webhook deliveries, whatever was killed when. */
import assert from "node:assert/strict";
import type { DeliveryRow } from "../../src/store/schema/tables.ts";
import type { CrashPlace } from "./webhook-place.ts";

/** A run starts so often at most. */
const MAX_STARTS = 4;

/**
 * Each delivery came to one end; another record of it follows only one that was interrupted, and its tool wrote at most once
 * for each. What used no tool completed, however often its process was killed; what did not complete says why.
 */
export async function assertOnce(
  place: CrashPlace,
  rows: readonly DeliveryRow[],
  lost: ReadonlySet<string> = new Set(),
): Promise<void> {
  const { asked } = place;
  const effects = await place.effects();
  for (const [name, records] of Map.groupBy(rows, (row) => row.delivery_id)) {
    const before = records.slice(0, -1);
    assert.ok(
      before.every(({ status }) => status === "interrupted"),
      `${name} was taken twice`,
    );
    const writes = effects.filter((each) => each === name).length;
    assert.ok(writes <= records.length, `the tool of ${name} ran ${writes} times in ${records.length} runs`);
    const times = asked.get(name) ?? 0;
    assert.ok(times <= 2 * MAX_STARTS * records.length, `the model was asked ${times} times for ${name}`);
    for (const row of records) {
      const { status, reason, route } = row;
      assert.ok(row.outbox_id !== null, `${name} was told to nobody`);
      const sent = lost.has(row.outbox_id) ? "unknown" : "delivered";
      if (route === "direct") assert.equal(status, sent, `${name}: ${reason}`);
      else assert.match(status, /^(completed|interrupted)$/, `${name}: ${reason}`);
      if (status === "completed" && route === "act") assert.ok(writes > 0, name);
      if (status !== "interrupted") continue;
      assert.ok(reason, `${name} does not say why`);
      const starts = await place.startsOf(row.run_id ?? "");
      assert.ok(route === "act" || starts >= MAX_STARTS, `${name} was started ${starts} times`);
    }
  }
}
