import assert from "node:assert/strict";
import { test } from "node:test";
import { decide, type PolicyContext } from "../../../../src/agent/question/policy/policy.ts";
import { home } from "./rows.ts";

const allow = [
  "make",
  "npm run build",
  "terraform-docs",
  "sudo systemctl restart web",
  "rm -rf build",
  "cat",
  "agentd",
  "echo",
  "bash",
];
const said = (command: string, more: Partial<PolicyContext> = {}) =>
  decide({ kind: "command", title: "", command }, { mode: "ask", ...home, allow, ...more });

test("approvals.allow covers commands that begin with its words, and no others", () => {
  for (const command of [
    "make",
    "make -j4 test",
    "npm run build",
    "npm run build --verbose",
    "terraform-docs markdown .",
    "sudo systemctl restart web",
    "rm -rf build",
    "rm -rf build dist",
    "cd sub && make",
    "A=1 make",
    "timeout 60 make",
    "make | tail -5",
    "(make)",
    "bash build.sh",
  ]) {
    assert.equal(said(command).outcome, "allow", `${command}: ${said(command).reason}`);
    assert.equal(said(command, { mode: "always_ask" }).outcome, "allow", command);
    assert.equal(said(command, { sessionMode: "plan" }).outcome, "deny", command);
  }
  for (const command of [
    "npm run deploy",
    "npm test",
    "makepkg",
    "./make",
    "/tmp/make",
    "sudo systemctl stop web",
    "rm -rf other",
    "make; ./run.sh",
    "make && git push",
    "xargs make < list",
    "make $TARGET",
    "make *",
    '$(echo make) "$X"',
    "PATH=.:x make",
    "make() { ./evil.sh; }; make",
    "make > /etc/x",
    "echo x > /etc/x",
  ]) {
    assert.equal(said(command).outcome, "ask", command);
  }
});

test("approvals.allow does not cover secrets, the service's own files and commands, or forbidden actions", () => {
  for (const command of [
    "cat .env",
    "cat ~/.ssh/id_rsa",
    "cat ../config.yaml",
    "agentd config set approvals.mode yolo",
    "agentd chat hi",
    "bash -c 'agentd config set a b'",
    "bash -c 'echo x > AGENTS.md'",
    "terraform-docs ../config.yaml",
    "make -f ~/.ssh/x",
  ]) {
    assert.equal(said(command).outcome, "ask", command);
    assert.equal(said(command).remember, "never", command);
  }
  for (const command of ["cat ../.env", "bash -c 'rm -rf /'", "rm -rf build /"])
    assert.equal(said(command).outcome, "deny", command);
});

test("changes to the service require approval in every session mode unless approvals are switched off", () => {
  for (const command of ["agentd config set a b", "echo x >> ../config.yaml", "echo x >> AGENTS.md"]) {
    for (const sessionMode of ["ask", "accept_edits", "dont_ask"] as const) {
      for (const mode of ["ask", "always_ask"] as const) {
        const { outcome, remember } = said(command, { mode, sessionMode });
        assert.deepEqual([outcome, remember], ["ask", "never"], command);
      }
    }
    assert.equal(said(command, { mode: "yolo" }).outcome, "allow", command);
  }
});

test("file tools ask before they write the service's own files and files that control later sessions", () => {
  const writes = (path: string) =>
    decide({ kind: "file", title: "", writes: [path] }, { mode: "ask", ...home });
  for (const path of [
    "/home/ada/.agentd/config.yaml",
    "/home/ada/.agentd/state.db",
    "/home/ada/.agentd/skills/x/SKILL.md",
    "/home/ada/.agentd/scripts/x.sh",
    "/home/ada/.agentd/webhook_subscriptions.json",
    "/home/ada/.agentd/profiles/work/config.yaml",
    "/home/ada/.agentd/workspace/AGENTS.md",
    "/home/ada/.agentd/workspace/.agents/skills/x/SKILL.md",
    "/home/ada/.agentd/workspace/.vscode/tasks.json",
    "/home/ada/.agentd/workspace/.git/hooks/pre-push",
    "/home/ada/.agentd/workspace/.github/workflows/ci.yml",
  ]) {
    const { outcome, remember } = writes(path);
    assert.deepEqual([outcome, remember], ["ask", "never"], path);
  }
  assert.equal(writes("/home/ada/.agentd/.env").outcome, "deny");
  for (const path of ["a.ts", "package.json", "Makefile", ".github/CODEOWNERS"])
    assert.equal(writes(`/home/ada/.agentd/workspace/${path}`).outcome, "allow", path);
});

test("a profile's agent may not read the keys of its parent home", () => {
  const agentHome = "/home/ada/.agentd/profiles/work";
  const of = (command: string) =>
    decide(
      { kind: "command", title: "", command },
      { mode: "ask", ...home, agentHome, workspace: `${agentHome}/workspace` },
    );
  assert.equal(of("cat ~/.agentd/.env").outcome, "deny");
  assert.equal(of("cat ../.env").outcome, "deny");
  assert.equal(of("echo x >> ~/.agentd/config.yaml").outcome, "ask");
  assert.equal(of("cat notes.md").outcome, "allow");
});

test("a command that starts in another folder is evaluated there", () => {
  const from = (text: string, folder: string) =>
    decide(
      { kind: "command", title: "", command: `cd '${folder}' && ${text}`, script: { text, folder } },
      { mode: "ask", ...home },
    );
  assert.equal(from("cat ../a", "/home/ada/.agentd/workspace/sub").outcome, "allow");
  assert.equal(from("cat .env", "/home/ada/.agentd").outcome, "deny");
  assert.equal(from("touch a", "/opt").outcome, "ask");
  assert.notEqual(
    from("make", "/home/ada/.agentd/workspace/a").signature,
    from("make", "/home/ada/.agentd/workspace/b").signature,
  );
});
