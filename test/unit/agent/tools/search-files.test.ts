import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createSearchFiles } from "../../../../src/agent/tools/files/search-files.ts";
import { call, inspect, workspace } from "./call.ts";

const search = createSearchFiles();

function fill(cwd: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true });
    writeFileSync(join(cwd, path), content);
  }
}

test("content: matching lines with their numbers, in the order of paths", async (t) => {
  const cwd = workspace(t);
  fill(cwd, { "b.ts": "x\nneedle 1\n", "a/z.ts": "needle 2", "a/b/c.md": "\n\nNeedle 3\r\n" });
  assert.equal(
    await call(search, { pattern: "needle \\d" }, { cwd }),
    "a/z.ts:1: needle 2\nb.ts:2: needle 1",
  );
  assert.match(
    await call(search, { pattern: "needle", ignore_case: true }, { cwd }),
    /^a\/b\/c\.md:3: Needle 3\n/,
  );
  assert.equal(
    await call(search, { pattern: "needle", glob: "*.ts", path: "a" }, { cwd }),
    "a/z.ts:1: needle 2",
  );
  assert.equal(await call(search, { pattern: "^needle", path: "b.ts" }, { cwd }), "b.ts:2: needle 1");
  assert.equal(await call(search, { pattern: "absent" }, { cwd }), "Nothing found.");
});

test("names: globs with stars, braces and folders", async (t) => {
  const cwd = workspace(t);
  fill(cwd, { "a.ts": "", "src/b.ts": "", "src/deep/c.js": "", "src/d.md": "", "#x": "", "!y": "" });
  const names = (pattern: string) => call(search, { pattern, mode: "names" }, { cwd });
  assert.equal(await names("*.ts"), "a.ts\nsrc/b.ts");
  assert.equal(await names("src/**/*.{ts,js}"), "src/b.ts\nsrc/deep/c.js");
  assert.equal(await names("/a.*"), "a.ts");
  assert.equal(await names("#x"), "#x");
  assert.equal(await names("!y"), "!y");
  await assert.rejects(names("{a,b}".repeat(10)), ToolError);
});

test(".gitignore applies: nested, negated, and from above the searched folder", async (t) => {
  const cwd = workspace(t);
  fill(cwd, {
    ".git/config": "needle",
    ".gitignore": "*.log\nbuild/\n",
    "a.log": "needle",
    "build/x": "needle",
    "sub/.gitignore": "!keep.log\nlocal\n",
    "sub/keep.log": "needle",
    "sub/other.log": "needle",
    "sub/local": "needle",
    "sub/c": "needle",
  });
  assert.equal(await call(search, { pattern: "needle" }, { cwd }), "sub/c:1: needle\nsub/keep.log:1: needle");
  assert.equal(
    await call(search, { pattern: "needle", path: "sub" }, { cwd }),
    "sub/c:1: needle\nsub/keep.log:1: needle",
  );
});

test("binary files, links, secrets and huge files are omitted, and the last two are reported", async (t) => {
  const cwd = workspace(t);
  const outside = workspace(t);
  fill(outside, { "far.txt": "needle" });
  fill(cwd, {
    bin: Buffer.from("needle\0"),
    ".env": "needle=secret",
    huge: `needle${"x".repeat(5_000_000)}`,
    ok: "needle",
  });
  symlinkSync(outside, join(cwd, "out"));
  symlinkSync(join(outside, "far.txt"), join(cwd, "far"));
  const text = await call(search, { pattern: "needle" }, { cwd });
  assert.match(
    text,
    /^ok:1: needle\n\(files that may hold secrets were omitted; files above 4194304 bytes were omitted\)$/,
  );
});

test("results, matches per file and line length are limited, and the limits are reported", async (t) => {
  const cwd = workspace(t);
  fill(cwd, {
    a: "needle\n".repeat(200),
    b: "needle\n",
    c: `${"y".repeat(1_000)}needle${"z".repeat(1_000_000)}`,
  });
  const text = await call(search, { pattern: "needle" }, { cwd });
  assert.equal(text.match(/^a:/gm)?.length, 50);
  assert.match(text, /\nb:1: needle\nc:1: \.\.\.y{40}needlez+\.\.\.\n\(a has more than 50 matches\)$/);
  assert.ok(text.length < 2_000);
  assert.match(
    await call(search, { pattern: "needle", max_results: 3 }, { cwd }),
    /^(a:\d: needle\n){3}\(stopped at 3 results/,
  );
});

test("a pattern that backtracks endlessly is stopped and refused", async (t) => {
  const cwd = workspace(t);
  fill(cwd, { a: `${"a".repeat(60)}!` });
  await assert.rejects(
    call(search, { pattern: "(a+)+$" }, { cwd }),
    (error) => error instanceof ToolError && /Simplify it/.test(error.message),
  );
});

test("an abort ends a search in the middle of a file", async (t) => {
  const cwd = workspace(t);
  fill(cwd, { a: `${"a".repeat(60)}!` });
  const controller = new AbortController();
  const running = call(search, { pattern: "(a+)+$" }, { cwd, signal: controller.signal });
  setImmediate(() => controller.abort(new Error("stopped")));
  await assert.rejects(running, /stopped/);
});

test("an invalid pattern and a missing folder are reported", async (t) => {
  const cwd = workspace(t);
  await assert.rejects(call(search, { pattern: "(" }, { cwd }), ToolError);
  await assert.rejects(call(search, { pattern: "x", path: "none" }, { cwd }), ToolError);
  assert.deepEqual(inspect(search, { pattern: "x" }, cwd).reads, [cwd]);
});
