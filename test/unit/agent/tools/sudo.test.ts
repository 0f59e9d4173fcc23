import assert from "node:assert/strict";
import { chmodSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { ToolError, type Tool } from "../../../../src/agent/tool/tool.ts";
import { createTerminal, mentionsSudo } from "../../../../src/agent/tools/process/terminal.ts";
import { call, workspace } from "./call.ts";

const PASSWORD = "correct-horse-9";

/** A terminal whose commands search `folder` for programs first. */
const terminalWith = (folder: string) =>
  createTerminal({
    timeoutMs: 60_000,
    maxOutputBytes: 20_000,
    envPassthrough: [],
    // Not the environment of the process: other tests start programs at the same time.
    env: { ...process.env, PATH: `${folder}:${process.env["PATH"] ?? ""}` },
  });

const HALVES = [PASSWORD.slice(0, 8), PASSWORD.slice(8)] as const;

/**
 * A terminal with a sudo that asks its helper for the password and, with `looks`, searches for it in forbidden places.
 */
function fakeSudo(t: { after(clean: () => void): void }, { looks = true } = {}): Tool {
  const folder = workspace(t);
  const path = join(folder, "sudo");
  writeFileSync(
    path,
    `#!/bin/sh
[ "$1" = -n ] && exit 1
[ "$1" = -A ] && shift
if [ "$1" != free ]; then
  given=$("$SUDO_ASKPASS" | head -n 1)
  ${looks ? "" : "false && "}for at in /proc/[0-9]*; do for file in cmdline environ; do
    cat "$at/$file" 2>/dev/null | tr '\\0' ' ' | grep -q "${HALVES[0]}""${HALVES[1]}" && echo "SEEN in $at/$file"
  done; done
  [ "$given" = "${HALVES[0]}""${HALVES[1]}" ] || { echo "Sorry, try again." >&2; exit 1; }
else shift; fi
exec "$@"
`,
  );
  chmodSync(path, 0o755);
  return terminalWith(folder);
}

function answers(password: string | undefined, asked: string[] = []) {
  const no = () => Promise.reject(new Error("not asked"));
  return { clarify: no, secret: no, sudo: async (command: string) => (asked.push(command), password) };
}

const isLinux = process.platform === "linux";

test(
  "a password reaches each sudo of a command, and appears in no argument or variable",
  { skip: !isLinux },
  async (t) => {
    const terminal = fakeSudo(t);
    const asked: string[] = [];
    const command = "sudo echo one; true && sudo sh -c 'echo two; cat'";
    const text = await call(
      terminal,
      { command },
      { cwd: workspace(t), context: { questions: answers(PASSWORD, asked) } },
    );
    assert.match(text, /Exit code 0[\s\S]*one\ntwo\n/);
    assert.doesNotMatch(text, /SEEN|correct-horse/);
    assert.deepEqual(asked, [command]);
  },
);

test("a command under sudo reads its own input, whether sudo asks or not", { skip: !isLinux }, async (t) => {
  const terminal = fakeSudo(t);
  const command = "echo mine | sudo cat; echo two | sudo free cat; sudo free cat < /dev/null; wait";
  const text = await call(
    terminal,
    { command },
    { cwd: workspace(t), context: { questions: answers(PASSWORD) } },
  );
  assert.match(text, /Output:\nmine\ntwo\n$/);
});

test("parallel calls of sudo each get the password", { skip: !isLinux }, async (t) => {
  const terminal = fakeSudo(t, { looks: false });
  const command = "for i in 1 2 3 4 5 6; do sudo echo ok & done; wait";
  const text = await call(
    terminal,
    { command },
    { cwd: workspace(t), context: { questions: answers(PASSWORD) } },
  );
  assert.equal(text.match(/^ok$/gm)?.length, 6, text);
});

test("nothing of the password remains on disk", { skip: !isLinux }, async (t) => {
  const terminal = fakeSudo(t);
  await call(
    terminal,
    { command: "sudo true" },
    { cwd: workspace(t), context: { questions: answers(PASSWORD) } },
  );
  assert.deepEqual(
    readdirSync(tmpdir()).filter((name) => name.startsWith("agentd-sudo-")),
    [],
  );
});

test("a wrong password fails the command, and is not asked for again", { skip: !isLinux }, async (t) => {
  const terminal = fakeSudo(t);
  const asked: string[] = [];
  const text = await call(
    terminal,
    { command: "sudo echo one" },
    { cwd: workspace(t), context: { questions: answers("wrong", asked) } },
  );
  assert.match(text, /Exit code 1[\s\S]*Sorry/);
  assert.equal(asked.length, 1);
});

test("without a password the command does not run", { skip: !isLinux }, async (t) => {
  const terminal = fakeSudo(t);
  const cwd = workspace(t);
  const run = call(
    terminal,
    { command: "touch ran; sudo true" },
    { cwd, context: { questions: answers(undefined) } },
  );
  await assert.rejects(run, (error) => error instanceof ToolError && /none was given/.test(error.message));
  assert.deepEqual(readdirSync(cwd), []);
});

test("sudo is only recognised as a command word", () => {
  for (const yes of [
    "sudo ls",
    "env A=1 sudo ls",
    "ls | sudo tee x",
    "echo $(sudo id)",
    "/usr/bin/sudo -u x ls",
  ]) {
    assert.equal(mentionsSudo(yes), true, yes);
  }
  for (const no of ["echo sudo", "echo pseudo", "ls sudoers", "grep -r 'sudo ls' ."])
    assert.equal(mentionsSudo(no), false, no);
});

test("where sudo needs no password no question is asked", { skip: !isLinux }, async (t) => {
  const folder = workspace(t);
  writeFileSync(join(folder, "sudo"), '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n');
  chmodSync(join(folder, "sudo"), 0o755);
  assert.match(
    await call(terminalWith(folder), { command: "sudo echo free" }, { cwd: workspace(t) }),
    /free/,
  );
  assert.ok(readFileSync(join(folder, "sudo"), "utf8").length > 0);
});
