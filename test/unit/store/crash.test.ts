import assert from "node:assert/strict";
import { test } from "node:test";
import { storedChanges } from "../../harness/changes.ts";
import { openTestStore } from "../../harness/store.ts";
import { startChild } from "./child.ts";
import { seed } from "./rows.ts";

test("a kill -9 after the commit leaves the event in the feed and before it leaves none, as with all rows of a group", async (t) => {
  for (const round of [1, 2, 3]) {
    const { store, url } = await openTestStore(t);
    const { sessionId, runId } = await seed(store);
    const child = startChild("./child-writer.ts", [url, sessionId, runId]);
    t.after(async () => void child.process.kill("SIGKILL"));
    const acknowledged: { seq: number; title: string }[] = [];
    for await (const line of child.lines) {
      acknowledged.push(line as { seq: number; title: string });
      if (acknowledged.length === 150 * round) child.process.kill("SIGKILL");
    }
    assert.equal(await child.exit, null, "a signal ended it");

    const events = await store.journal.read({ sessionId }, { limit: 100_000 });
    const sessions = await store.read.selectFrom("sessions").select("title").execute();
    const titles = new Set(sessions.map((row) => row.title));
    for (const { seq, title } of acknowledged) {
      assert.equal(events[seq - 1]?.seq, seq);
      assert.ok(titles.has(title));
    }
    // Each work writes one event and one session: what was committed without an answer is whole as well.
    assert.equal(titles.size - 1, events.length);
    const refs = (await storedChanges(store)).map(({ ref }) => ref);
    assert.deepEqual(
      new Set(refs),
      new Set([...titles].filter((title) => title !== null && /^t\d/.test(title))),
    );
    const session = await store.write((tx) => tx.find("sessions", { id: sessionId }));
    assert.equal(session?.last_seq, events.length);
  }
});
