import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { TestResult } from "../../../scripts/test/events.ts";
import { runFiles } from "../../../scripts/test/pool.ts";
import { createTestDatabase } from "../../harness/store.ts";
import { startChild } from "../store/child.ts";

/** Runs the sources as test files of one worker; resolves to `name: outcome error` of each result. */
async function run(...sources: readonly string[]): Promise<TestResult[]> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-guard-"));
  try {
    const results: TestResult[] = [];
    const files = sources.map((_, index) => join(folder, `f${index}.test.ts`));
    await Promise.all(files.map((file, index) => writeFile(file, `${HEAD}${sources[index]}`)));
    await runFiles({
      files,
      workers: 1,
      env: process.env,
      onFileStart: () => {},
      onFileEnd: () => {},
      onOutput: () => {},
      onResult: (_, result) => void results.push(result),
    });
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const HEAD = `import { test, describe, it, after } from "node:test";\n`;

const leaks = [
  ["a variable of the environment", `process.env.LEFT = "x";`, "the environment variable LEFT"],
  ["another working directory", `process.chdir("/");`, "another working directory"],
  ["a global", `globalThis.left = 1;`, "the global left"],
  ["a changed global", `globalThis.fetch = () => {};`, "the global fetch"],
  ["a timer", `setInterval(() => {}, 60_000);`, "1 open Timeout"],
  [
    "a server",
    `const { createServer } = await import("node:net"); await new Promise((r) => createServer().listen(0, r));`,
    "1 open TCPServerWrap",
  ],
] as const;

test("a test that leaves something behind fails with its name, and the next test of the process does not", async () => {
  const sources = leaks.map(([what, code]) => `test("leaves ${what}", async () => { ${code} });`);
  const results = await run(...sources, `test("innocent", () => {});`);
  for (const [what, , said] of leaks) {
    const found = results.find(({ name }) => name === `leaves ${what}`);
    assert.equal(found?.outcome, "failed", what);
    assert.match(found.error ?? "", new RegExp(`This test leaves behind: .*${said}`), what);
  }
  assert.equal(results.find(({ name }) => name === "innocent")?.outcome, "passed");
});

test("an unhandled error fails the test that was running", async () => {
  const results = await run(
    `test("rejects", async () => { void Promise.reject(new Error("lost")); await new Promise((r) => setTimeout(r, 5)); });`,
  );
  assert.deepEqual(
    results.map(({ name, outcome }) => [name, outcome]),
    [["rejects", "failed"]],
  );
  assert.match(results[0]?.error ?? "", /lost/);
});

test("what a test cleans up in its own hooks is not left behind", async () => {
  const results = await run(
    `test("cleans up", (t) => { const timer = setInterval(() => {}, 60_000); t.after(() => clearInterval(timer)); });
     describe("a group", () => { it("inside", (t) => { process.env.LEFT = "x"; t.after(() => { delete process.env.LEFT; }); }); });`,
  );
  assert.deepEqual(
    results.map(({ name, outcome }) => [name, outcome]),
    [
      ["cleans up", "passed"],
      ["inside", "passed"],
    ],
  );
});

test("hooks of one file do not reach the tests of the next", async () => {
  const results = await run(
    `import { beforeEach } from "node:test"; let runs = 0; beforeEach(() => { runs++; });
     test("one", () => {}); after(() => { globalThis.__newRuns = () => runs; runs = 0; });`,
    `test("two", () => { if (globalThis.__newRuns() > 0) throw new Error("the hook ran"); });`,
  );
  assert.deepEqual(
    results.map(({ name, outcome }) => [name, outcome]),
    [
      ["one", "passed"],
      ["two", "passed"],
    ],
  );
});

test("a file that ends its process fails, and the files behind it still run", async () => {
  const results = await run(`test("exits", () => process.exit(3));`, `test("behind", () => {});`);
  assert.deepEqual(
    results.map(({ outcome, error }) => [outcome, error]),
    [
      ["failed", "the process ended with 3"],
      ["passed", undefined],
    ],
  );
});

test("a process that is killed from outside fails the test that it ran, also when a child of it holds its output", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-killed-"));
  const pidFile = join(folder, "pid");
  const killed = `import { spawn } from "node:child_process"; import { writeFileSync } from "node:fs";
    test("is killed", async () => {
      const child = spawn("sleep", ["600"], { stdio: "inherit" });
      writeFileSync(${JSON.stringify(pidFile)}, String(child.pid));
      process.kill(process.pid, "SIGKILL");
      await new Promise(() => {});
    });`;
  try {
    const results = await run(killed, `test("behind", () => {});`);
    assert.deepEqual(
      results.map(({ outcome, error }) => [outcome, error]),
      [
        ["failed", "the process ended with SIGKILL"],
        ["passed", undefined],
      ],
    );
  } finally {
    process.kill(Number(await readFile(pidFile, "utf8")), "SIGKILL");
    await rm(folder, { recursive: true, force: true });
  }
});

test("a script of the tests ends when the process that started it is gone", async () => {
  const database = await createTestDatabase();
  const child = startChild("./child-sender.ts", [database.url]);
  for await (const line of child.lines) if (line) break;
  // As the end of this process would do it.
  child.process.stdin?.end();
  assert.equal(await child.exit, 1);
  await database.drop();
});

test("a file that cannot be loaded fails", async () => {
  const results = await run(`import "./nowhere.ts";`);
  assert.equal(results.length, 1);
  assert.match(results[0]?.error ?? "", /nowhere/);
});
