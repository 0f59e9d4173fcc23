/** Which folders a key may work in, and look into, over the gateway. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { callsOnce, testTool } from "../../harness/agent.ts";
import { connectSocket, type Json, type RpcHost } from "../../harness/rpc.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";
import { openSession, takeTurn } from "./scenario.ts";

const CHAT = "chat-key-0123456789abcdef";
const keys = [
  { key: KEY, name: "boss", scopes: ["admin"] },
  { key: CHAT, name: "guest", scopes: ["chat", "read"] },
];
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** A service whose configuration names one further root, and folders in and outside of the roots. */
async function places(context: TestContext) {
  const outside = await realpath(await mkdtemp(join(tmpdir(), "agentd-outside-")));
  const root = await realpath(await mkdtemp(join(tmpdir(), "agentd-root-")));
  context.after(() => Promise.all([outside, root].map((each) => rm(each, { recursive: true, force: true }))));
  await mkdir(join(root, "project"));
  await symlink(outside, join(root, "way-out"));
  await symlink(root, join(outside, "way-in"));
  return { outside, root };
}

async function connectAs(service: TestService, key: string): Promise<RpcHost> {
  return connectSocket(service, `/api/ws?token=${key}`);
}

function assertNeedsAdmin(error: Json, what: string): void {
  assert.equal(error?.code, -32003, what);
  assert.deepEqual(error.data, { param: "cwd", reason: "insufficient_scope", retryable: false }, what);
  assert.match(error.message, /"guest" has no scope "admin".*agent\.workspace_roots/, what);
}

test("a key without the scope admin works only in the workspace and the configured roots", async (context) => {
  const { outside, root } = await places(context);
  // As a person may write them: relative, and by way of a link.
  const config = { agent: { workspace_roots: [join(outside, "way-in")] } };
  await using service = await startTestService({ keys, config });
  const { workspace } = service;
  await mkdir(join(workspace, "sub"));
  await symlink("/", join(workspace, "link"));
  await using guest = await connectAs(service, CHAT);
  await using boss = await connectAs(service, KEY);
  const refused = [
    "/",
    outside,
    join(workspace, ".."),
    `${workspace}/sub/../..`,
    join(workspace, "link"),
    join(workspace, "link", "etc"),
    join(root, "way-out"),
    `${root}/project/../..`,
  ];
  for (const cwd of refused) {
    const { error } = await guest.call("session.create", { cwd });
    assertNeedsAdmin(error, cwd);
    assert.equal((await boss.result("session.create", { cwd })).info.cwd, await realpath(cwd), cwd);
  }
  assert.deepEqual((await guest.result("session.active_list")).sessions, [], "nothing was opened");
  const allowed = [workspace, join(workspace, "sub"), root, join(root, "project"), join(outside, "way-in")];
  for (const cwd of allowed) {
    assert.equal((await guest.result("session.create", { cwd })).info.cwd, await realpath(cwd), cwd);
  }
  for (const cwd of ["/not/there", "relative"]) {
    assert.equal((await guest.result("session.create", { cwd })).info.cwd, workspace, cwd);
  }
});

test("a ticket allows no folder that its key may not use", async () => {
  await using service = await startTestService({ keys });
  const headers = { authorization: `Bearer ${CHAT}` };
  const answer = await service.request("/api/auth/ws-ticket", { method: "POST", headers });
  await using guest = await connectSocket(service, `/api/ws?ticket=${(await answer.json()).ticket}`);
  assertNeedsAdmin((await guest.call("session.create", { cwd: "/" })).error, "ticket");
});

test("no gateway method moves a session of a key without the scope admin out of the roots", async (context) => {
  const { outside } = await places(context);
  await using service = await startTestService({ keys });
  await using guest = await connectAs(service, CHAT);
  const session_id = await openSession(guest);
  await takeTurn(guest, session_id, "hello");
  for (const key of ["cwd", "workdir", "terminal.cwd"]) {
    await guest.error("config.set", { key, value: outside, session_id }, -32003);
  }
  const opened = [
    (await guest.result("session.branch", { session_id })).session_id,
    (await guest.result("command.dispatch", { command: "/branch", session_id })).session_id,
    (await guest.result("session.create", { parent_session_id: session_id })).session_id,
    (await guest.result("command.dispatch", { command: "/new", session_id })).session_id,
    (await guest.result("session.resume", { session_id, cwd: outside })).session_id,
    (await guest.result("session.activate", { session_id, cwd: outside })).session_id,
  ];
  for (const id of opened) {
    const { state } = await guest.result("session.status", { session_id: id });
    assert.equal(state.cwd, service.workspace);
  }
  const about = await guest.result("config.get", { key: "project", cwd: outside });
  assert.equal(about.cwd, service.workspace, "its content is not revealed either");
});

test("a key without the scope admin sees only the folders of its sessions", async (context) => {
  const { outside, root } = await places(context);
  await using service = await startTestService({ keys, config: { agent: { workspace_roots: [root] } } });
  const { workspace, home } = service;
  assert.equal(home, workspace);
  await writeFile(join(outside, "pic.png"), Buffer.from(PNG, "base64"));
  await writeFile(join(root, "pic.png"), Buffer.from(PNG, "base64"));
  await using guest = await connectAs(service, CHAT);
  const session_id = await openSession(guest, { cwd: join(root, "project") });
  for (const word of ["/", `${outside}/`, "../way-out/", `@${tmpdir()}/`, "/etc/"]) {
    assert.deepEqual((await guest.result("complete.path", { word, session_id })).items, [], word);
  }
  const shown = await guest.result("complete.path", { word: "../pi", session_id });
  assert.deepEqual(
    shown.items.map(({ text }: Json) => text),
    ["../pic.png"],
  );
  for (const path of [join(outside, "pic.png"), join(root, "way-out", "pic.png"), "../way-out/pic.png"]) {
    await guest.error("image.attach", { session_id, path }, 4030);
    assert.deepEqual(
      await guest.result("input.detect_drop", { session_id, text: path.replace(/^\.\./, `${root}`) }),
      {
        matched: false,
      },
    );
    await guest.error("prompt.submit", { session_id, text: "look", images: [path] }, 4016);
  }
  const clip = await guest.result("clipboard.paste", { session_id });
  assert.match(clip.message, /cannot read your clipboard/);
  assert.equal((await guest.result("image.attach", { session_id, path: "../pic.png" })).attached, true);
});

test("writes outside the folder by a session of a key without the scope admin wait for approval", async () => {
  const script = callsOnce("mkdir /opt/made");
  // Nothing is really made.
  const tool = testTool(async () => "ran");
  await using service = await startTestService({ keys, script, tools: [tool] });
  await using guest = await connectAs(service, CHAT);
  assertNeedsAdmin((await guest.call("session.create", { cwd: "/" })).error, "/");
  const session_id = await openSession(guest);
  await guest.result("prompt.submit", { session_id, text: "make it" });
  const asked = await guest.event("approval.request");
  assert.match(asked.payload.command, /mkdir/);
  await guest.result("session.interrupt", { session_id });
});
