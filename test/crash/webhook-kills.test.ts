/** Webhooks under load and SIGKILL at random points: each delivery comes to one end. */
import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import type { DeliveryRow } from "../../src/store/schema/tables.ts";
import { readAttemptLog } from "../../src/store/outbox/outbox.ts";
import { assertOnce } from "./webhook-check.ts";
import {
  createCrashPlace,
  until,
  type CrashPlace,
  type Heard,
  type RunningGateway,
} from "./webhook-place.ts";

/** Kills of the test at random points; more by hand: AGENTD_TEST_KILLS. */
const KILLS = Number(process.env["AGENTD_TEST_KILLS"] ?? 20);
/** Requests on their way at once, all the time. */
const SENDERS = 6;
/** A gateway lives at most so long after it listens. */
const MAX_LIFE_MS = 1_000;

/** Of so many deliveries, some of which may have been taken again. */
const allEnded = (rows: readonly DeliveryRow[], count: number): boolean =>
  new Set(rows.map((row) => row.delivery_id)).size === count && rows.every((row) => row.ended_at !== null);

test(`every delivery reaches one final state under load and ${KILLS} random kills`, async (t) => {
  await using place = await createCrashPlace();
  const load = new Load();
  const lives: Life[] = [];
  for (let kills = 0; kills < KILLS; kills++) {
    // A test of its own: on a machine that is busy with much else all lives together take minutes.
    await t.test(`life ${kills + 1}`, async () => {
      const fromMs = Date.now();
      const gateway = await place.start();
      const sending = load.send(gateway);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_LIFE_MS));
      await gateway.kill();
      lives.push({ fromMs, toMs: Date.now() });
      await sending;
    });
  }
  const last = await place.start();
  await load.finish(last);
  const rows = await place.untilRows((all) => allEnded(all, load.answers.size));
  const lost = await lostToKills(place, rows, lives);
  await assertOnce(place, rows, lost);
  await until(
    () => rows.every(({ outbox_id: id }) => id !== null && (place.told.includes(id) || lost.has(id))),
    () => last.stderr(),
  );
  assert.equal(await last.kill("SIGTERM"), 0, last.stderr());
  const runs = await place.store.read.selectFrom("runs").select("id").execute();
  assert.equal(runs.length, rows.filter(({ route }) => route !== "direct").length);
  for (const [name, heard] of load.answers) {
    const known = heard.filter((each) => each !== undefined);
    assert.match(known[0]?.says ?? "", /^(accepted|delivered|duplicate)$/, name);
    assert.ok(
      known.slice(1).every(({ says }) => says === "duplicate"),
      `${name}: ${JSON.stringify(heard)}`,
    );
  }
});

/** Senders that never pause, and try again what was not answered. */
class Load {
  readonly answers = new Map<string, Heard[]>();
  readonly #unanswered: string[] = [];
  #count = 0;

  /** Until the gateway is gone. */
  async send(gateway: RunningGateway): Promise<void> {
    const sender = async () => {
      while (await this.#attempt(gateway, this.#unanswered.shift() ?? this.#next()));
    };
    await Promise.all(Array.from({ length: SENDERS }, sender));
  }

  /** Tries again what was never answered. */
  async finish(gateway: RunningGateway): Promise<void> {
    for (const name of this.#unanswered.splice(0)) assert.ok(await this.#attempt(gateway, name));
  }

  #next(): string {
    const route = ["hook", "act", "hook", "direct"][this.#count % 4];
    return `case-${route}-${this.#count++}`;
  }

  async #attempt(gateway: RunningGateway, name: string): Promise<boolean> {
    const heard = await gateway.post(name.split("-")[1] ?? "", name);
    this.answers.set(name, [...(this.answers.get(name) ?? []), heard]);
    if (!heard) this.#unanswered.push(name);
    return heard !== undefined;
  }
}

/** Of a gateway that was killed. */
interface Life {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Attempts at a message to a webhook, whose receiver recognises repeats: it is sent again after a kill so long as it has any. */
const MAX_ATTEMPTS = 5;

/**
 * Ids of the messages of which nobody knows whether they arrived: each has used up all its attempts, and each of them a kill
 * hit, of another gateway every time.
 */
async function lostToKills(
  place: CrashPlace,
  rows: readonly DeliveryRow[],
  lives: readonly Life[],
): Promise<ReadonlySet<string>> {
  const ids = rows.flatMap(({ outbox_id: id }) => id ?? []);
  const messages = await place.messages(ids);
  const unknown = messages.filter(({ status }) => status === "unknown");
  for (const { id, attempt_log: log } of unknown) {
    const attempts = readAttemptLog(log);
    assert.equal(attempts.length, MAX_ATTEMPTS, `${id} is unknown after ${log}`);
    const hit = attempts.map(({ atMs, outcome }) => {
      const life = lives.findIndex(({ fromMs, toMs }) => fromMs <= atMs && atMs <= toMs);
      assert.ok(outcome === "lost" && life >= 0, `no kill hit an attempt at ${id}: ${log}`);
      return life;
    });
    assert.equal(new Set(hit).size, hit.length, `a kill hit two attempts at ${id}: ${log}`);
  }
  return new Set(unknown.map(({ id }) => id));
}
