import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Json } from "../../harness/rpc.ts";
import { openSession, rpcScenario } from "./scenario.ts";

rpcScenario("complete.slash", "completes names first, then arguments", async (host) => {
  const session_id = await openSession(host);
  const complete = (text: string) => host.result("complete.slash", { text, session_id });
  const names = await complete("/mo");
  assert.deepEqual([names.items[0].text, names.replace_from], ["model", 1]);
  assert.ok((await complete("/")).items.length <= 30);
  assert.deepEqual(
    (await complete("/fo")).items.map(({ text }: Json) => text),
    ["fork"],
    "an alias stays what was typed",
  );
  const [first] = (await complete("/compact")).items;
  assert.deepEqual([first.text, first.display.split(" ")[0]], ["compact", "/compact"]);
  assert.match(first.meta, /\/compress/);
  const values = await complete("/reasoning lo");
  assert.deepEqual([values.items.map(({ text }: Json) => text), values.replace_from], [["low"], 11]);
  for (const text of ["", "mo", "/zzz", "/title x", "/constructor ", "x".repeat(4096)]) {
    assert.deepEqual((await complete(text)).items, [], text);
  }
  await host.error("complete.slash", { text: "x".repeat(4097) }, -32602);
});

rpcScenario(["complete.slash 4001", "complete.path 4001"], "the session is unknown", async (host) => {
  await host.error("complete.slash", { text: "/", session_id: "none" }, 4001);
  await host.error("complete.path", { word: "a", session_id: "none" }, 4001);
});

rpcScenario(
  "complete.path",
  "lists the session's folder, folders first",
  async (host, { service, owner }) => {
    const folder = join(service.workspace, owner);
    await mkdir(join(folder, "sub", "deep"), { recursive: true });
    await writeFile(join(folder, "sum.txt"), "");
    await writeFile(join(folder, ".hidden"), "");
    await symlink("/etc", join(folder, "out"));
    const session_id = await openSession(host, { cwd: folder });
    const complete = async (word: string, more: Json = {}) => {
      const { items } = await host.result("complete.path", { word, session_id, ...more });
      return items.map(({ text }: Json) => text);
    };
    // A search ends after a while with what it has found, which on a busy machine may be nothing yet.
    const assertFinds = async (word: string, expected: readonly string[]) => {
      let found = await complete(word);
      while (found.length < expected.length) found = await complete(word);
      assert.deepEqual(found, expected);
    };
    assert.deepEqual(await complete("su"), ["sub/", "sum.txt"]);
    assert.deepEqual(await complete("@file:./su"), ["@file:./sub/", "@file:./sum.txt"]);
    assert.deepEqual(await complete("@folder:su"), ["@folder:sub/"]);
    await writeFile(join(folder, "sub", "deep", "main.py"), "");
    await writeFile(join(folder, "sub", "deep", "domain.ts"), "");
    await assertFinds("@mai", ["@file:sub/deep/main.py", "@file:sub/deep/domain.ts"]);
    await assertFinds("@file:main.p", ["@file:sub/deep/main.py"]);
    await assertFinds("@su", ["@sub/", "@file:sum.txt"]);
    assert.deepEqual((await complete("@")).slice(0, 4), ["@file:", "@folder:", "@diff", "@staged"]);
    assert.deepEqual(await complete("@sta"), ["@staged"]);
    assert.deepEqual(await complete(".h"), [".hidden"]);
    assert.deepEqual(await complete("", { cwd: "sub" }), ["deep/"]);
    for (const word of ["out/", "/etc/", "/", "a\0b", "no/such/"])
      assert.deepEqual(await complete(word), [], word);
    assert.deepEqual(await complete("", { cwd: "/etc" }), []);
    assert.deepEqual(await complete("", { cwd: "a\0" }), []);
    await host.error("complete.path", { word: "x".repeat(4097) }, -32602);
  },
);

rpcScenario(
  "complete.path",
  "a large folder is read in part, and 30 entries are shown",
  async (host, { service, owner }) => {
    const folder = join(service.workspace, `${owner}-many`);
    await mkdir(folder);
    await Promise.all(Array.from({ length: 100 }, (_, n) => writeFile(join(folder, `file${n}`), "")));
    const { items } = await host.result("complete.path", { word: `${folder}/f` });
    assert.equal(items.length, 30);
  },
);
