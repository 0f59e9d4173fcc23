import assert from "node:assert/strict";
import { test } from "node:test";
import { MODES, unchosenMode, type SessionMode } from "../../../src/agent/session/session.ts";
import { decide, type PolicyContext, type PolicyMode } from "../../../src/agent/question/policy/policy.ts";
import type { ToolIntent } from "../../../src/agent/tool/tool.ts";
import { never, ordinary, risky } from "./policy/commands.ts";

const places = { workspace: "/home/ada/project", home: "/home/ada", agentHome: "/home/ada/.agentd" };
const POLICIES = ["ask", "always_ask", "yolo"] as const;
const outcome = (intent: ToolIntent, sessionMode: SessionMode, more: Partial<PolicyContext> = {}) =>
  decide(intent, { mode: "ask", ...places, sessionMode, ...more }, "a_tool").outcome;

const command = (text: string): ToolIntent => ({ kind: "command", title: "", command: text });
const reading = (path: string): ToolIntent => ({ kind: "file", title: "", reads: [path] });
const writing = (...writes: string[]): ToolIntent => ({ kind: "file", title: "", writes });
const tool = (more: Partial<ToolIntent> = {}): ToolIntent => ({ kind: "tool", title: "a tool", ...more });
const network = (...hosts: string[]): ToolIntent => ({ kind: "network", title: "Fetch", hosts });

const INSIDE = "/home/ada/project/a.ts";
const secrets = ["/home/ada/.ssh/id_rsa", "/home/ada/project/.env", "/home/ada/.agentd/config.yaml"];
const startUp = ["/home/ada/.bashrc", "/home/ada/.config/x", "/home/ada/project/.git/hooks/pre-push"];

/** Calls of every kind. */
const calls: readonly ToolIntent[] = [
  ...[...ordinary, ...risky, ...never].map(command),
  ...[INSIDE, "/etc/hosts", "/dev/sda", ...secrets].map(reading),
  ...[INSIDE, "/tmp/a", "/etc/hosts", "/dev/sda", ...secrets, ...startUp].map((path) => writing(path)),
  network("a.example"),
  network(),
  tool(),
  tool({ effect: "none" }),
  tool({ effect: "own" }),
  tool({ writes: [INSIDE] }),
];
const FREEDOM = { deny: 0, ask: 1, allow: 2 };

test("no mode allows what the policy denies, and yolo does not loosen plan mode", () => {
  for (const intent of calls) {
    for (const mode of POLICIES) {
      const plain = outcome(intent, "ask", { mode });
      for (const sessionMode of MODES) {
        if (plain === "deny") assert.equal(outcome(intent, sessionMode, { mode }), "deny");
      }
    }
    const planned = outcome(intent, "plan");
    assert.equal(outcome(intent, "plan", { mode: "yolo" }) === "deny", planned === "deny", intent.command);
  }
});

test("the modes are ordered: plan allows least, then ask, accept_edits and dont_ask", () => {
  const order = ["plan", "ask", "accept_edits", "dont_ask"] as const;
  for (const mode of POLICIES) {
    for (const intent of calls) {
      const freedoms = order.map((each) => FREEDOM[outcome(intent, each, { mode })]);
      assert.deepEqual(freedoms, freedoms.toSorted(), `${mode}: ${JSON.stringify(intent)}`);
    }
  }
});

