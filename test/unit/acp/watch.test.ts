import assert from "node:assert/strict";
import { test } from "node:test";
import type { SessionUpdate } from "@agentclientprotocol/sdk/unstable";
import { readFeatures, type AcpConnection, AcpSession } from "../../../src/acp/wire/connection.ts";
import { watchSession } from "../../../src/acp/session/options.ts";
import { saveSession } from "../../../src/agent/session/sessions.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { Store } from "../../../src/store/store.ts";
import { createTestAgent, type TestAgent } from "../../harness/agent.ts";

const OWNER = "tester";
const seed = { source: "acp", cwd: "/" };

/** A client that has the session open, and what it was told, each by its kind. */
function watcher(agent: TestAgent, store: Store = agent.store) {
  const clock = new FakeClock();
  const told: SessionUpdate[] = [];
  const waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  const notify = async (_: string, { update }: { readonly update: SessionUpdate }) => {
    told.push(update);
    for (const { count, resolve } of waiting) if (told.length >= count) resolve();
  };
  const { log } = agent.deps;
  const deps = { store, agent: agent.core, clock, log, owner: OWNER };
  const connection = {
    client: { notify },
    features: readFeatures({}),
    disconnected: new AbortController().signal,
    deps: async () => deps,
  };
  const session = new AcpSession({ id: "s", seed, openedAtMs: 0 });
  const toldOf = async (count: number) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push({ count, resolve });
    if (told.length < count) await promise;
    return told.map(({ sessionUpdate }) => sessionUpdate);
  };
  return {
    clock,
    told,
    toldOf,
    session,
    watch: () => watchSession(connection as unknown as AcpConnection, session),
  };
}

test("only changes after the start are reported, each once", async () => {
  await using agent = await createTestAgent();
  await agent.events((await agent.submit("hello", { id: "s" })).runId);
  await agent.core.sessions.choose("s", OWNER, { mode: "plan" });
  const { watch, toldOf, told, session } = watcher(agent);
  await watch();
  await agent.core.chooseEffort("s", OWNER, "high");
  assert.deepEqual(await toldOf(1), ["config_option_update"]);
  await agent.core.sessions.rename("s", OWNER, "A name");
  await toldOf(2);
  const [, info] = told;
  assert.ok(info?.sessionUpdate === "session_info_update" && info.title === "A name");
  await agent.core.sessions.move("s", OWNER, "/tmp");
  await agent.core.sessions.choose("s", OWNER, { mode: "ask" });
  assert.deepEqual((await toldOf(4)).slice(2), ["config_option_update", "current_mode_update"]);
  session.close();
});

test("a session saved later is watched, and a closed one is not", async () => {
  await using agent = await createTestAgent();
  const { watch, toldOf, told, session } = watcher(agent);
  await watch();
  await saveSession(agent.store, { id: "s", owner: OWNER, seed });
  await agent.core.sessions.choose("s", OWNER, { yolo: true });
  await toldOf(2);
  session.close();
  const other = watcher(agent);
  await other.watch();
  await agent.core.sessions.choose("s", OWNER, { yolo: false });
  await other.toldOf(2);
  assert.equal(told.length, 2);
  other.session.close();
});

test("changes that arrive together are reported once with their final values", async () => {
  await using agent = await createTestAgent();
  await saveSession(agent.store, { id: "s", owner: OWNER, seed });
  const held = Promise.withResolvers<void>();
  let isHeld = true;
  const find: Store["find"] = async (table, key) => {
    if (isHeld && told.length > 0) await held.promise;
    return agent.store.find(table, key);
  };
  const { watch, toldOf, told, session } = watcher(agent, { ...agent.store, find });
  await watch();
  await agent.core.sessions.choose("s", OWNER, { mode: "dont_ask" });
  await toldOf(2);
  // The first of many is being told while the rest comes.
  for (const mode of ["plan", "ask", "accept_edits", "plan", "accept_edits"] as const) {
    await agent.core.sessions.choose("s", OWNER, { mode });
  }
  isHeld = false;
  held.resolve();
  await agent.core.sessions.rename("s", OWNER, "The last");
  while (!told.some((update) => update.sessionUpdate === "session_info_update"))
    await toldOf(told.length + 1);
  const kinds = await toldOf(1);
  assert.ok(kinds.filter((kind) => kind === "config_option_update").length <= 3, kinds.join());
  const mode = told.findLast((update) => update.sessionUpdate === "current_mode_update");
  assert.ok(mode?.sessionUpdate === "current_mode_update" && mode.currentModeId === "accept_edits");
  session.close();
});

test("a temporary store failure loses no change", async () => {
  await using agent = await createTestAgent();
  await saveSession(agent.store, { id: "s", owner: OWNER, seed });
  let failures = 2;
  const failed = Promise.withResolvers<void>();
  const journal: Store["journal"] = {
    append: (...args) => agent.store.journal.append(...args),
    appendStep: (...args) => agent.store.journal.appendStep(...args),
    end: (...args) => agent.store.journal.end(...args),
    appendAll: (...args) => agent.store.journal.appendAll(...args),
    begin: (...args) => agent.store.journal.begin(...args),
    read: (...args) => agent.store.journal.read(...args),
    listen: (...args) => agent.store.journal.listen(...args),
    follow: (...args) => {
      if (failures === 0) return agent.store.journal.follow(...args);
      failures -= 1;
      if (failures === 0) failed.resolve();
      throw new Error("the disk is away");
    },
  };
  const find: Store["find"] = (table, key) => agent.store.find(table, key);
  const { watch, toldOf, clock, session } = watcher(agent, { ...agent.store, find, journal });
  await watch();
  await agent.core.sessions.choose("s", OWNER, { mode: "plan" });
  clock.tick(500);
  await failed.promise;
  await new Promise((resolve) => setImmediate(resolve));
  clock.tick(1_000);
  assert.deepEqual(await toldOf(2), ["config_option_update", "current_mode_update"]);
  session.close();
});
