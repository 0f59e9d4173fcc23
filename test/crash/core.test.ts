/** SIGKILL at each point of a turn: what is there after the next start. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { Message } from "../../src/agent/engine.ts";
import { programEnvironment, scriptCommand } from "../harness/program.ts";
import { createTestDatabase } from "../harness/store.ts";
import { unnamed } from "../harness/unnamed.ts";

const child = join(import.meta.dirname, "core-child.ts");

interface Left {
  readonly interrupted: readonly string[];
  readonly runs: readonly { kind: string; status: string }[];
  readonly questions: readonly { kind: string; status: string }[];
  readonly transcript: readonly Message[];
  readonly ends: readonly { pending_steer?: readonly string[] }[];
  readonly summarySeq: number | null;
  readonly answer: string;
}

/** Starts the child and resolves with what it says; it is killed then. */
function runChild(args: readonly string[]): Promise<unknown> {
  const [file, ...words] = scriptCommand(child, ...args);
  const running = spawn(file, words, { env: programEnvironment(), stdio: "pipe" });
  let [out, err] = ["", ""];
  running.stderr.on("data", (bytes: Uint8Array) => (err += bytes.toString()));
  return new Promise((resolve, reject) => {
    running.stdout.on("data", (bytes: Uint8Array) => {
      out += bytes.toString();
      if (out.includes("\n")) process.kill(running.pid!, "SIGKILL");
    });
    running.once("close", () => {
      const line = out.split("\n")[0] ?? "";
      if (line === "") reject(new Error(`the child said nothing: ${err}`));
      else resolve(JSON.parse(line));
    });
  });
}

async function crash(scenario: string): Promise<{ left: Left; marks: readonly string[] }> {
  const home = await mkdtemp(join(tmpdir(), "agentd-crash-"));
  const database = await createTestDatabase();
  const marks = join(home, "marks");
  try {
    await writeFile(marks, "");
    assert.equal(await runChild([scenario, home, database.url, marks]), "there");
    const left = (await runChild(["after", home, database.url, marks])) as Left;
    const lines = (await readFile(marks, "utf8")).split("\n").filter((line) => line !== "");
    return { left, marks: lines };
  } finally {
    await database.drop();
    await rm(home, { recursive: true, force: true });
  }
}

function assertGoesOn(left: Left): void {
  assert.equal(left.answer, "accepted", "a strict provider takes the session's next prompt");
  assert.ok(left.questions.every(({ status }) => status !== "open"));
  assert.ok(left.runs.every(({ status }) => ["completed", "interrupted"].includes(status)));
}

const said = (left: Left) => JSON.stringify(left.transcript);

test("SIGKILL in a model stream: what was said is there, marked as cut; the queue continues", async () => {
  const { left } = await crash("stream");
  assertGoesOn(left);
  assert.deepEqual(left.interrupted, ["run"]);
  const cut = left.transcript.find((message) => message.role === "assistant" && message.interrupted);
  assert.deepEqual(unnamed(cut), {
    role: "assistant",
    parts: [{ type: "text", text: "half an answer" }],
    interrupted: true,
  });
  assert.match(said(left), /queued behind/);
});

test("SIGKILL in a tool: no tool runs twice, and the model learns that the outcome is not known", async () => {
  const { left, marks } = await crash("tool");
  assertGoesOn(left);
  assert.deepEqual(marks, ["once", "hanging"]);
  assert.match(said(left), /marked once/);
  assert.match(said(left), /Whether it took effect is unknown/);
});

test("SIGKILL in an open approval: the question is closed, and its tool did not run", async () => {
  const { left } = await crash("approval");
  assertGoesOn(left);
  assert.deepEqual(left.questions, [{ kind: "approval", status: "cancelled" }]);
});

test("SIGKILL with a sub-agent at work: it and its parent are interrupted, neither runs again", async () => {
  const { left, marks } = await crash("subagent");
  assertGoesOn(left);
  assert.deepEqual(marks, ["in the child"]);
  assert.deepEqual(
    left.runs.filter(({ status }) => status === "interrupted").map(({ kind }) => kind),
    ["run", "subagent"],
  );
});

test("SIGKILL in a compression: nothing was replaced, all messages are there", async () => {
  const { left } = await crash("compression");
  assertGoesOn(left);
  assert.deepEqual(left.interrupted, ["compression"]);
  assert.equal(left.summarySeq, null);
  assert.equal(left.transcript.filter(({ role }) => role === "user").length, 13);
});

test("SIGKILL after steering was accepted: the text is handed back", async () => {
  const { left } = await crash("steer");
  assertGoesOn(left);
  assert.deepEqual(left.ends[0]?.pending_steer, ["and mind the gap"]);
});
