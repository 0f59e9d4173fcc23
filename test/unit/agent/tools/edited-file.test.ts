import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ToolError, type FileAccess, type Tool } from "../../../../src/agent/tool/tool.ts";
import { createPatch } from "../../../../src/agent/tools/files/patch.ts";
import { createReadFile } from "../../../../src/agent/tools/files/read-file.ts";
import { createWriteFile } from "../../../../src/agent/tools/files/write-file.ts";
import { call, callWhole, workspace } from "./call.ts";

const [read, write, patch] = [createReadFile(), createWriteFile(), createPatch()];

/** An editor with these open texts that refuses to write the files in `refuses`. */
function editor(
  texts: Readonly<Record<string, string>>,
  { refuses = () => false }: { readonly refuses?: (path: string, text: string) => boolean } = {},
) {
  const open = new Map(Object.entries(texts));
  const files: FileAccess = {
    read: async (path) => open.get(path),
    writes: () => true,
    write: async (path, text) => {
      if (refuses(path, text)) throw new ToolError("the buffer is locked");
      open.set(path, text);
    },
  };
  return { open, context: { files } };
}

const previewOf = (tool: Tool, input: unknown, context: { cwd: string; files?: FileAccess }) =>
  tool.preview?.(input as never, { signal: new AbortController().signal, ...context });

test("lines come from the text in the editor, even an empty one", async (t) => {
  const cwd = workspace(t);
  const path = join(cwd, "a.txt");
  writeFileSync(path, "saved\n");
  const { open, context } = editor({ [path]: "one\ntwo\nthree" });
  assert.equal(
    await call(read, { path, offset: 2 }, { cwd, context }),
    "2\ttwo\n3\tthree\n(end of file, 3 lines)",
  );
  open.set(path, "");
  assert.equal(await call(read, { path }, { cwd, context }), "The file is empty.");
  open.delete(path);
  assert.match(await call(read, { path }, { cwd, context }), /^1\tsaved\n/);
});

test("a patch whose last file is refused leaves the other files unchanged", async (t) => {
  const cwd = workspace(t);
  const [a, b] = [join(cwd, "a.txt"), join(cwd, "b.txt")];
  for (const path of [a, b]) writeFileSync(path, "saved\n");
  const { open, context } = editor(
    { [a]: "old a\n", [b]: "old b\n" },
    { refuses: (path, text) => path === b && text === "new b\n" },
  );
  const hunk = (name: string) =>
    `--- a/${name}.txt\n+++ b/${name}.txt\n@@ -1 +1 @@\n-old ${name}\n+new ${name}\n`;
  await assert.rejects(call(patch, { diff: hunk("a") + hunk("b") }, { cwd, context }), /locked/);
  assert.deepEqual(
    [...open],
    [
      [a, "old a\n"],
      [b, "old b\n"],
    ],
  );
  assert.equal(readFileSync(a, "utf8"), "saved\n");
});

test("an aborted call stops before it asks the editor to write", async (t) => {
  const cwd = workspace(t);
  const { open, context } = editor({});
  const signal = AbortSignal.abort(new Error("stopped"));
  await assert.rejects(call(write, { path: "a.txt", content: "x" }, { cwd, signal, context }), /stopped/);
  assert.equal(open.size, 0);
});

test("the preview of a call shows exactly its changes", async (t) => {
  const cwd = workspace(t);
  const path = join(cwd, "a.txt");
  writeFileSync(path, "saved\n");
  for (const files of [undefined, editor({ [path]: "edited saved\n" }).context.files]) {
    const context = files ? { files } : {};
    for (const [tool, input] of [
      [patch, { path, old: "saved", new: "patched" }],
      [write, { path, content: "written\n" }],
      [write, { path: "new.txt", content: "new\n" }],
    ] as const) {
      const proposed = await previewOf(tool, input, { cwd, ...context });
      const { changes } = await callWhole(tool, input, { cwd, context });
      assert.ok(proposed?.length);
      assert.deepEqual(changes, proposed);
    }
    writeFileSync(path, "saved\n");
  }
  await assert.rejects(async () => previewOf(patch, { path, old: "absent", new: "" }, { cwd }), ToolError);
});

test("for binary and large files people see only the size", async (t) => {
  const cwd = workspace(t);
  const at = (name: string) => join(cwd, name);
  writeFileSync(at("bytes"), Buffer.from([1, 0, 2]));
  writeFileSync(at("large"), "x\n".repeat(600_000));
  const change = async (path: string, content: string) =>
    (await callWhole(write, { path, content }, { cwd })).changes?.[0];
  assert.deepEqual(await change("bytes", "text"), {
    path: at("bytes"),
    diff: "",
    omitted: "binary",
    size: 3,
  });
  assert.deepEqual(await change("large", "text"), {
    path: at("large"),
    diff: "",
    omitted: "large",
    size: 1_200_000,
  });
  // Long lines, because a diff of very many lines takes too long and is omitted.
  const grown = await change("large", `${"y".repeat(1_999)}\n`.repeat(100));
  assert.equal(grown?.size, 200_000);
  assert.equal(grown?.new_text, undefined);
  assert.ok(grown?.diff.startsWith("---"));
});
