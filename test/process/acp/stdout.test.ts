import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { createAcpPlace } from "../../harness/acp.ts";
import { scriptCommand } from "../../harness/program.ts";

const noisy = join(import.meta.dirname, "../../harness/acp-noisy.ts");

test("every stdout line is a JSON-RPC object, also when code prints to the console or to stdout", async () => {
  await using place = await createAcpPlace();
  const agent = place.start({ command: scriptCommand(noisy), env: { AGENTD_HOME: place.home } });
  // Every line is parsed as it comes.
  const editor = await agent.client();
  const sessionId = await editor.session(place.folder);
  const { stopReason } = await editor.prompt(sessionId, "run: echo from a command; echo and its errors >&2");
  assert.equal(stopReason, "end_turn");
  for (const { jsonrpc } of agent.lines) assert.equal(jsonrpc, "2.0");
  assert.match(agent.stderr, /from the console/);
  assert.match(agent.stderr, /from the stream/);
  assert.doesNotMatch(JSON.stringify(agent.lines), /from the (?:console|stream)/);
  assert.match(JSON.stringify(agent.lines), /from a command/);
});

test("a client that closes standard error is served as usual", async () => {
  await using place = await createAcpPlace({ config: "log: { level: debug }\n" });
  const agent = place.start();
  const editor = await agent.client();
  agent.child.stderr?.destroy();
  const sessionId = await editor.session(place.folder);
  for (let round = 0; round < 3; round++) {
    agent.write('{"jsonrpc":"2.0","id":"nobody asked","result":{}}\n');
    assert.equal((await editor.prompt(sessionId, "run: echo hi >&2")).stopReason, "end_turn");
  }
  agent.child.stdin?.end();
  assert.deepEqual(await agent.exited, { code: 0, signal: null });
});
