import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdir, readFile, stat, writeFile, mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { openSession, rpcScenario, takeTurn, type RpcSetting } from "./scenario.ts";

/** Answers with the names and the contents of what the prompt has attached. */
const attached: Script = ({ messages }) => {
  const last = messages.findLast(({ role }) => role === "user");
  const files = last?.role === "user" ? (last.attachments ?? []) : [];
  return {
    text: files
      .map(({ name, data }) => `<${name}>${Buffer.from(data, "base64").toString()}</${name}>`)
      .join("\n"),
  };
};

async function folderOf({ service, owner }: RpcSetting): Promise<string> {
  const folder = join(service.workspace, owner);
  await mkdir(join(folder, "src"), { recursive: true });
  await writeFile(join(folder, "src", "main.py"), "one\ntwo\nthree\n");
  await writeFile(join(folder, "a b.txt"), "spaced");
  await symlink("/etc", join(folder, "out"));
  return folder;
}

const warnings = (host: RpcHost, id: string): string[] =>
  host
    .events(id)
    .filter(({ type, payload }: Json) => type === "status.update" && payload.kind === "warn")
    .map(({ payload }: Json) => payload.text);

rpcScenario(
  ["prompt.submit", "event status.update"],
  { title: "@file, @folder and line ranges attach what they name, and the text stays", script: attached },
  async (host, setting) => {
    const id = await openSession(host, { cwd: await folderOf(setting) });
    const text = 'Look at @file:src/main.py, @file:src/main.py:2-3 and (@file:"a b.txt") in @folder:src.';
    const { text: answer } = await takeTurn(host, id, text);
    assert.match(answer, /<src\/main\.py>one\ntwo\nthree\n<\/src\/main\.py>/);
    assert.match(answer, /<src\/main\.py:2-3>two\nthree<\/src\/main\.py:2-3>/);
    assert.match(answer, /<a b\.txt>spaced<\/a b\.txt>/);
    assert.match(answer, /<src>main\.py<\/src>/);
    const { messages } = await host.result("session.history", { session_id: id });
    assert.equal(messages[0].text, text);
    assert.deepEqual(warnings(host, id), []);
  },
);

rpcScenario(
  ["prompt.submit", "event status.update"],
  { title: "a reference that cannot be read is reported, and the prompt goes on", script: attached },
  async (_, setting) => {
    const folder = await folderOf(setting);
    await writeFile(join(folder, ".env"), "KEY=canary-reference");
    const guest = await setting.connect({ scopes: ["chat", "read"] });
    const id = await openSession(guest, { cwd: folder });
    const bad = [
      "@file:nowhere.txt",
      "@file:out/passwd",
      "@file:.env",
      "@folder:out",
      "@folder:/etc",
      "@diff",
    ];
    const { text } = await takeTurn(guest, id, `mail me@file:x, @someone: ${bad.join(" ")}`);
    assert.equal(text, "");
    const told = warnings(guest, id);
    assert.equal(told.length, bad.length, told.join("\n"));
    for (const [at, reference] of bad.entries())
      assert.ok(told[at]?.startsWith(`${reference} is not attached`));
    assert.doesNotMatch(JSON.stringify(guest.frames), /canary-reference/);
  },
);

