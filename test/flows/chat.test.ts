/** The first flow from end to end: a chat over HTTP, the demo model, the real tools, a real workspace. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createScriptedEngine, demoScript } from "../../src/agent/engines/scripted.ts";
import { systemClock } from "../../src/base/time.ts";
import { registerSecret } from "../../src/base/observe.ts";
import { startTestService, type TestService } from "../harness/service.ts";

const demo = () => startTestService({ engine: createScriptedEngine(demoScript, { clock: systemClock }) });

interface Said {
  readonly text: string;
  readonly runId: string;
}

async function say(service: TestService, content: string): Promise<Said> {
  const body = { messages: [{ role: "user", content }], agent: { approval_mode: "deny" } };
  const response = await service.chat(body, { headers: { "x-agent-session-id": "flow" } });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return {
    text: answer.choices[0].message.content,
    runId: response.headers.get("x-agent-run-id")!,
  };
}

test("a chat writes a file, reads it, searches it and runs a command on it", async () => {
  await using service = await demo();
  const wrote = await say(service, "write notes.txt: the quick brown fox");
  assert.match(wrote.text, /write_file answered \(ok\)/);
  assert.equal(await readFile(join(service.workspace, "notes.txt"), "utf8"), "the quick brown fox");
  assert.match((await say(service, "read notes.txt")).text, /the quick brown fox/);
  assert.match((await say(service, "search quick")).text, /notes\.txt/);
  const ran = await say(service, "run: wc -w notes.txt");
  assert.match(ran.text, /terminal answered \(ok\)[\s\S]*\b4\b/);
  const run = await (await service.request(`/v1/runs/${ran.runId}`)).json();
  assert.equal(run.status, "completed");
  assert.equal(run.usage.tool_calls, 1);
  const events = await (await service.request(`/v1/runs/${ran.runId}/events`)).text();
  assert.match(events, /event: tool\.started[\s\S]*event: tool\.completed[\s\S]*event: run\.completed/);
});

test("a destructive command is denied with its reason, and nothing is destroyed", async () => {
  await using service = await demo();
  await writeFile(join(service.workspace, "precious.txt"), "keep me");
  for (const command of ["rm -rf precious.txt", "rm -rf / --no-preserve-root"]) {
    const { text } = await say(service, `run: ${command}`);
    assert.match(text, /terminal answered \(denied\):\n.{20,}/);
  }
  assert.equal(await readFile(join(service.workspace, "precious.txt"), "utf8"), "keep me");
});

test("secrets of the environment and of .env files reach no event, message, log or answer", async () => {
  const planted = {
    env: "planted-env-secret-4711",
    known: "planted-known-secret-4712",
    file: "planted-file-secret-4713",
  };
  process.env["AGENTD_TEST_PLANTED_KEY"] = planted.env;
  registerSecret(planted.known);
  try {
    await using service = await demo();
    await writeFile(join(service.workspace, ".env"), `TOKEN=${planted.file}\n`);
    await writeFile(join(service.workspace, "leak.txt"), `key is ${planted.known}\n`);
    const answers: string[] = [];
    for (const content of [
      "run: env",
      "run: echo $AGENTD_TEST_PLANTED_KEY",
      "run: cat .env",
      "read .env",
      "search planted",
      "read leak.txt",
      "run: cat leak.txt",
    ]) {
      const { text, runId } = await say(service, content);
      answers.push(text, await (await service.request(`/v1/runs/${runId}/events`)).text());
    }
    const { read } = service.service.store;
    const kept = [
      ...(await read.selectFrom("messages").selectAll().execute()),
      ...(await read.selectFrom("events").selectAll().execute()),
      ...(await read.selectFrom("runs").selectAll().execute()),
    ];
    const everything = [...answers, ...service.logLines, JSON.stringify(kept)].join("\n");
    for (const [name, secret] of Object.entries(planted)) {
      const at = everything.indexOf(secret);
      assert.equal(at, -1, `${name}: ${everything.slice(Math.max(0, at - 300), at + 60)}`);
    }
  } finally {
    delete process.env["AGENTD_TEST_PLANTED_KEY"];
  }
});