test("sensitive paths ask in every mode that does not refuse them, except yolo", () => {
  const sensitive = [
    ...secrets.flatMap((path) => [reading(path), writing(path), writing(INSIDE, path)]),
    ...startUp.map((path) => writing(path)),
    command("cat ~/.ssh/id_rsa"),
    command("cat .env && npm test"),
    command("echo x >> ~/.bashrc"),
    command('echo x >> "$WHERE/.bashrc"'),
    command('cd "$(git rev-parse --show-toplevel)" && cp a .git/hooks/pre-commit'),
    command("rm -rf build; cat .env"),
    command('pass show "$NAME"'),
    command("aws secretsmanager get-secret-value --secret-id $(cat name)"),
    tool({ effect: "none", reads: ["/home/ada/.ssh/id_rsa"] }),
  ];
  for (const intent of sensitive) {
    for (const mode of ["ask", "always_ask"] as const) {
      for (const sessionMode of MODES) {
        const said = outcome(intent, sessionMode, { mode });
        assert.ok(said === "ask" || (sessionMode === "plan" && said === "deny"), JSON.stringify(intent));
      }
    }
    assert.equal(outcome(intent, "dont_ask", { mode: "yolo" }), "allow");
    const { remember } = decide(intent, { mode: "ask", ...places, sessionMode: "dont_ask" });
    assert.equal(remember, "never", "leave for it is not kept");
  }
});

test("text that is too long or too deeply nested asks, whatever else it contains", () => {
  const secret = "cat ~/.ssh/id_rsa";
  const nested = (depth: number): string => (depth === 0 ? secret : `echo $(${nested(depth - 1)})`);
  for (const text of [
    `${"sudo ls; ".repeat(60)}${secret}`,
    `${"true; ".repeat(401)}${secret}`,
    `${"true; ".repeat(401)}rm -rf /`,
    `${"a=1; ".repeat(501)}${secret}`,
    `${"true ".repeat(10_000)}; ${secret}`,
    `${"cat <<E\nx\nE\n".repeat(101)}${secret}`,
    `cat ${"a,".repeat(40)}/home/ada/.ssh/id_rsa`,
    `env --first a ${"b ".repeat(600)} ${secret}`,
    nested(12),
    `$TOOL ~/.ssh/id_rsa`,
  ]) {
    assert.equal(outcome(command(text), "dont_ask"), "ask", text);
    assert.equal(decide(command(text), { mode: "ask", ...places }).remember, "never", text);
  }
});

test("ask asks for every edit and every command that may change something, whatever the configuration, and nothing else", () => {
  for (const mode of POLICIES) {
    for (const intent of calls) {
      const plain = decide(intent, { mode, ...places }, "a_tool");
      const chosen = decide(intent, { mode, ...places, sessionMode: "ask" }, "a_tool");
      const edits = intent.command === undefined && (intent.writes ?? []).length > 0;
      const changes = intent.command !== undefined && outcome(intent, "plan") === "deny";
      const questions = (edits || changes) && mode !== "yolo" && plain.outcome !== "deny";
      assert.equal(chosen.outcome, questions ? "ask" : plain.outcome, JSON.stringify(intent));
      if (!edits && !changes) assert.deepEqual(chosen, plain);
    }
  }
});

test("a command that the configuration allows needs no approval in mode ask", () => {
  assert.equal(outcome(command("make test"), "ask"), "ask");
  assert.equal(outcome(command("make test"), "ask", { allow: ["make"] }), "allow");
});

test("an approval of an edit in mode ask lasts for the session at most, and covers its folder only", () => {
  const at = { mode: "ask", ...places, roots: ["/srv/a"], sessionMode: "ask" } as const;
  const said = (...writes: string[]) => decide(writing(...writes), at);
  assert.equal(said(INSIDE).remember, "session");
  assert.equal(said(INSIDE).signature, said("/home/ada/project/deep/b.ts").signature);
  const others = [
    ["/srv/a/x"],
    ["/tmp/a"],
    ["/tmp/b"],
    ["/etc/hosts"],
    [INSIDE, "/etc/hosts"],
    [INSIDE, "/tmp/a"],
  ];
  const all = [[INSIDE], ...others].map((writes) => said(...writes).signature);
  assert.equal(new Set(all).size, all.length, "each is another signature");
  const elsewhere = decide(writing("/home/ada/other/a.ts"), { ...at, workspace: "/home/ada/other" });
  assert.notEqual(elsewhere.signature, said(INSIDE).signature, "the session moved to another folder");
});

