import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createAcpPlace } from "../../harness/acp.ts";

test("acp.trace writes every message to acp.log_file, from the first one on, without its secrets", async () => {
  await using place = await createAcpPlace({ config: "acp:\n  trace: true\n  log_file: logs/acp.log\n" });
  const editor = await place.start().client();
  const server = {
    name: "mine",
    command: "/nowhere/server",
    args: [],
    env: [{ name: "MINE", value: "hunter2hunter2" }],
  };
  await editor.agent.request("session/new", { cwd: place.folder, mcpServers: [server] });
  const file = join(place.home, "logs/acp.log");
  const text = await readFile(file, "utf8");
  const frames = text
    .split("\n")
    .filter((line) => line.includes('"frame"'))
    .map((line) => JSON.parse(line) as { readonly message: string; readonly frame: object });
  assert.match(JSON.stringify(frames[0]), /acp in.*initialize/);
  assert.match(JSON.stringify(frames[1]), /acp out.*protocolVersion/);
  assert.ok(frames.some(({ frame }) => JSON.stringify(frame).includes('"MINE"')));
  assert.doesNotMatch(text, /hunter2/);
  assert.doesNotMatch(editor.process.stderr, /hunter2/);
  assert.equal((await stat(file)).mode & 0o077, 0);
});

test("an unwritable log file is reported once, and the editor is served", async () => {
  await using place = await createAcpPlace({ config: "acp:\n  trace: true\n  log_file: config.yaml/no\n" });
  const editor = await place.start().client();
  await editor.session(place.folder);
  const { stopReason } = await editor.prompt(await editor.session(place.folder), "hello");
  assert.equal(stopReason, "end_turn");
  const { stderr } = editor.process;
  assert.equal(stderr.match(/Cannot write the log file .* \(acp\.log_file\)/g)?.length, 1);
});
