import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runShell } from "../../../src/client/conversation/commands.ts";
import type { GatewayCall } from "../../../src/client/conversation/gateway.ts";
import type { ChatMachine } from "../../../src/client/conversation/actions.ts";
import { complete } from "../../../src/client/conversation/slash.ts";
import { INITIAL_STATE } from "../../../src/client/conversation/state.ts";
import { isLightBackground } from "../../../src/cli/chat/chat.ts";
import { createChatMachine } from "../../../src/cli/chat/machine.ts";
import { GatewayError } from "../../../src/client/gateway.ts";
import { startTestService } from "../../harness/service.ts";
import { shown, socketOf, startChat } from "./session.ts";

const echo = () => startTestService({ script: ({ user }) => ({ text: `You said ${user}` }) });

/** A machine that remembers what it copied and wrote. */
function fakeMachine(): { readonly machine: ChatMachine; readonly done: string[] } {
  const done: string[] = [];
  const machine: ChatMachine = {
    loadHistory: () => Promise.resolve([]),
    keepPrompt: () => Promise.resolve(),
    copy: (text) => {
      done.push(`copy ${text}`);
      return Promise.resolve(true);
    },
    writeNewFile: (path, text) => {
      if (done.some((line) => line.startsWith(`write ${path}\n`))) {
        return Promise.reject(Object.assign(new Error("exists"), { code: "EEXIST" }));
      }
      done.push(`write ${path}\n${text}`);
      return Promise.resolve(`/here/${path}`);
    },
    editText: (text) => Promise.resolve(text),
  };
  return { machine, done };
}

test("/copy copies the last answer", async () => {
  const { machine, done } = fakeMachine();
  await using service = await echo();
  await using one = await startChat(socketOf(service), { kind: "new" }, () => {}, machine);
  one.chat.submit("/copy");
  await one.until((state) => shown(state).some((line) => /no answer to copy/.test(line)));
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  one.chat.submit("/copy");
  await one.until((state) => shown(state).some((line) => /Copied the last answer/.test(line)));
  assert.deepEqual(done, ["copy You said hello"]);
});

test("/export writes the conversation as Markdown, and never over an existing file", async () => {
  const { machine, done } = fakeMachine();
  await using service = await echo();
  await using one = await startChat(socketOf(service), { kind: "new" }, () => {}, machine);
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  one.chat.submit("/export talk.md");
  await one.until((state) => shown(state).some((line) => line.endsWith("to /here/talk.md")));
  assert.deepEqual(done, ["write talk.md\n## user\n\nhello\n\n## assistant\n\nYou said hello\n"]);
  one.chat.submit("/export talk.md");
  await one.until((state) => shown(state).some((line) => /talk\.md exists\. Name another file/.test(line)));
});

test("Shift-Tab goes through the modes that still ask, shows the mode, and /mode sets the same", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service));
  const modes: (string | undefined)[] = [];
  for (const before of [undefined, "ask", "accept_edits", "plan"]) {
    assert.equal(one.state().status.mode, before);
    one.chat.nextMode();
    modes.push(await one.until(({ status }) => status.mode !== before && status.mode));
  }
  assert.deepEqual(modes, ["ask", "accept_edits", "plan", "ask"]);
  one.chat.submit("/mode dont_ask");
  await one.until(({ status }) => status.mode === "dont_ask");
});

test("the last prompt is taken back into the composer to be edited", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service));
  one.chat.editLast();
  one.chat.submit("helo");
  await one.answered("assistant: You said helo");
  one.chat.editLast();
  await one.until(({ composer }) => composer.prefill?.text === "helo");
  await one.until(({ settled }) => !settled.some(({ kind }) => kind === "user"));
});

test("/help, /keys and /agents open the viewer with the commands, the keys and the sub-agents", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service));
  one.chat.submit("/help");
  const viewer = await one.until((state) => state.viewer);
  assert.deepEqual(
    viewer.pages.map(({ title }) => title),
    ["help", "keys"],
  );
  assert.match(viewer.pages[0]?.text ?? "", /\/export[\s\S]*\/undo/);
  one.chat.closeViewer();
  assert.equal(one.state().viewer, undefined);
  one.chat.submit("/keys");
  assert.equal(one.state().viewer?.pages[0]?.title, "keys");
  one.chat.closeViewer();
  one.chat.submit("/agents");
  assert.equal(one.state().viewer?.pages[0]?.title, "agents");
});

test("/clear typed in full is the first completion, so that one Enter runs it", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service));
  for (const text of ["/clear", "/undo", "/copy"]) {
    one.chat.edit(text);
    const { completions } = await one.until(
      ({ composer }) => composer.completionsFor === text && composer.completions.length > 0 && composer,
    );
    assert.equal(completions[0]?.text, text);
  }
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  one.chat.submit("/clear");
  await one.until(({ settled }) => !settled.some(({ kind }) => kind === "user"));
});

