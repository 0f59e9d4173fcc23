import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { forgetSecrets } from "../../../src/base/observe.ts";
import type { ChatMachine } from "../../../src/client/conversation/actions.ts";
import { createChatMachine } from "../../../src/cli/chat/machine.ts";
import { startTestService } from "../../harness/service.ts";
import { socketOf, startChat } from "./session.ts";

interface Place {
  readonly home: string;
  readonly file: string;
  /** The machine of another chat at the same home. */
  machine(): ChatMachine;
}

async function openHome(t: TestContext): Promise<Place> {
  const home = await mkdtemp(join(tmpdir(), "agentd-history-"));
  t.after(async () => {
    forgetSecrets();
    await rm(home, { recursive: true, force: true });
  });
  await chmod(home, 0o700);
  return {
    home,
    file: join(home, "chat-history"),
    machine: () => createChatMachine({ env: {}, userHome: home, home }),
  };
}

test("a later chat finds the prompts of earlier ones, each once and newest last", async (t) => {
  const { machine, file } = await openHome(t);
  const first = machine();
  assert.deepEqual(await first.loadHistory(), []);
  for (const prompt of ["one", "two\nlines", "one"]) await first.keepPrompt(prompt);
  assert.deepEqual(await machine().loadHistory(), ["two\nlines", "one"]);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
});

test("prompts of two chats at once are all kept", async (t) => {
  const { machine } = await openHome(t);
  const [a, b] = [machine(), machine()];
  await Promise.all([1, 2, 3, 4].flatMap((n) => [a.keepPrompt(`a${n}`), b.keepPrompt(`b${n}`)]));
  const kept = await machine().loadHistory();
  assert.deepEqual(kept.toSorted(), ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"]);
});

test("a prompt that contains a secret of the home or looks like a credential is not kept", async (t) => {
  const { machine, home, file } = await openHome(t);
  await writeFile(join(home, ".env"), "OPENAI_API_KEY=canary-value-of-a-key\n", { mode: 0o600 });
  const chat = machine();
  await chat.keepPrompt("use canary-value-of-a-key for it");
  await chat.keepPrompt(`my token is ghp_${"a1B2".repeat(9)}`);
  await chat.keepPrompt("harmless");
  assert.deepEqual(await machine().loadHistory(), ["harmless"]);
  assert.doesNotMatch(await readFile(file, "utf8"), /canary|ghp_/);
});

test("the history keeps the newest 1000 prompts, and no very long one", async (t) => {
  const { machine, file } = await openHome(t);
  const lines = Array.from({ length: 1_000 }, (_, index) => JSON.stringify(`prompt ${index}`));
  await writeFile(file, `${lines.join("\n")}\nnot JSON\n`);
  const chat = machine();
  await chat.keepPrompt("x".repeat(10_001));
  await chat.keepPrompt("the newest");
  const kept = await chat.loadHistory();
  assert.equal(kept.length, 1_000);
  assert.deepEqual([kept[0], kept.at(-1)], ["prompt 1", "the newest"]);
});

test("the history file stays small with long prompts", async (t) => {
  const { machine, file } = await openHome(t);
  const lines = Array.from({ length: 60 }, (_, index) => JSON.stringify(`${index} ${"y".repeat(9_000)}`));
  await writeFile(file, `${lines.join("\n")}\n`);
  await machine().keepPrompt("the newest");
  assert.ok((await stat(file)).size < 300_000);
  assert.equal((await machine().loadHistory()).at(-1), "the newest");
});

test("a search that was opened before the earlier prompts were read shows them when they come", async (t) => {
  const { machine } = await openHome(t);
  await machine().keepPrompt("from yesterday");
  await using service = await startTestService({});
  await using one = await startChat(socketOf(service), { kind: "new" }, () => {}, machine());
  one.chat.openPicker("history");
  await one.chat.loadHistory();
  const { picker } = one.state();
  assert.deepEqual(picker?.kind === "history" && picker.rows.map(({ prompt }) => prompt), ["from yesterday"]);
});

test("the up key and the search know the prompts of earlier chats, and a found prompt fills the composer", async (t) => {
  const { machine } = await openHome(t);
  await machine().keepPrompt("from yesterday");
  await using service = await startTestService({ script: ({ user }) => ({ text: `You said ${user}` }) });
  await using one = await startChat(socketOf(service), { kind: "new" }, () => {}, machine());
  await one.chat.loadHistory();
  one.chat.submit("today");
  await one.answered("assistant: You said today");
  assert.deepEqual(one.state().composer.history, ["from yesterday", "today"]);
  one.chat.openPicker("history");
  const { picker } = one.state();
  assert.deepEqual(picker?.kind === "history" && picker.rows.map(({ prompt }) => prompt), [
    "today",
    "from yesterday",
  ]);
  one.chat.pick(picker?.rows[1]?.id ?? "");
  assert.equal(one.state().composer.prefill?.text, "from yesterday");
  one.chat.submit("/new");
  await one.until(({ settled }) => settled.length === 0);
  assert.deepEqual(one.state().composer.history, ["from yesterday", "today", "/new"]);
  await one.chat.kept();
  const kept = await machine().loadHistory();
  assert.ok(kept.includes("today"), kept.join());
});
