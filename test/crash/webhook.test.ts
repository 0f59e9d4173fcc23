/** Webhooks and SIGKILL: what was acknowledged comes to one end, what was not may be sent again. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { DeliveryRow } from "../../src/store/tables.ts";
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

const ended = (rows: readonly DeliveryRow[], count: number): boolean =>
  rows.length === count && rows.every((row) => row.ended_at !== null);

const accepted: Heard = { status: 202, says: "accepted" };
const duplicate: Heard = { status: 200, says: "duplicate" };

test("SIGKILL while the body comes: nothing is recorded, and the sender's retry is accepted", async () => {
  await using place = await createCrashPlace();
  const first = await place.start();
  const { hostname, port } = new URL(first.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write("POST /webhooks/hook HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf");
  await first.post("nowhere", "case-other");
  await first.kill();
  await closed;
  assert.deepEqual(await place.rows(), []);
  const second = await place.start();
  assert.deepEqual(await second.post("hook", "case-body"), accepted);
  await place.untilRows((rows) => ended(rows, 1));
  await second.kill("SIGTERM");
});

test("SIGKILL in the script: nothing is recorded, and the sender's retry is accepted", async () => {
  const script = 'cat > /dev/null; if [ -e seen ]; then echo "[again]"; else touch seen; sleep 20; fi';
  await using place = await createCrashPlace({
    route: { script: "slow.sh" },
    scripts: { "slow.sh": script },
  });
  const first = await place.start();
  const unanswered = first.post("hook", "case-script");
  await until(
    () => existsSync(join(place.home, "scripts", "seen")),
    () => first.stderr(),
  );
  await first.kill();
  assert.equal(await unanswered, undefined);
  assert.deepEqual(await place.rows(), []);
  const second = await place.start();
  assert.deepEqual(await second.post("hook", "case-script"), accepted);
  await place.untilRows((rows) => ended(rows, 1));
  await second.kill("SIGTERM");
});

test("SIGKILL as soon as the record is there: whether it was answered or not, one run and one end", async () => {
  await using place = await createCrashPlace();
  const first = await place.start();
  const answer = first.post("hook", "case-record");
  await place.untilRows((rows) => rows.length === 1);
  await first.kill();
  const heard = await answer;
  assert.ok(heard === undefined || heard.status === 202);
  const second = await place.start();
  assert.deepEqual(await second.post("hook", "case-record"), duplicate);
  assertOnce(place, await place.untilRows((rows) => ended(rows, 1)));
  await second.kill("SIGTERM");
});

test("a run whose process is killed during the model's answer is interrupted, reported once and not repeated", async () => {
  await using place = await createCrashPlace({
    model: () => ({ pieces: [{ text: "half" }, { hang: true }] }),
  });
  const first = await place.start();
  assert.deepEqual(await first.post("hook", "case-model"), accepted);
  await until(
    () => place.asked.get("case-model") === 1,
    () => first.stderr(),
  );
  assert.deepEqual(
    (await place.rows()).map(({ status }) => status),
    ["running"],
  );
  await first.kill();
  const second = await place.start();
  const [row] = await place.untilRows((rows) => ended(rows, 1));
  assert.equal(row?.status, "interrupted");
  assert.match(row?.reason ?? "", /process that ran this ended/);
  await place.target.count(1);
  assert.deepEqual(await second.post("hook", "case-model"), duplicate);
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
  assert.deepEqual(place.told, [row?.outbox_id]);
  assert.match(place.target.received[0]?.body ?? "", /interrupted/);
  assert.equal(place.asked.get("case-model"), 1);
});

test("runs that wait for capacity when the process is killed run one at a time after the restart", async () => {
  const atOnce = { now: 0, most: 0 };
  let isFirst = true;
  await using place = await createCrashPlace({
    route: { max_concurrent: 1 },
    model: (name) => {
      if (isFirst) {
        isFirst = false;
        return { pieces: [{ hang: true }] };
      }
      return { pieces: [{ text: `done ${name}` }, { finish: "stop" }] };
    },
    answer: (response) => {
      atOnce.most = Math.max(atOnce.most, ++atOnce.now);
      response.once("close", () => atOnce.now--);
      response.writeHead(204).end();
    },
  });
  const first = await place.start();
  const names = ["case-a", "case-b", "case-c"];
  for (const name of names) assert.deepEqual(await first.post("hook", name), accepted);
  await until(
    () => place.asked.size === 1,
    () => first.stderr(),
  );
  assert.deepEqual(
    (await place.rows()).map(({ status }) => status),
    ["running", "accepted", "accepted"],
  );
  await first.kill();
  const second = await place.start();
  const rows = await place.untilRows((all) => ended(all, 3));
  assert.deepEqual(
    rows.map(({ status }) => status),
    ["interrupted", "completed", "completed"],
  );
  assertOnce(place, rows);
  const runs = await place.store.read.selectFrom("runs").selectAll().orderBy("id").execute();
  const [, b, c] = runs;
  assert.ok(
    b && c && (b.ended_at! <= c.started_at! || c.ended_at! <= b.started_at!),
    "two were at work at once",
  );
  await second.kill("SIGTERM");
});

test("SIGKILL while the answer is on its way to the target: it is sent again under its id, the agent does not run again", async () => {
  const held: ServerResponse[] = [];
  await using place = await createCrashPlace({
    answer: (response, _request, count) => {
      if (count === 1) held.push(response);
      else response.writeHead(204).end();
    },
  });
  const first = await place.start();
  assert.deepEqual(await first.post("hook", "case-answer"), accepted);
  await place.target.count(1);
  await first.kill();
  const second = await place.start();
  await place.target.count(2);
  const [row] = await place.rows();
  assert.equal(row?.status, "completed");
  assert.deepEqual(place.told, [row?.outbox_id, row?.outbox_id]);
  assert.equal(place.asked.get("case-answer"), 1);
  await second.kill("SIGTERM");
});

test("SIGKILL in a direct delivery: the outbox sends it later under the same id, and the sender's retry is a duplicate", async () => {
  const held: ServerResponse[] = [];
  await using place = await createCrashPlace({
    answer: (response, _request, count) => {
      if (count === 1) held.push(response);
      else response.writeHead(204).end();
    },
  });
  const first = await place.start();
  const unanswered = first.post("direct", "case-direct");
  await place.target.count(1);
  await first.kill();
  assert.equal(await unanswered, undefined);
  const second = await place.start();
  assert.deepEqual(await second.post("direct", "case-direct"), duplicate);
  const [row] = await place.untilRows((rows) => ended(rows, 1));
  assert.equal(row?.status, "delivered");
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
  assert.deepEqual(place.told, [row?.outbox_id, row?.outbox_id]);
  assert.equal(place.asked.size, 0);
});

test("SIGKILL while events wait to be taken together: the newest is handled after the restart, the others are known", async () => {
  const coalesce = { key: "{topic}", window_seconds: 2 };
  await using place = await createCrashPlace({ route: { coalesce } });
  const first = await place.start();
  for (const name of ["case-1", "case-2"]) {
    assert.deepEqual(await first.post("hook", name), { status: 202, says: "coalesced" });
  }
  await first.kill();
  const second = await place.start();
  assert.deepEqual(await second.post("hook", "case-1"), duplicate);
  const rows = await place.untilRows((all) => ended(all, 1));
  assert.deepEqual(
    rows.map((row) => [row.delivery_id, row.status]),
    [["case-2", "completed"]],
  );
  assertOnce(place, rows);
  assert.equal(place.asked.get("case-1"), undefined);
  await second.kill("SIGTERM");
});

test(`every delivery reaches one final state under load and ${KILLS} random kills`, async () => {
  await using place = await createCrashPlace();
  const load = new Load();
  for (let kills = 0; kills < KILLS; kills++) {
    const gateway = await place.start();
    const sending = load.send(gateway);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_LIFE_MS));
    await gateway.kill();
    await sending;
  }
  const last = await place.start();
  await load.finish(last);
  const rows = await place.untilRows((all) => ended(all, load.answers.size));
  assertOnce(place, rows);
  await until(
    () => rows.every(({ outbox_id: id }) => id !== null && place.told.includes(id)),
    () => last.stderr(),
  );
  assert.equal(await last.kill("SIGTERM"), 0, last.stderr());
  const runs = await place.store.read.selectFrom("runs").select("id").execute();
  assert.equal(runs.length, rows.filter(({ route }) => route === "hook").length);
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
    const route = this.#count % 4 === 3 ? "direct" : "hook";
    return `case-${route}-${this.#count++}`;
  }

  async #attempt(gateway: RunningGateway, name: string): Promise<boolean> {
    const heard = await gateway.post(name.split("-")[1] ?? "", name);
    this.answers.set(name, [...(this.answers.get(name) ?? []), heard]);
    if (!heard) this.#unanswered.push(name);
    return heard !== undefined;
  }
}

/** Each delivery was taken once, ran at most once, and what did not complete says why. */
function assertOnce({ asked }: CrashPlace, rows: readonly DeliveryRow[]): void {
  assert.equal(new Set(rows.map((row) => row.delivery_id)).size, rows.length, "one was taken twice");
  for (const row of rows) {
    const { delivery_id: name, status, reason, outbox_id: message } = row;
    assert.ok(message !== null, `${name} was told to nobody`);
    if (row.route === "direct") assert.equal(status, "delivered", `${name}: ${reason}`);
    else assert.match(status, /^(completed|interrupted)$/, `${name}: ${reason}`);
    if (status === "interrupted") assert.ok(reason, `${name} does not say why`);
    if (status === "completed") assert.equal(asked.get(name), 1, name);
    assert.ok((asked.get(name) ?? 0) <= 1, `${name} ran ${asked.get(name)} times`);
  }
}
