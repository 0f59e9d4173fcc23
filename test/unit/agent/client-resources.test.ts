import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { AttachedClients } from "../../../src/agent/session/session.ts";
import { createDelegateTask } from "../../../src/agent/tools/delegate-task.ts";
import { createWriteFile } from "../../../src/agent/tools/files/write-file.ts";
import type { FileAccess, Tool, ToolContext } from "../../../src/agent/tool/tool.ts";
import { createTestAgent, testTool } from "../../harness/agent.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { workspace } from "./tools/call.ts";

const tool = (name: string, run: (context: ToolContext) => string = () => name): Tool =>
  testTool(async (_, context) => run(context), name);
const calling = (...tools: readonly string[]) => ({
  calls: tools.map((each) => ({ tool: each, input: { command: "ls" } })),
});
const files: FileAccess = { read: async () => "text", writes: () => false, write: async () => {} };

test("a session has the tools attached to it until they are detached; other sessions do not", async () => {
  const seen: (readonly string[])[] = [];
  await using agent = await createTestAgent({
    tools: [tool("own")],
    script: ({ tools, step, toolResults }) => {
      if (step === 1) return { text: toolResults.map(({ text }) => text).join() };
      seen.push(tools);
      return tools.includes("lent") ? calling("lent") : {};
    },
  });
  const { clients: hosts } = agent.deps;
  const release = hosts.attach("a", { tools: () => [tool("lent", () => "from the editor")] });
  const events = await agent.events((await agent.submit("go", { id: "a" })).runId);
  assert.equal(events.at(-1)?.data["output"], "from the editor");
  await agent.events((await agent.submit("go", { id: "b" })).runId);
  await release();
  await agent.events((await agent.submit("go", { id: "a" })).runId);
  assert.deepEqual(seen, [["own", "lent"], ["own"], ["own"]]);
});

test("an attached tool does not take the name of another", () => {
  const hosts = new AttachedClients();
  const long = "x".repeat(64);
  hosts.attach("s", { tools: () => [tool("same"), tool(long)] });
  hosts.attach("s", { tools: () => [tool("same")] });
  const names = hosts
    .of("s")
    .tools([tool("same"), tool(long)])
    .map(({ name }) => name);
  assert.deepEqual(names, ["same", long, "same_2", `${"x".repeat(62)}_2`, "same_3"]);
});

test("a turn waits for pending tools and reports the notices of its client", async () => {
  const coming = Promise.withResolvers<void>();
  let tools: readonly Tool[] = [];
  const notices = ["one is missing"];
  await using agent = await createTestAgent({
    script: (state) => ({ text: state.tools.join() }),
  });
  agent.deps.clients.attach("s", {
    tools: () => tools,
    settled: () => coming.promise,
    notices: () => notices.splice(0),
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.event(runId, "run.started");
  tools = [tool("late")];
  coming.resolve();
  const events = await agent.events(runId);
  assert.equal(events.at(-1)?.data["output"], "late");
  const told = events.filter(({ type }) => type === "run.notice");
  assert.deepEqual(
    told.map(({ data }) => data["message"]),
    ["one is missing"],
  );
});

test("a turn that waits for tools can be stopped", async () => {
  await using agent = await createTestAgent();
  agent.deps.clients.attach("s", { settled: () => new Promise(() => {}) });
  const { runId } = await agent.submit("go", { id: "s" });
  await agent.event(runId, "run.started");
  await agent.runs.stop(runId, "enough");
  assert.equal((await agent.events(runId)).at(-1)?.type, "run.cancelled");
});

test("sub-agents get what the session at the top has: tools, files and folders", async () => {
  const seen: (FileAccess | undefined)[] = [];
  await using agent = await createTestAgent({
    tools: [createDelegateTask()],
    script: ({ user, step, instructions, toolResults }) => {
      if (user === "go" && step === 0)
        return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "child" }] } }] };
      if (user === "go") return { text: toolResults[0]?.text ?? "" };
      if (step === 0) return calling("lent");
      return { text: `${toolResults[0]?.text} ${/\/lent\/folder/.exec(instructions)?.[0]}` };
    },
  });
  agent.deps.clients.attach("top", {
    tools: () => [tool("lent", (context) => (seen.push(context.files), "was lent"))],
    files,
    roots: ["/lent/folder"],
  });
  const events = await agent.events((await agent.submit("go", { id: "top" })).runId);
  assert.match(String(events.at(-1)?.data["output"]), /was lent \/lent\/folder/);
  assert.deepEqual(seen, [files]);
});

test("the last attached client provides the files, and each folder is listed once", async () => {
  const hosts = new AttachedClients();
  const other = { ...files };
  hosts.attach("s", { files, roots: ["/a", "/b"] });
  const release = hosts.attach("s", { files: other, roots: ["/b"] });
  assert.equal(hosts.of("s").files, other);
  assert.deepEqual(hosts.of("s").roots, ["/a", "/b"]);
  await release();
  assert.equal(hosts.of("s").files, files);
  assert.equal(hosts.of("other").files, undefined);
});

test("detaching twice closes once, and close waits for everything that is closing", async () => {
  const hosts = new AttachedClients();
  const gate = Promise.withResolvers<void>();
  const closed: string[] = [];
  const slow = hosts.attach("a", { close: async () => (await gate.promise, void closed.push("slow")) });
  hosts.attach("b", { close: () => Promise.reject(new Error("it broke")) });
  hosts.attach("b", { close: async () => void closed.push("quick") });
  void slow();
  void slow();
  const all = hosts.close();
  assert.equal(await Promise.race([all.then(() => "closed"), Promise.resolve("waits")]), "waits");
  gate.resolve();
  await all;
  assert.deepEqual(closed.toSorted(), ["quick", "slow"]);
});

test("the changes of a call are shown, but those of a file with secrets only after approval", async (t) => {
  const folder = workspace(t);
  for (const name of [".env", "plain.txt"]) writeFileSync(join(folder, name), "ALPHA=before\n");
  await using agent = await createTestAgent({
    // A preview may delay a call for a second; here it never takes so long.
    clock: new FakeClock(),
    tools: [createWriteFile()],
    settings: { workspace: folder },
    script: ({ user, step }) =>
      step > 0 ? {} : { calls: [{ tool: "write_file", input: { path: user, content: "after\n" } }] },
  });
  const plain = await agent.submit("plain.txt", { answerable: true });
  const told = await agent.event(plain.runId, "tool.started");
  assert.match(JSON.stringify(told.data["changes"]), /ALPHA=before/);
  const secret = await agent.submit(".env", { answerable: true });
  await agent.event(secret.runId, "approval.request");
  const started = await agent.event(secret.runId, "tool.started");
  assert.equal(started.data["changes"], undefined);
  await agent.runs.stop(secret.runId, "enough");
  await agent.events(secret.runId);
});