test("model names are completed behind /model", async () => {
  const providers = [
    { slug: "local", name: "Local", models: ["alpha-1", "beta-2"] },
    { slug: "other", name: "Other", models: ["other:alpha-9"], warning: "no key" },
  ];
  const call = (() =>
    Promise.resolve({ providers, model: "alpha-1", provider: "local" })) as unknown as GatewayCall;
  const of = (text: string) => complete(call, { text, sessionId: "s", signal: new AbortController().signal });
  assert.deepEqual(await of("/model alpha"), [
    { text: "/model local:alpha-1", display: "local:alpha-1", meta: "this one" },
    { text: "/model other:alpha-9", display: "other:alpha-9", meta: "no key" },
  ]);
  assert.equal((await of("/model ")).length, 3);
});

test("a shell command is shown with its output and exit code, and is not a prompt", async () => {
  const asked: unknown[] = [];
  const call = ((method: string, params: object) => {
    asked.push([method, params]);
    return Promise.resolve({ stdout: "one\n", stderr: "two", code: 3 });
  }) as unknown as GatewayCall;
  const change = await runShell({ call, sessionId: "s" }, "make test", () => 5_000);
  const [item] = change(INITIAL_STATE).settled;
  assert.ok(item?.kind === "tool");
  assert.deepEqual(
    [item.context, item.status, item.output],
    ["make test", "failed", "one\n\ntwo\nexit code 3"],
  );
  assert.deepEqual(asked, [["shell.exec", { session_id: "s", command: "make test", timeout: 120 }]]);
});

for (const reason of ["disabled", "unknown_method"]) {
  test(`a shell command that the gateway refuses as ${reason} says how to allow it`, async () => {
    const call = (() =>
      Promise.reject(
        new GatewayError({ code: 4005, message: "off", data: { reason } } as never),
      )) as unknown as GatewayCall;
    await assert.rejects(
      runShell({ call, sessionId: "s" }, "ls", () => 0),
      /Shell commands are off\. Run `agentd config set gateway\.shell_exec local`/,
    );
  });
}

test("! at the start of a prompt is a shell command, off unless it is allowed", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service));
  one.chat.submit("! ls");
  await one.until((state) => shown(state).some((line) => /Shell commands are off/.test(line)));
  one.chat.submit("!");
  await one.answered("assistant: You said !");
});

test("the editor edits the text in a private file, and a failing editor says so", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "agentd-editor-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const machine = (editor: string) => createChatMachine({ env: { EDITOR: editor }, userHome: home, home });
  assert.equal(await machine("sed -i s/helo/hello/").editText("helo\nyou"), "hello\nyou");
  await assert.rejects(machine("false").editText("x"), /The editor false failed/);
});

test("an exported file is new and private", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "agentd-export-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const machine = createChatMachine({ env: {}, userHome: home, home });
  const file = join(home, "talk.md");
  assert.equal(await machine.writeNewFile(file, "text"), file);
  assert.equal(await readFile(file, "utf8"), "text");
  await assert.rejects(machine.writeNewFile(file, "other"), { code: "EEXIST" });
});

test("COLORFGBG says whether the background is light", () => {
  const light = ["0;15", "0;7", "0;default;15", "12;14"];
  const dark = ["15;0", "7;8", "15;default", "", undefined, "15;default;0"];
  assert.deepEqual(light.map(isLightBackground), [true, true, true, true]);
  assert.ok(dark.every((colours) => !isLightBackground(colours)));
});

test("a name behind @ is replaced by the reference that the gateway offers, and the words before it stay", async () => {
  const asked: unknown[] = [];
  const call = ((method: string, params: object) => {
    asked.push([method, params]);
    return Promise.resolve({ items: [{ text: "@file:src/main.py", display: "main.py", meta: "src" }] });
  }) as unknown as GatewayCall;
  const { signal } = new AbortController();
  assert.deepEqual(await complete(call, { text: "explain @main", sessionId: "s", signal }), [
    { text: "explain @file:src/main.py", display: "main.py", meta: "src" },
  ]);
  assert.deepEqual(asked, [["complete.path", { word: "@main", session_id: "s" }]]);
});

test("what is typed before the session is open is completed and carried out once it is", async () => {
  await using service = await echo();
  await using one = await startChat(socketOf(service), { kind: "new" }, (chat) => {
    chat.edit("/clear");
    chat.submit("!ls");
  });
  await one.until(({ composer }) => composer.completions.some(({ text }) => text === "/clear"));
  await one.until((state) => shown(state).some((line) => /Shell commands are off/.test(line)));
});
