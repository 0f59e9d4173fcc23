import assert from "node:assert/strict";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { SessionInfo } from "@agentclientprotocol/sdk/unstable";
import { createAcpPlace, type AcpClient } from "../../harness/acp.ts";
import { refused, saveConversations, storeOf } from "../../harness/acp-sessions.ts";

const ids = (sessions: readonly SessionInfo[]) => sessions.map(({ sessionId }) => sessionId);

/** All pages; `between` happens before each page but the first. */
async function allPages({ agent }: AcpClient, between: () => Promise<void> = async () => {}) {
  const pages: SessionInfo[][] = [];
  for (let cursor: string | undefined; ;) {
    const page = await agent.request("session/list", cursor === undefined ? {} : { cursor });
    pages.push(page.sessions);
    if (page.nextCursor == null) return pages;
    cursor = page.nextCursor;
    await between();
  }
}

test("session/list pages through 120 sessions without gap or repeat during updates and refuses a bad cursor", async () => {
  await using place = await createAcpPlace();
  const client = await place.start().client();
  assert.deepEqual(await client.agent.request("session/list", {}), { sessions: [] });
  await using store = await storeOf(place);
  const names = Array.from({ length: 120 }, (_, index) => `s${String(index).padStart(3, "0")}`);
  // Some of the same moment: their ids tell them apart.
  const at = (index: number) => ({ updated_at: 1_000_000 - Math.floor(index / 7) });
  await saveConversations(
    store,
    names.map((id, index) => ({ id, cwd: place.folder, set: at(index) })),
  );
  const still = await allPages(client);
  assert.deepEqual(
    still.map(({ length }) => length),
    [50, 50, 20],
  );
  const order = still.flat().map(({ sessionId, updatedAt }) => `${updatedAt} ${sessionId}`);
  assert.deepEqual(order, order.toSorted().toReversed());

  const updated = ["s110", "s003", "s060"];
  const pages = await allPages(client, async () => {
    for (const id of updated) {
      await store.write((tx) => tx.update("sessions", { id }, { updated_at: tx.nowMs }));
    }
  });
  const listed = ids(pages.flat());
  assert.equal(listed.length, 120);
  assert.deepEqual(listed.toSorted(), names);
  for (const { sessionId, cwd, title, updatedAt } of pages.flat()) {
    assert.equal(cwd, place.folder);
    assert.equal(title, `prompt of ${sessionId}`);
    assert.ok(Number.isFinite(Date.parse(updatedAt ?? "")));
  }
  const bad = ["x", "e30", Buffer.from('["a",1,"b"]').toString("base64url"), "", "W10"];
  for (const cursor of bad) {
    const { data } = await refused(client.agent.request("session/list", { cursor }), -32_602, cursor);
    assert.deepEqual(data, { param: "cursor" });
  }
});

test("session/list filters by cwd through links and lists only prompted or open sessions of the default sources", async () => {
  await using place = await createAcpPlace();
  const [other, link] = [join(place.base, "other"), join(place.base, "link")];
  await mkdir(other);
  await symlink(place.folder, link);
  await using store = await storeOf(place);
  await saveConversations(store, [
    { id: "real", cwd: place.folder },
    { id: "link", cwd: link, source: "tui" },
    { id: "other", cwd: other, source: "cli" },
    { id: "http", cwd: place.folder, source: "http" },
    { id: "subagent", cwd: place.folder, source: "subagent" },
    { id: "theirs", cwd: place.folder, owner: "somebody" },
    { id: "empty", cwd: place.folder, messages: [] },
    { id: "gone", cwd: join(place.base, "gone") },
  ]);
  const client = await place.start().client();
  const list = async (cwd?: string) =>
    ids((await client.agent.request("session/list", cwd === undefined ? {} : { cwd })).sessions);
  assert.deepEqual(await list(), ["real", "link", "other", "gone"]);
  assert.deepEqual(await list(place.folder), ["real", "link"]);
  assert.deepEqual(await list(link), ["real", "link"]);
  assert.deepEqual(await list(`${place.folder}/`), ["real", "link"]);
  assert.deepEqual(await list(join(place.base, "gone")), ["gone"]);
  assert.deepEqual(await list("/nowhere"), []);
  await refused(list("relative"), -32_602);
  const open = await client.session(link);
  assert.deepEqual(await list(place.folder), [open, "real", "link"]);
  assert.deepEqual(await list(other), ["other"]);
  await client.agent.request("session/close", { sessionId: open });
  assert.deepEqual(await list(link), ["real", "link"]);
});

test("acp.list_sources selects the sources that session/list shows", async () => {
  await using place = await createAcpPlace({ config: "acp:\n  list_sources: [http]\n" });
  {
    await using store = await storeOf(place);
    await saveConversations(store, [
      { id: "acp", cwd: place.folder },
      { id: "http", cwd: place.folder, source: "http" },
    ]);
  }
  const client = await place.start().client();
  assert.deepEqual(ids((await client.agent.request("session/list", {})).sessions), ["http"]);
});
