/** Runs the commands of a developer's day inside the real sandbox: they succeed, and no approval is needed. */
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { decide } from "../../../src/agent/question/policy/policy.ts";
import { OutputExcerpt } from "../../../src/exec/output.ts";
import { runCommand } from "../../../src/exec/process-group.ts";
import { startSandboxProxy, type SandboxProxy } from "../../../src/exec/sandbox/proxy.ts";
import { commandProfile } from "../../../src/exec/sandbox/rules.ts";
import { findSandbox, type Sandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { everydayCommands } from "./everyday.ts";

const HOST = "registry.example.com";
const found = await findSandbox();
const canReach = found.status.active && found.status.network;

describe("in the sandbox", { skip: found.sandbox ? false : "bubblewrap does not work here" }, () => {
  let root: string;
  let server: Server;
  let proxy: SandboxProxy | undefined;
  let count = 0;
  before(async () => {
    // Not below /tmp, which each sandbox replaces.
    root = await realpath(await mkdtemp(join(existsSync("/srv") ? "/srv" : tmpdir(), "agentd-everyday-")));
    await mkdir(join(root, "user"));
    await makeProject(join(root, "project"));
    server = await serve(root);
    if (canReach) proxy = await startProxy(join(root, "proxy.sock"));
  });
  after(async () => {
    await proxy?.close();
    await new Promise((resolve) => server.close(resolve));
    await rm(root, { recursive: true, force: true });
  });

  for (const { command, needs } of everydayCommands) {
    const missing = needs.filter((name) => !isInstalled(name));
    const isNetwork = /\{(?:registry|git)\}/.test(command);
    const reason =
      missing.length > 0 ? `${missing.join(", ")} is not installed` : isNetwork && !canReach && "no socat";
    it(`\`${command}\` succeeds, and no approval is needed`, { skip: reason }, async () => {
      const url = `http://${HOST}:${(server.address() as AddressInfo).port}`;
      const text = command.replaceAll("{registry}", url).replaceAll("{git}", `${url}/repo.git`);
      const cwd = join(root, `work-${(count += 1)}`);
      await cp(join(root, "project"), cwd, { recursive: true, verbatimSymlinks: true });
      assert.equal(decisionOn(text, cwd).outcome, "allow", decisionOn(text, cwd).reason);
      const { exitCode, output } = await run(text, cwd);
      assert.equal(exitCode, 0, output);
    });
  }

  function decisionOn(command: string, cwd: string) {
    const intent = {
      kind: "command",
      title: command,
      command,
      sandbox: { network: canReach, hosts: [] },
    } as const;
    const paths = { workspace: cwd, home: join(root, "user"), agentHome: join(root, "service") };
    return decide(intent, { ...paths, mode: "ask" }, "terminal");
  }

  async function run(command: string, cwd: string) {
    const own = join(root, "own");
    for (const name of ["tmp", "home"]) await mkdir(join(own, name), { recursive: true });
    const env = { PATH: process.env["PATH"] ?? "", HOME: join(root, "user"), LANG: "C.UTF-8" };
    const folders = {
      home: join(root, "service"),
      userHome: join(root, "user"),
      readableInHome: [],
      writable: [],
      readable: [],
      hidden: [],
      searchPath: env.PATH,
    };
    const proxySocket = canReach ? join(root, "proxy.sock") : undefined;
    const profile = commandProfile(folders, { writable: [cwd], own, proxySocket });
    const excerpt = new OutputExcerpt(65_536);
    const { exitCode } = await runCommand(command, {
      cwd,
      env,
      timeoutMs: 60_000,
      onOutput: (bytes) => excerpt.push(bytes),
      signal: new AbortController().signal,
      confine: (line) => (found.sandbox as Sandbox).confine(line, profile),
      limits: { maxProcesses: 512, maxMemoryBytes: 4_294_967_296 },
    });
    return { exitCode, output: excerpt.text() };
  }
});

function startProxy(socketPath: string): Promise<SandboxProxy> {
  return startSandboxProxy({
    socketPath,
    isAllowed: (host) => host === HOST,
    onRefused: () => {},
    allowedPrivateHosts: [HOST],
    lookup: () => Promise.resolve(["127.0.0.1"]),
  });
}

/** A package registry with one package, and a repository over plain HTTP. */
async function serve(root: string): Promise<Server> {
  await mkdir(join(root, "left"));
  await writeFile(join(root, "left/package.json"), JSON.stringify({ name: "left", version: "1.0.0" }));
  await writeFile(join(root, "left/index.js"), "module.exports = 'left';\n");
  const name = execFileSync("tar", [
    "czf",
    join(root, "left.tgz"),
    "--transform",
    "s/^left/package/",
    "-C",
    root,
    "left",
  ]);
  assert.equal(String(name), "");
  execFileSync("git", ["clone", "-q", "--bare", join(root, "project"), join(root, "repo.git")]);
  execFileSync("git", ["-C", join(root, "repo.git"), "update-server-info"]);
  const tarball = readFileSync(join(root, "left.tgz"));
  const shasum = createHash("sha1").update(tarball).digest("hex");
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://x");
    if (pathname === "/left") {
      const dist = { tarball: `http://${HOST}:${(server.address() as AddressInfo).port}/left.tgz`, shasum };
      const version = { name: "left", version: "1.0.0", dist };
      const body = { name: "left", "dist-tags": { latest: "1.0.0" }, versions: { "1.0.0": version } };
      response.setHeader("content-type", "application/json").end(JSON.stringify(body));
    } else if (pathname === "/left.tgz") response.end(tarball);
    else if (pathname.startsWith("/repo.git/") && existsSync(join(root, pathname))) {
      response.end(readFileSync(join(root, pathname)));
    } else response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return server;
}

async function makeProject(folder: string): Promise<void> {
  const files: Readonly<Record<string, string>> = {
    "README.md": "# Project\n\none two three\n",
    "data.txt": "one\ntwo\n",
    "package.json": JSON.stringify({
      name: "project",
      version: "1.0.0",
      scripts: { test: "node --test", build: "node src/sum.js > build.log" },
    }),
    "src/sum.js": "export const sum = (a, b) => a + b;\nconsole.log(sum(1, 2));\n".replace("export ", ""),
    "test.mjs": 'import test from "node:test";\ntest("adds", () => {});\n',
    "scripts/run.sh": "#!/bin/bash\necho run\n",
    "tool.py": "def double(x):\n    return 2 * x\n\nprint(double(21))\n",
    "test_tool.py":
      "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1, 1)\n",
    "hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
    Makefile: "all:\n\techo built > build/made\n",
    "Makefile.c": "build/hello: hello.c\n\tgcc -o $@ $<\n",
    "change.diff": "--- data.txt\n+++ data.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n",
    "change.patch":
      "diff --git a/data.txt b/data.txt\n--- a/data.txt\n+++ b/data.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n",
    "build/list.txt": "a\n",
    "build/a": "",
    "build/b": "",
    "AGENTS.md": "rules\n",
    ".vscode/settings.json": "{}\n",
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, path, ".."), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  execFileSync("tar", ["czf", join(folder, "build/src.tar.gz"), "-C", folder, "src"]);
  execFileSync("gzip", ["-k", join(folder, "build/list.txt")]);
  const git = (...words: readonly string[]) => execFileSync("git", ["-C", folder, ...words]);
  git("init", "-q", "-b", "main");
  git("config", "user.name", "Somebody");
  git("config", "user.email", "somebody@example.com");
  git("add", "-A");
  git("commit", "-q", "-m", "start");
}

function isInstalled(name: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, name)));
}
