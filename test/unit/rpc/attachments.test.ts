import assert from "node:assert/strict";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { LiveSession } from "../../../src/agent/session/session.ts";
import { queueImage, queuedImages } from "../../../src/rpc/session/session.ts";
import { createTestGateway } from "../../harness/rpc-host.ts";

test("keys that may approve can attach files that require approval, but never the agent's keys", async (context) => {
  const userHome = await realpath(await mkdtemp(join(tmpdir(), "agentd-attach-")));
  context.after(() => rm(userHome, { recursive: true, force: true }));
  const [workspace, agentHome] = [join(userHome, "work"), join(userHome, ".agentd")];
  await Promise.all([mkdir(workspace), mkdir(agentHome)]);
  const [notes, secrets, keys] = [
    join(workspace, "notes.txt"),
    join(workspace, ".env"),
    join(agentHome, ".env"),
  ];
  await Promise.all([notes, secrets, keys].map((path) => writeFile(path, "A_KEY=canary-attached")));
  await using gateway = await createTestGateway({ settings: { workspace, userHome, agentHome } });
  const attach = async (scopes: readonly string[], path: string) => {
    const host = gateway.host("tester", { scopes });
    const { session_id: id } = await host.call("session.create");
    const { error } = await host.send("prompt.submit", { session_id: id, text: "look", images: [path] });
    if (!error) await host.ended();
    return error?.code;
  };
  const chat = ["chat", "read"];
  assert.equal(await attach(chat, notes), undefined);
  assert.equal(await attach(chat, secrets), 4016);
  assert.equal(await attach(chat, keys), 4016);
  assert.equal(await attach([...chat, "approvals"], secrets), undefined);
  assert.equal(await attach(["admin"], keys), 4016);
});

const TEN_MIB = 10_485_760;

test("the attachments of a prompt are limited in total, queued or sent with it", async (context) => {
  const workspace = await realpath(await mkdtemp(join(tmpdir(), "agentd-attach-")));
  context.after(() => rm(workspace, { recursive: true, force: true }));
  const live = {} as LiveSession;
  const data = "A".repeat(Math.floor((TEN_MIB * 4) / 3));
  const attachment = { type: "image", mediaType: "image/png", data } as const;
  const counts = ["a", "b", "c", "d"].map((path) => queueImage(live, { path, attachment }));
  assert.deepEqual(counts, [1, 2, 3, undefined]);
  assert.equal(queuedImages(live).length, 3);
  await writeFile(join(workspace, "a.pdf"), `%PDF-${" ".repeat(TEN_MIB - 5)}`);
  await using gateway = await createTestGateway({ settings: { workspace } });
  const host = gateway.host();
  const { session_id: id } = await host.call("session.create");
  const images = Array.from({ length: 4 }, () => "a.pdf");
  const error = await host.fails("prompt.submit", { session_id: id, text: "look", images });
  assert.deepEqual([error.code, error.data?.reason], [4018, "too_large"]);
});
