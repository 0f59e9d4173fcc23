import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { ensureEnvVariable, readEnvFile, setEnvVariable } from "../../../src/config/home.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { secretValues } from "../../../src/config/secret-values.ts";
import { Variables } from "../../../src/config/variables.ts";
import { createHome, modeOf } from "./home-folder.ts";

const variablesOf = async (path: string) => (await readEnvFile(path)).variables;

describe("readEnvFile", () => {
  it("is empty when there is no file", async () => {
    await using made = await createHome();
    assert.deepEqual(await variablesOf(join(made.home, ".env")), {});
  });

  it("reads quotes, comments and export", async () => {
    await using made = await createHome({ ".env": "# top\nA=1 # one\nexport B='x # y'\nC=\"l1\\nl2\"\n" });
    assert.deepEqual(await variablesOf(join(made.home, ".env")), { A: "1", B: "x # y", C: "l1\nl2" });
  });
});

describe("setEnvVariable", () => {
  it("creates a private file", async () => {
    await using made = await createHome();
    const path = join(made.home, "deep", ".env");
    await setEnvVariable(path, "A", "1");
    assert.equal(await readFile(path, "utf8"), "A=1\n");
    assert.equal(await modeOf(path), "600");
  });

  it("changes its own line and keeps all others, comments included", async () => {
    await using made = await createHome({ ".env": "# keys\nA=1\n\nexport B=2 # two\nAB=3" });
    const path = join(made.home, ".env");
    await setEnvVariable(path, "B", "x");
    assert.equal(await readFile(path, "utf8"), "# keys\nA=1\n\nB=x\nAB=3");
    await setEnvVariable(path, "C", "y");
    assert.equal(await readFile(path, "utf8"), "# keys\nA=1\n\nB=x\nAB=3\nC=y\n");
  });

  it("changes the last of two lines, which is the effective one", async () => {
    await using made = await createHome({ ".env": "A=1\nA=2\n" });
    await setEnvVariable(join(made.home, ".env"), "A", "3");
    assert.equal((await variablesOf(join(made.home, ".env")))["A"], "3");
  });

  for (const value of ["", "a b", "a#b", "it's", 'say "hi"', "`x`", "$HOME", "a=b", "ünï", " edge "]) {
    it(`writes ${JSON.stringify(value)} so that it is read back`, async () => {
      await using made = await createHome();
      const path = join(made.home, ".env");
      await setEnvVariable(path, "A", value);
      assert.equal((await variablesOf(path))["A"], value);
    });
  }

  for (const value of ["two\nlines", "back\\slash", "'\"`"]) {
    it(`refuses ${JSON.stringify(value)}, which the format cannot hold`, async () => {
      await using made = await createHome();
      await assert.rejects(setEnvVariable(join(made.home, ".env"), "A", value), ServiceError);
    });
  }

  it("refuses an invalid name", async () => {
    await using made = await createHome();
    for (const name of ["", "1A", "A B", "A=B", "A\nB"]) {
      await assert.rejects(setEnvVariable(join(made.home, ".env"), name, "1"), /not a valid name/);
    }
  });

  it("does not change a similar line inside a quoted value", async () => {
    await using made = await createHome();
    const path = join(made.home, ".env");
    await writeFile(path, 'A="open\nB=1"\n');
    await setEnvVariable(path, "B", "2");
    assert.deepEqual(await variablesOf(path), { A: "open\nB=1", B: "2" });
  });

  it("refuses rather than change another variable, whatever the quotes", async () => {
    await using made = await createHome();
    const path = join(made.home, ".env");
    const text = 'C=1\nA="open\n';
    await writeFile(path, text);
    const before = await variablesOf(path);
    const outcome = await setEnvVariable(path, "B", 'say "hi"').catch((error: unknown) => error);
    const { B: written, ...others } = await variablesOf(path);
    assert.deepEqual(others, before);
    if (outcome === undefined) assert.equal(written, 'say "hi"');
    else assert.equal(await readFile(path, "utf8"), text);
  });

  it("loses no concurrent change", async () => {
    await using made = await createHome();
    const path = join(made.home, ".env");
    const names = ["A", "B", "C", "D", "E"];
    await Promise.all(names.map((name) => setEnvVariable(path, name, name.toLowerCase())));
    assert.deepEqual(await variablesOf(path), { A: "a", B: "b", C: "c", D: "d", E: "e" });
  });
});

describe("ensureEnvVariable", () => {
  it("gives concurrent callers the same value", async () => {
    await using made = await createHome();
    let count = 0;
    const ask = () => ensureEnvVariable(join(made.home, ".env"), "KEY", () => `value-${(count += 1)}`);
    const answers = await Promise.all([ask(), ask(), ask()]);
    assert.deepEqual(new Set(answers.map(({ value }) => value)), new Set(["value-1"]));
    assert.equal(answers.filter(({ created }) => created).length, 1);
  });

  it("treats an empty line as unset, and replaces it", async () => {
    await using made = await createHome({ ".env": "KEY=\nB=1\n" });
    const path = join(made.home, ".env");
    assert.deepEqual(await ensureEnvVariable(path, "KEY", () => "new"), { value: "new", created: true });
    assert.equal(await readFile(path, "utf8"), "KEY=new\nB=1\n");
  });
});

describe("a secret that a user stores", () => {
  it("is marked in the file when its name does not show it, so the next start hides it too", async () => {
    await using made = await createHome({ ".env": "# mine\nOTHER=blue-and-white-1\n" });
    const path = join(made.home, ".env");
    const variables = await Variables.open({ env: {}, home: made.home });
    await variables.set("COLOUR", "blue-and-green-2");
    await variables.set("COLOUR", "blue-and-green-3");
    await variables.set("COLOUR_KEY", "blue-and-green-4");
    variables.close();
    assert.equal(
      await readFile(path, "utf8"),
      "# mine\nOTHER=blue-and-white-1\n# secret\nCOLOUR=blue-and-green-3\nCOLOUR_KEY=blue-and-green-4\n",
    );
    const { config, env, secretNames } = await loadConfig({ home: made.home, env: {} });
    assert.deepEqual(secretValues(config, env, secretNames).toSorted(), [
      "blue-and-green-3",
      "blue-and-green-4",
    ]);
  });
});
