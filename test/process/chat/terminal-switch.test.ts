/** What a person does beside talking in `agentd chat`: commands, queue and steer, models, sessions, a password. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createChatPlace, pressUntil, type Answers } from "../../harness/chat-terminal.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { terminalIsMissing } from "../../harness/terminal.ts";

const options = { skip: terminalIsMissing, timeout: 400_000 };
const CANARY = "canary-hunter2";
/** Wants a password, and runs the command if it is the right one. */
const SUDO = `#!/bin/sh
[ "$1" = -n ] && exit 1
[ "$1" = -A ] && shift
[ "$("$SUDO_ASKPASS")" = ${CANARY} ] && exec "$@"
echo "wrong password" >&2
exit 1
`;

const answers: Answers = (last, { messages }) => {
  if (messages.at(-1)?.["role"] === "tool")
    return saying(`It said: ${last.includes("as root") ? "root" : last}`);
  if (last.includes("hang")) return { pieces: [{ text: "hanging on" }, { hang: true }] };
  if (last.includes("install")) {
    return calling({ id: "c1", name: "terminal", json: JSON.stringify({ command: "sudo echo as root" }) });
  }
  return saying(`You said ${last}.`);
};

test("commands complete, a prompt waits its turn, models and sessions are switched", options, async () => {
  await using place = await createChatPlace(answers);
  await using terminal = await place.chat();
  await terminal.shows("local:test-model");

  await terminal.type("/mod");
  await terminal.shows(/› \/mod\n {2}› \/model/);
  await terminal.press("Tab");
  await terminal.shows(/^› \/model ?$/m);
  await terminal.press("C-c");
  await terminal.shows("write a prompt");

  await terminal.type("please hang");
  await terminal.press("Enter");
  await terminal.shows(/hanging on[\s\S]*ctrl-c interrupts/);
  await terminal.type("and then this");
  await terminal.shows("enter queues");
  await terminal.press("Enter");
  await terminal.shows(/next {2}and then this[\s\S]*1 queued/);
  await terminal.press("C-c");
  await terminal.shows(/You said and then this\.[\s\S]*ctrl-d leaves/);

  await terminal.press("M-m");
  await terminal.shows(/▌ models[\s\S]*local:test-model {2}this one/);
  await terminal.press("Escape");
  await terminal.shows("write a prompt");

  await terminal.type("/new");
  await terminal.shows("› /new");
  await pressUntil(terminal, "Enter", /^agentd {2}\S+\n\n+› write a prompt/m);
  await terminal.press("C-s");
  await terminal.shows(/▌ sessions[\s\S]*please hang/);
  await terminal.type("hang");
  await terminal.shows(/▌ sessions {2}hang▏[\s\S]*› please hang/);
  await terminal.press("Enter");
  await terminal.shows(/^agentd {2}please hang[\s\S]*You said and then this\.[\s\S]*ctrl-d leaves/m);
});

test("a password for sudo reaches sudo, and never the screen", options, async () => {
  await using place = await createChatPlace(answers);
  const programs = join(place.folder, "programs");
  mkdirSync(programs);
  writeFileSync(join(programs, "sudo"), SUDO);
  chmodSync(join(programs, "sudo"), 0o755);
  await using terminal = await place.chat([], { env: { PATH: `${programs}:${process.env["PATH"] ?? ""}` } });
  await terminal.shows("local:test-model");
  await terminal.type("install it");
  await terminal.press("Enter");
  const first = await terminal.shows(/▌ (?:approval|sudo)/);
  if (first.includes("▌ approval")) {
    await pressUntil(terminal, "Up", /› 1 {2}allow once/);
    await terminal.press("Enter");
  }
  await terminal.shows("what you type is not shown");
  await terminal.type(CANARY);
  await terminal.shows("••••••••");
  await pressUntil(terminal, "Enter", /It said: root[\s\S]*ctrl-d leaves/);
  assert.doesNotMatch(await terminal.styled(), /canary|hunter2/);
});
