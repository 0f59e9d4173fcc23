import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createAcpPlace, type AcpClient, type AcpPlace, type AcpProcess } from "../../harness/acp.ts";
import { calling, type Replies } from "../../harness/openai-server.ts";

/** A process that does not end by itself would live for as long as its tools: five minutes. */
const SOON_MS = 60_000;

/** How the process ended, within the time that is left to it. */
async function ended(agent: AcpProcess): Promise<{ readonly code: number | null; readonly signal: unknown }> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`agentd did not end: ${agent.stderr}`)), SOON_MS);
  });
  return Promise.race([agent.exited, late]).finally(() => clearTimeout(timer));
}

/** Not by the child: Deno then takes it for dead before it is. */
function kill({ child }: AcpProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(child.pid ?? 0, signal);
  } catch {
    // It has ended.
  }
}

/** Says something, then hangs. */
const hanging: Replies = () => ({ pieces: [{ text: "begun" }, { hang: true }] });

/** A command that starts another, which starts a third; their ids are in a file. */
const TREE = "(sleep 300 & echo $! >> pids; wait) & echo $$ $! >> pids; wait";
const running: Replies = ({ body }) =>
  body.messages.some(({ role }) => role === "tool")
    ? { pieces: [{ text: "done" }, { finish: "stop" }] }
    : calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: TREE }) });

const unasked = "approvals:\n  mode: yolo\n";

/** An editor whose prompt is at work, and what becomes of the prompt. */
async function atWork(place: AcpPlace): Promise<{
  readonly editor: AcpClient;
  readonly sessionId: string;
  readonly outcome: Promise<unknown>;
}> {
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const outcome = editor.prompt(sessionId, "begin").then(
    ({ stopReason }) => stopReason,
    (error: unknown) => error,
  );
  return { editor, sessionId, outcome };
}

