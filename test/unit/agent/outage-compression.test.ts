/** The database fails while a run compresses its conversation. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { faults } from "../../harness/failing-store.ts";
import { HOW, Place } from "./outage-place.ts";

/** Makes three steps so long that the conversation is compressed before each next one. */
const longScript: Script = ({ step, user }) => {
  const [work] = /work-\w+/.exec(user) ?? [];
  if (user.startsWith("Summarise")) return { text: `Summary of ${work ?? "nothing"}` };
  if (work === undefined) return { text: `did ${user}` };
  const text = "A long answer. ".repeat(200);
  return step < 3
    ? { text, calls: [{ tool: "terminal", input: { command: `echo ${step} ${work}` } }] }
    : { text };
};

for (const fault of faults) {
  test(`whichever write of a run that compresses its conversation ${HOW[fault]}, the run ends, nothing is done twice, and the queue continues`, async (t) => {
    const compression = { threshold: 0.001, keepMessages: 2, model: undefined };
    await using place = await Place.create(t as TestContext, {
      script: longScript,
      settings: { compression },
    });
    place.writes.begin(() => undefined);
    await place.live("whole");
    const { count } = place.writes;
    const events = await place.agent.store.journal.read({ sessionId: "whole" });
    assert.ok(events.filter(({ type }) => type === "compression.completed").length > 1);
    for (let chosen = 1; chosen <= count; chosen++) {
      place.writes.begin((write) => (write === chosen ? fault : undefined));
      await place.live(`s${chosen}`);
      await place.assertWhole(`s${chosen}`);
    }
  });
}