rpcScenario(
  "prompt.submit",
  { title: "@diff, @staged and @git attach the changes and commits of the repository", script: attached },
  async (host, setting) => {
    const folder = await folderOf(setting);
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: folder });
    git("init", "-q");
    git("add", "src");
    git("commit", "-qm", "first");
    const marker = join(folder, "started");
    git("config", "diff.external", `touch ${marker}; false`);
    git("config", "core.fsmonitor", `touch ${marker}; false`);
    git("config", "log.showSignature", "true");
    const verifier = join(folder, "gpg");
    await writeFile(verifier, `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 });
    git("config", "gpg.program", verifier);
    await writeFile(join(folder, "commit"), signedCommit(String(git("cat-file", "commit", "HEAD"))));
    git("update-ref", "HEAD", String(git("hash-object", "-t", "commit", "-w", "commit")).trim());
    await writeFile(join(folder, "src", "main.py"), "one\nchanged\n");
    const id = await openSession(host, { cwd: folder });
    assert.match((await takeTurn(host, id, "see @diff")).text, /<git diff>[^]*\+changed/);
    assert.ok(!(await readdir(folder)).includes("started"), "the repository started a program");
    const { text: commits } = await takeTurn(host, id, "see @git:3");
    assert.match(commits, /<git log -3 --patch>commit [0-9a-f]{40}\n[^]*    first\n[^]*\+three/);
    assert.ok(!(await readdir(folder)).includes("started"), "the repository started a program");
    assert.equal((await takeTurn(host, id, "see @git:0")).text, "");
    assert.match(warnings(host, id).at(-1) ?? "", /^@git:0 is not attached: name 1 to 50 commits/);
    git("-c", "core.fsmonitor=false", "add", "src");
    assert.match((await takeTurn(host, id, "see @staged")).text, /<git diff --staged>[^]*\+changed/);
    assert.ok(!(await readdir(folder)).includes("started"), "the repository started a program");
  },
);

/** The same commit with a signature, which git hands to the configured program where it shows signatures. */
function signedCommit(commit: string): string {
  const signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n";
  return commit.replace("\n\n", `\n${signature}\n`);
}

rpcScenario(
  ["paste.collapse", "paste.collapse 4004", "paste.collapse 4018"],
  { title: "a long text becomes a placeholder, and reaches the agent with the prompt", script: attached },
  async (host, { service }) => {
    const text = `${"line\n".repeat(40)}the end`;
    const { placeholder, path, lines } = await host.result("paste.collapse", { text });
    assert.deepEqual([lines, (await stat(path)).mode & 0o777], [41, 0o600]);
    assert.equal(placeholder, `[Pasted text #1: 41 lines → ${path}]`);
    const id = await openSession(host);
    assert.match((await takeTurn(host, id, `read ${placeholder}`)).text, /the end<\/Pasted text>/);
    const config = join(service.home, "agentd", "config.yaml");
    const { text: other } = await takeTurn(host, id, `read [Pasted text #1: 41 lines → ${config}]`);
    assert.equal(other, "");
    await host.error("paste.collapse", { text: "" }, 4004);
    await host.error("paste.collapse", { text: "x".repeat(4_194_305) }, 4018);
  },
);

rpcScenario(
  ["session.save", "session.save 4001"],
  "the conversation is saved as a file that only its user may read",
  async (host) => {
    const id = await openSession(host, { title: "To keep" });
    await takeTurn(host, id, "hello");
    const { file } = await host.result("session.save", { session_id: id });
    const saved = JSON.parse(await readFile(file, "utf8"));
    assert.deepEqual([saved.session_id, saved.title], [id, "To keep"]);
    const { messages } = await host.result("session.history", { session_id: id });
    assert.deepEqual(saved.messages, messages);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const fresh = await openSession(host);
    const { file: empty } = await host.result("session.save", { session_id: fresh });
    assert.deepEqual(JSON.parse(await readFile(empty, "utf8")).messages, []);
    await host.error("session.save", { session_id: "nowhere" }, 4001);
  },
);

rpcScenario(
  ["session.save 5011", "paste.collapse 5011"],
  { title: "a home that cannot be written to is an error", config: {} },
  async (host, { service }) => {
    const home = join(service.home, "agentd");
    await mkdir(home, { recursive: true });
    for (const name of ["exports", "pastes"]) await writeFile(join(home, name), "");
    const id = await openSession(host);
    const error = await host.error("session.save", { session_id: id }, 5011);
    assert.equal(error.data.reason, "save_failed");
    await host.error("paste.collapse", { text: "x" }, 5011);
  },
);

rpcScenario(
  ["skills.manage", "skills.reload", "skills.manage 4001", "skills.reload 4001"],
  "skills are listed, searched and described, and a new one is found",
  async (host, setting) => {
    const folder = await folderOf(setting);
    const id = await openSession(host, { cwd: folder });
    const manage = (action: string, query?: string) =>
      host.result("skills.manage", { action, session_id: id, ...(query === undefined ? {} : { query }) });
    const { count } = await host.result("skills.reload", { session_id: id });
    const skill = join(folder, ".agents", "skills", "weigh");
    await mkdir(skill, { recursive: true });
    await writeFile(join(skill, "SKILL.md"), "---\nname: weigh\ndescription: Weighs things.\n---\nWeigh.\n");
    const after = await host.result("skills.reload", { session_id: id });
    assert.deepEqual([after.count, /skills are available/.test(after.output)], [count + 1, true]);
    assert.ok((await manage("list")).skills.skills.includes("weigh"));
    assert.equal((await manage("inspect", "weigh")).info.description, "Weighs things.");
    assert.deepEqual((await manage("inspect", "nothing")).info, {});
    const { results } = await manage("search", "WEIGHS");
    assert.deepEqual([results[0].name, results.length], ["weigh", 1]);
    await host.error("skills.manage", { session_id: "none" }, 4001);
    await host.error("skills.reload", { session_id: "none" }, 4001);
    await host.error("skills.manage", { action: "delete" }, -32602);
  },
);
