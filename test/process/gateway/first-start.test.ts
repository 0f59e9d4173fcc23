import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { runScript } from "../../harness/agentd.ts";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";

it("services that first start at the same time agree on one key", async () => {
  await using made = await createHome();
  const home = join(made.home, "new");
  const script = fileURLToPath(new URL("../../unit/config/first-start.ts", import.meta.url));
  const outcomes = await Promise.all([1, 2, 3].map(() => runScript(script, [home], {})));
  const answers = outcomes.map(({ code, stdout, stderr }) => {
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as { readonly key: string; readonly created: boolean };
  });
  assert.equal(new Set(answers.map(({ key }) => key)).size, 1);
  assert.equal(answers.filter(({ created }) => created).length, 1);
  assert.equal(await readFile(join(home, ".env"), "utf8"), `API_SERVER_KEY=${answers[0]?.key}\n`);
  assert.equal(await modeOf(join(home, ".env")), "600");
});
