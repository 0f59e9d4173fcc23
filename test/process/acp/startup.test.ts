import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createAcpPlace, type AcpProcess } from "../../harness/acp.ts";

/** Nothing that is there before: the home is to be made, and whoever looks for the network finds nobody. */
const BARE = {
  http_proxy: "http://127.0.0.1:9",
  https_proxy: "http://127.0.0.1:9",
  OPENAI_API_KEY: "",
  ANTHROPIC_API_KEY: "",
};

interface Hello {
  readonly protocolVersion: number;
  readonly agentInfo: { readonly name: string; readonly version: string };
  readonly agentCapabilities: object;
  readonly authMethods: readonly { readonly id: string }[];
}

async function initialize(agent: AcpProcess, id: number, params: object): Promise<Hello> {
  agent.send({ id, method: "initialize", params });
  const answer = await agent.answer(id);
  assert.ok(answer["result"], JSON.stringify(answer));
  return answer["result"] as Hello;
}

test("a cold initialize answers without a home or a configuration", async () => {
  await using place = await createAcpPlace();
  const agent = place.start({ env: { ...BARE, AGENTD_HOME: join(place.base, "none/yet") } });
  const hello = await initialize(agent, 1, { protocolVersion: 1, clientCapabilities: {} });
  assert.equal(hello.protocolVersion, 1);
  assert.equal(hello.agentInfo.name, "agentd");
});

test("initialize answers before the home is read or created", async () => {
  await using place = await createAcpPlace();
  const home = join(place.base, "a-file");
  await writeFile(home, "no folder can be here");
  const agent = place.start({ env: { ...BARE, AGENTD_HOME: join(home, "home") } });
  const hello = await initialize(agent, 1, { protocolVersion: 1 });
  assert.ok(hello.authMethods.length > 0);
  agent.send({ id: 2, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  const { error } = (await agent.answer(2)) as { readonly error: { readonly message: string } };
  assert.match(error.message, /a-file/);
  assert.equal(agent.child.exitCode, null);
});

test("session/new reports an invalid configuration and works once it is corrected", async () => {
  await using place = await createAcpPlace();
  const file = join(place.home, "config.yaml");
  await writeFile(file, "model:\n  detect_local: nonsense\n");
  const agent = place.start();
  await initialize(agent, 1, { protocolVersion: 1 });
  const params = { cwd: place.folder, mcpServers: [] };
  agent.send({ id: 2, method: "session/new", params });
  const { error } = (await agent.answer(2)) as { readonly error: { readonly message: string } };
  assert.match(error.message, /model\.detect_local/);
  await writeFile(file, "model:\n  detect_local: false\n");
  agent.send({ id: 3, method: "session/new", params });
  assert.ok((await agent.answer(3))["result"]);
});

test("initialize answers version 1 for any version, tolerates odd capabilities and may be repeated", async () => {
  await using place = await createAcpPlace();
  const agent = place.start();
  const odd = {
    fs: "bad",
    terminal: 7,
    auth: [],
    elicitation: "form",
    session: { configOptions: 1, notices: true },
    _meta: { terminal_output: "yes", "terminal-auth": 1 },
    ofTheFuture: { anything: null },
  };
  const first = await initialize(agent, 1, { protocolVersion: 99, clientCapabilities: odd });
  assert.equal(first.protocolVersion, 1);
  for (const [at, params] of [
    { protocolVersion: 1 },
    { protocolVersion: 0, clientCapabilities: null },
    { protocolVersion: 1, clientCapabilities: { auth: { terminal: true } }, clientInfo: null },
  ].entries()) {
    const again = await initialize(agent, 10 + at, params);
    assert.equal(again.protocolVersion, 1);
    assert.deepEqual(again.agentCapabilities, first.agentCapabilities);
  }
  agent.send({ id: 99, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  assert.ok((await agent.answer(99))["result"]);
  assert.ok((await readdir(place.home)).length > 0);
});
