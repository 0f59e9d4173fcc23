/** Webhooks and SIGKILL: what was acknowledged comes to one end, what was not may be sent again. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import type { DeliveryRow } from "../../src/store/schema/tables.ts";
import { saying } from "../harness/openai-server.ts";
import { assertOnce } from "./webhook-check.ts";
import { createCrashPlace, until, writing, type Heard } from "./webhook-place.ts";

const ended = (rows: readonly DeliveryRow[], count: number): boolean =>
  rows.length === count && rows.every((row) => row.ended_at !== null);

const accepted: Heard = { status: 202, says: "accepted" };
const duplicate: Heard = { status: 200, says: "duplicate" };

test("after SIGKILL while the body arrives, nothing is recorded and the sender's retry is accepted", async () => {
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

test("after SIGKILL in the script, nothing is recorded and the sender's retry is accepted", async () => {
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

test("after SIGKILL just after the record is written, the delivery has one run and one end", async () => {
  await using place = await createCrashPlace();
  const first = await place.start();
  const answer = first.post("hook", "case-record");
  await place.untilRows((rows) => rows.length === 1);
  await first.kill();
  const heard = await answer;
  assert.ok(heard === undefined || heard.status === 202);
  const second = await place.start();
  assert.deepEqual(await second.post("hook", "case-record"), duplicate);
  await assertOnce(place, await place.untilRows((rows) => ended(rows, 1)));
  await second.kill("SIGTERM");
});

test("a run whose process is killed during the model's first answer runs again after the restart, as the same run", async () => {
  let isFirst = true;
  await using place = await createCrashPlace({
    model: () => {
      const reply = isFirst ? { pieces: [{ text: "half" }, { hang: true as const }] } : saying("whole");
      isFirst = false;
      return reply;
    },
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
  const [before] = await place.rows();
  await first.kill();
  const second = await place.start();
  const [row] = await place.untilRows((rows) => ended(rows, 1));
  assert.deepEqual([row?.status, row?.run_id], ["completed", before?.run_id]);
  await place.target.count(1);
  assert.deepEqual(await second.post("hook", "case-model"), duplicate);
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
  assert.deepEqual(place.told, [row?.outbox_id]);
  assert.equal(place.target.received[0]?.body, JSON.stringify({ text: "whole" }));
  assert.equal(place.asked.get("case-model"), 2);
  const said = await place.store.read.selectFrom("messages").select("content").orderBy("seq").execute();
  assert.equal(said.length, 2, "the prompt stands in the transcript once, and one answer");
});

test("a run whose process is killed at every start is given up after the fourth, and its id is free", async () => {
  let isHanging = true;
  await using place = await createCrashPlace({
    model: () => (isHanging ? { pieces: [{ hang: true }] } : saying("whole")),
  });
  let gateway = await place.start();
  assert.deepEqual(await gateway.post("hook", "case-loop"), accepted);
  for (let starts = 1; starts <= 4; starts++) {
    await until(
      () => place.asked.get("case-loop") === starts,
      () => gateway.stderr(),
    );
    assert.deepEqual(await gateway.post("hook", "case-loop"), duplicate);
    await gateway.kill();
    gateway = await place.start();
  }
  const [row] = await place.untilRows((rows) => ended(rows, 1));
  assert.equal(row?.status, "interrupted");
  assert.match(row?.reason ?? "", /process that ran this ended/);
  await place.target.count(1);
  assert.doesNotMatch(place.target.received[0]?.body ?? "", /process/);
  isHanging = false;
  assert.deepEqual(await gateway.post("hook", "case-loop"), accepted);
  await place.untilRows((rows) => ended(rows, 2));
  assert.equal(place.asked.get("case-loop"), 5);
  await gateway.kill("SIGTERM");
});

for (const { when, more, held } of [
  { when: "while its tool works", more: "; sleep 20", held: false },
  { when: "after its tool ended", more: "", held: true },
]) {
  test(`a run whose process is killed ${when} is interrupted and not repeated, and its sender may send it again`, async () => {
    let isFirst = true;
    await using place = await createCrashPlace({
      model: (name, toolResults) => {
        if (toolResults === 0 && isFirst) return writing(name, more);
        return isFirst && held ? { pieces: [{ hang: true }] } : saying("done");
      },
    });
    const first = await place.start();
    assert.deepEqual(await first.post("act", "case-tool"), accepted);
    await until(
      async () => (await place.effects()).length === 1 && place.asked.get("case-tool") === (held ? 2 : 1),
      () => first.stderr(),
    );
    await first.kill();
    isFirst = false;
    const second = await place.start();
    const [row] = await place.untilRows((rows) => ended(rows, 1));
    assert.equal(row?.status, "interrupted");
    await place.target.count(1);
    assert.equal(
      place.target.received[0]?.body,
      JSON.stringify({ text: "The agent was interrupted and did not finish this." }),
    );
    assert.deepEqual(await place.effects(), ["case-tool"]);
    assert.deepEqual(await second.post("act", "case-tool"), accepted);
    await place.untilRows((rows) => ended(rows, 2) && rows[1]?.status === "completed");
    assert.deepEqual(await second.post("act", "case-tool"), duplicate);
    await second.kill("SIGTERM");
  });
}

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
    ["completed", "completed", "completed"],
  );
  assert.equal(atOnce.most, 1);
  const runs = await place.store.read.selectFrom("runs").selectAll().orderBy("id").execute();
  const spans = runs.toSorted((one, other) => one.started_at! - other.started_at!);
  assert.ok(
    spans.every((span, index) => index === 0 || spans[index - 1]!.ended_at! <= span.started_at!),
    "two were at work at once",
  );
  await second.kill("SIGTERM");
});

test("after SIGKILL while the answer is being sent, it is sent again under its id without another agent run", async () => {
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

test("after SIGKILL in a direct delivery, the outbox sends it under the same id and the sender's retry is a duplicate", async () => {
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

test("after SIGKILL while events are coalesced, the newest is handled after the restart and the others are recorded", async () => {
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
  await assertOnce(place, rows);
  assert.equal(place.asked.get("case-1"), undefined);
  await second.kill("SIGTERM");
});
