import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { spawnTransport } from "../../../src/client/gateway.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { shown, startChat } from "../../unit/chat/session.ts";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";

function childOn(home: string) {
  const folder = join(home, "workspace");
  mkdirSync(folder, { recursive: true });
  const [command, ...args] = agentdCommand("rpc", "--cwd", folder);
  return spawnTransport({ command, args, env: programEnvironment({ AGENTD_HOME: home }) });
}

test("a gateway that is started on a fresh home answers, calls tools and asks for approval", async () => {
  await using place = await createHome();
  await using one = await startChat(childOn(place.home));
  one.chat.submit("run: echo from-the-tool");
  await one.answered(/^assistant: \[demo model\] terminal answered \(ok\):\n[\s\S]*from-the-tool/);
  const tool = one.state().settled.find((item) => item.kind === "tool");
  assert.ok(tool?.kind === "tool");
  assert.deepEqual([tool.name, tool.status], ["terminal", "done"]);
  assert.match(tool.output ?? "", /from-the-tool/);
  one.chat.submit("run: rm -rf /nonexistent-folder-x");
  const question = await one.asked("approval");
  assert.match(question.command, /rm -rf \/nonexistent-folder-x/);
  one.chat.answer(question.id, { kind: "approval", choice: "deny" });
  await one.answered(/^assistant: \[demo model\] terminal answered \((?!ok)/);
});

test("a file that is written shows its difference", async (t) => {
  await using place = await createHome();
  const cwd = await mkdtemp(join(tmpdir(), "agentd-written-"));
  t.after(() => rm(cwd, { recursive: true, force: true }));
  await using one = await startChat(childOn(place.home), { kind: "new", cwd });
  one.chat.submit("write notes.txt: first line");
  const question = await Promise.race([
    one.asked("approval"),
    one.answered(/^assistant: \[demo model\] write_file answered/).then(() => undefined),
  ]);
  if (question) one.chat.answer(question.id, { kind: "approval", choice: "once" });
  await one.answered(/^assistant: \[demo model\] write_file answered \(ok\)/);
  const tool = one.state().settled.find((item) => item.kind === "tool");
  assert.ok(tool?.kind === "tool");
  assert.match(tool.diff ?? "", /\+first line/);
});

test("the models of the home are listed, and one that is picked answers", async () => {
  await using place = await createHome();
  await using one = await startChat(childOn(place.home));
  one.chat.submit("/model");
  const rows = await one.until(({ picker }) => picker?.kind === "models" && !picker.isLoading && picker.rows);
  const current = rows.find(({ isCurrent }) => isCurrent);
  assert.equal(current?.id, "demo:demo");
  one.chat.pick("demo:demo");
  await one.until((state) =>
    shown(state).some((line) => line.startsWith("notice: This session now uses the model demo:demo")),
  );
});

test("a session outlives the gateway that it was in", async () => {
  await using place = await createHome();
  let ref = "";
  {
    await using one = await startChat(childOn(place.home));
    one.chat.submit("remember this");
    await one.answered(/^assistant: \[demo model\]/);
    ref = one.state().session?.id ?? "";
  }
  await using two = await startChat(childOn(place.home), { kind: "saved", ref });
  assert.equal(shown(two.state())[0], "user: remember this");
});