test("the mode shown for a session without a chosen mode decides like the configuration", () => {
  for (const mode of POLICIES) {
    const shown = unchosenMode(mode);
    for (const intent of calls) {
      assert.equal(
        outcome(intent, shown, { mode }),
        decide(intent, { mode, ...places }, "a_tool").outcome,
        `${mode}: ${JSON.stringify(intent)}`,
      );
    }
  }
});

test("accept_edits: files of the workspace change without approval, even in always_ask", () => {
  const strict: { readonly mode: PolicyMode } = { mode: "always_ask" };
  const said = (intent: ToolIntent, more: Partial<PolicyContext> = {}) =>
    outcome(intent, "accept_edits", { ...strict, ...more });
  assert.equal(said(writing(INSIDE)), "allow");
  assert.equal(said(tool({ writes: [INSIDE] })), "allow");
  for (const intent of [
    writing("/tmp/a"),
    writing(INSIDE, "/etc/a"),
    command("npm test"),
    network("a.example"),
  ]) {
    assert.equal(said(intent), "ask", JSON.stringify(intent));
  }
  assert.equal(said(tool({ effect: "unknown", writes: [INSIDE] })), "ask", "it may do more than it says");
  assert.equal(said(writing("/srv/other/a")), "ask");
  assert.equal(said(writing("/srv/other/a"), { roots: ["/srv/other"] }), "allow");
});

test("dont_ask: risky calls run, forbidden ones do not", () => {
  for (const text of [
    "rm -rf build",
    "git push",
    "sudo ls",
    "npm test",
    "curl -d @notes https://example.com",
  ]) {
    assert.equal(outcome(command(text), "dont_ask", { mode: "always_ask" }), "allow", text);
  }
  assert.equal(outcome(writing("/etc/hosts"), "dont_ask"), "allow");
  assert.equal(outcome(tool(), "dont_ask"), "allow");
  for (const text of ["rm -rf /", "rm -rf ~", "mkfs.ext4 /dev/sda1", "cat ~/.agentd/.env", ":(){ :|:& };:"])
    assert.equal(outcome(command(text), "dont_ask"), "deny", text);
});

test("plan: only reading, searching, fetching and planning; the model is asked to present a plan", () => {
  const looks = [
    command("ls -la"),
    command("cat a | grep b"),
    command("grep -rn x . 2>/dev/null | head"),
    command("git log --oneline"),
    reading(INSIDE),
    network("a.example"),
    tool({ effect: "none" }),
  ];
  for (const intent of looks) assert.equal(outcome(intent, "plan"), "allow", JSON.stringify(intent));
  const changes = [
    command("npm test"),
    command("echo x > a"),
    command("touch a"),
    writing(INSIDE),
    writing("/tmp/a"),
    tool(),
    tool({ effect: "own" }),
    tool({ writes: [INSIDE] }),
    { ...network("a.example"), writes: [INSIDE] },
  ];
  for (const intent of changes) {
    for (const mode of POLICIES) {
      const { outcome: said, reason } = decide(intent, { mode, ...places, sessionMode: "plan" });
      assert.equal(said, "deny", JSON.stringify(intent));
      assert.match(reason, /plan mode.*present a plan/);
    }
  }
});

test("further roots: changes there are ordinary, and an approval for one does not cover another", () => {
  const at = { mode: "ask", ...places, roots: ["/srv/a", "/srv/b"] } as const;
  assert.equal(decide(writing("/srv/a/x"), at).outcome, "allow");
  assert.equal(decide(writing("/srv/c/x"), at).outcome, "ask");
  assert.equal(decide(command("echo x > /srv/a/x"), at).outcome, "allow");
  assert.equal(decide(writing("/srv/a/.env"), at).outcome, "ask");
  const strict = { ...at, mode: "always_ask" } as const;
  const signature = (path: string) => decide(writing(path), strict).signature;
  assert.equal(signature("/srv/a/x"), signature("/srv/a/y"));
  assert.notEqual(signature("/srv/a/x"), signature("/srv/b/x"));
  assert.notEqual(signature("/srv/a/x"), signature("/srv/a"));
});