async function treeOf(place: AcpPlace): Promise<readonly number[]> {
  for (;;) {
    const text = await readFile(join(place.folder, "pids"), "utf8").catch(() => "");
    const pids = text.split(/\s+/).filter(Boolean).map(Number);
    if (pids.length === 3) return pids;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** In containers nobody reaps orphans: the dead stay as zombies. */
async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  return stat !== undefined && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

/** Killed processes end a moment later. */
async function gone(pids: readonly number[]): Promise<void> {
  const patience = AbortSignal.timeout(60_000);
  for (const pid of pids) {
    while (await isRunning(pid)) {
      patience.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** The transcript has the prompt, and takes another one, in a new process. */
async function assertSaved(place: AcpPlace, sessionId: string): Promise<void> {
  const editor = await place.start().client();
  await editor.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers: [] });
  const texts = editor.updates("user_message_chunk", sessionId).map(({ content }) => content);
  assert.match(JSON.stringify(texts), /begin/);
}

test("an idle agent exits with code 0 when stdin closes", async () => {
  await using place = await createAcpPlace();
  const silent = place.start();
  silent.child.stdin?.end();
  assert.deepEqual(await ended(silent), { code: 0, signal: null });
  const editor = await place.start().client();
  await editor.session(place.folder);
  editor.process.child.stdin?.end();
  assert.deepEqual(await ended(editor.process), { code: 0, signal: null });
});

test("every request read before stdin closes is answered", async () => {
  await using place = await createAcpPlace();
  const agent = place.start();
  const request = (id: number, method: string, params: object) =>
    `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
  agent.write(request(0, "initialize", { protocolVersion: 1 }));
  const params = { cwd: place.folder, mcpServers: [] };
  agent.write(request(1, "session/new", params));
  await agent.answer(1);
  const asked = Array.from({ length: 20 }, (_, at) => 100 + at);
  const last = request(200, "ping", {}).trimEnd();
  const text = asked.map((id) => request(id, id % 2 ? "session/new" : "ping", params)).join("");
  agent.child.stdin?.end(`${text}${last}`);
  assert.equal((await ended(agent)).code, 0);
  const answered = agent.lines.flatMap(({ id, method }) => (method === undefined ? [id] : []));
  assert.deepEqual(
    answered.toSorted((a, b) => Number(a) - Number(b)),
    [0, 1, ...asked, 200],
  );
});

test("a prompt ends as cancelled and its transcript is saved when stdin closes", async () => {
  await using place = await createAcpPlace({ replies: hanging });
  const { editor, sessionId, outcome } = await atWork(place);
  await editor.until(() => editor.text(sessionId) || undefined);
  editor.process.child.stdin?.end();
  assert.equal(await outcome, "cancelled");
  assert.equal((await ended(editor.process)).code, 0);
  await assertSaved(place, sessionId);
});

test("a prompt ends as cancelled when stdin closes right behind it in the same write", async () => {
  await using place = await createAcpPlace({ replies: hanging });
  const agent = place.start();
  agent.send({ id: 0, method: "initialize", params: { protocolVersion: 1 } });
  agent.send({ id: 1, method: "session/new", params: { cwd: place.folder, mcpServers: [] } });
  const { sessionId } = (await agent.answer(1))["result"] as { readonly sessionId: string };
  const params = { sessionId, prompt: [{ type: "text", text: "begin" }] };
  agent.child.stdin?.end(JSON.stringify({ jsonrpc: "2.0", id: 2, method: "session/prompt", params }));
  assert.equal((await ended(agent)).code, 0);
  const answer = agent.lines.find(({ id }) => id === 2);
  assert.deepEqual(
    answer?.["result"] && (answer["result"] as { stopReason: string }).stopReason,
    "cancelled",
  );
});

test("a prompt ends as cancelled and its tool does not run when stdin closes during a permission request", async () => {
  await using place = await createAcpPlace({ replies: running, config: "approvals:\n  mode: always_ask\n" });
  const { editor, sessionId, outcome } = await atWork(place);
  await editor.until((seen) => seen.find(({ kind }) => kind === "permission"));
  editor.process.child.stdin?.end();
  assert.equal(await outcome, "cancelled");
  assert.equal((await ended(editor.process)).code, 0);
  await assert.rejects(readFile(join(place.folder, "pids")), { code: "ENOENT" });
  await assertSaved(place, sessionId);
});

test("a closed stdout stops the agent and its child processes, and the transcript is saved", async () => {
  await using place = await createAcpPlace({ replies: running, config: unasked });
  const { editor, sessionId, outcome } = await atWork(place);
  const pids = await treeOf(place);
  outcome.catch(() => {});
  editor.process.child.stdout?.destroy();
  editor.process.send({ id: "any", method: "ping" });
  assert.deepEqual(await ended(editor.process), { code: 0, signal: null });
  for (const pid of pids) assert.equal(await isRunning(pid), false, `process ${pid} is left`);
  await assertSaved(place, sessionId);
});

test("closing stdin stops the child processes of a running command", async () => {
  await using place = await createAcpPlace({ replies: running, config: unasked });
  const { editor, outcome } = await atWork(place);
  const pids = await treeOf(place);
  editor.process.child.stdin?.end();
  assert.equal(await outcome, "cancelled");
  assert.equal((await ended(editor.process)).code, 0);
  for (const pid of pids) assert.equal(await isRunning(pid), false, `process ${pid} is left`);
});

for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) {
  test(`${signal} stops the agent and its child processes, and the transcript is saved`, async () => {
    await using place = await createAcpPlace({ replies: running, config: unasked });
    const { editor, sessionId, outcome } = await atWork(place);
    const pids = await treeOf(place);
    kill(editor.process, signal);
    assert.equal(await outcome, "cancelled");
    assert.deepEqual(await ended(editor.process), { code: 0, signal: null });
    for (const pid of pids) assert.equal(await isRunning(pid), false, `process ${pid} is left`);
    await assertSaved(place, sessionId);
  });
}

test("a command that ignores every signal but SIGKILL is stopped with the agent", async () => {
  const stubborn = `trap '' TERM HUP INT; ${TREE}`;
  await using place = await createAcpPlace({
    replies: () => calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: stubborn }) }),
    config: unasked,
  });
  const { editor } = await atWork(place);
  const pids = await treeOf(place);
  kill(editor.process, "SIGTERM");
  assert.deepEqual(await ended(editor.process), { code: 0, signal: null });
  for (const pid of pids) assert.equal(await isRunning(pid), false, `process ${pid} is left`);
});

test(
  "SIGKILL of the agent stops the child processes of a running command, also without a sandbox",
  {
    skip: "Deno" in globalThis,
  },
  async () => {
    const command = JSON.stringify({ command: TREE });
    await using place = await createAcpPlace({
      replies: () => calling({ id: "call_1", name: "terminal", json: command }),
      config: `${unasked}terminal: { sandbox: "off" }\n`,
    });
    const { editor } = await atWork(place);
    const pids = await treeOf(place);
    // The agent has gone on after it started the command.
    await editor.agent.request("session/list", {});
    // As an editor ends an agent that does not answer.
    kill(editor.process, "SIGKILL");
    await ended(editor.process);
    await gone(pids);
  },
);

test("repeated signals end the process at once with code 143, and no child process remains", async () => {
  const stubborn = `trap '' TERM HUP INT; ${TREE}`;
  await using place = await createAcpPlace({
    replies: () => calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: stubborn }) }),
    config: unasked,
  });
  const { editor } = await atWork(place);
  const pids = await treeOf(place);
  // Again and again: signals that come together count as one.
  const again = setInterval(() => kill(editor.process, "SIGTERM"), 50);
  assert.deepEqual(await ended(editor.process).finally(() => clearInterval(again)), {
    code: 143,
    signal: null,
  });
  await gone(pids);
});

test("a signal before the agent is loaded ends the process with code 0", async () => {
  await using place = await createAcpPlace();
  const agent = place.start();
  agent.send({ id: 1, method: "initialize", params: { protocolVersion: 1 } });
  await agent.answer(1);
  kill(agent, "SIGTERM");
  assert.deepEqual(await ended(agent), { code: 0, signal: null });
});
