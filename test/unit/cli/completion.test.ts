import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { before, describe, it } from "node:test";
import { promisify } from "node:util";
import { rootCommand } from "../../../src/cli/root.ts";
import { completionScript, SHELLS } from "../../../src/cli/help/completion.ts";
import { commandTree, type CommandNode } from "../../../src/cli/help/tree.ts";

const execute = promisify(execFile);
let tree: readonly CommandNode[];
before(async () => {
  tree = await commandTree(rootCommand);
});

/** Completes the last word in a real bash, which loads the script as people do. Returns the candidates. */
async function inBash(...lines: readonly (readonly string[])[]): Promise<readonly (readonly string[])[]> {
  const calls = lines.map((words) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    return `COMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; COMPREPLY=(); _agentd; echo "\${COMPREPLY[*]}"`;
  });
  const script = `${completionScript("bash", tree)}\n${calls.join("\n")}\n`;
  const { stdout } = await execute("bash", ["--norc", "-c", script]);
  return stdout
    .split("\n")
    .slice(0, -1)
    .map((line) => line.split(" ").filter((word) => word !== ""));
}

describe("the completion of bash", () => {
  it("offers the commands and options of every command", async () => {
    const lines = tree.map(({ path }) => ["agentd", ...path.split("/").slice(1), ""]);
    const found = await inBash(...lines);
    for (const [at, { path, commands, options }] of tree.entries()) {
      const wanted = [...commands.map(([name]) => name), ...options.flatMap(({ names }) => names)];
      assert.deepEqual(found[at], wanted, path);
      assert.ok(wanted.includes("--help") && wanted.includes("--profile"), path);
    }
  });

  it("completes what was begun, behind options and their values", async () => {
    assert.deepEqual(
      await inBash(
        ["agentd", "sta"],
        ["agentd", "runs", "sh"],
        ["agentd", "runs", "list", "--js"],
        ["agentd", "--profile", "work", "runs", "fo"],
        ["agentd", "gateway", "--por"],
      ),
      [["status"], ["show"], ["--json"], ["follow"], ["--port"]],
    );
  });

  it("offers the values of an option, and leaves free text to the names of files", async () => {
    assert.deepEqual(
      await inBash(
        ["agentd", "runs", "approve", "run_1", "--for", ""],
        ["agentd", "runs", "approve", "run_1", "--for", "=", ""],
        ["agentd", "runs", "approve", "run_1", "--for", "="],
        ["agentd", "runs", "list", "--status", "comp"],
        ["agentd", "sessions", "export", "--output", ""],
      ),
      [
        ["once", "session", "always"],
        ["once", "session", "always"],
        ["once", "session", "always"],
        ["completed"],
        [],
      ],
    );
  });
});

describe("a completion script", () => {
  for (const shell of SHELLS) {
    const isMissing = spawnSync(shell, ["-c", "true"]).error !== undefined;
    it(`is valid ${shell}`, { skip: isMissing && `${shell} is not installed` }, async () => {
      const flag = shell === "fish" ? "--no-execute" : "-n";
      const child = spawnSync(shell, [flag], { input: completionScript(shell, tree), encoding: "utf8" });
      assert.deepEqual([child.status, child.stderr], [0, ""]);
    });

    it(`names every command and option for ${shell}`, () => {
      const script = completionScript(shell, tree);
      for (const { path, options } of tree) {
        assert.ok(script.includes(path), path);
        for (const { names } of options)
          for (const name of names) assert.ok(script.includes(name.replace(/^--?/, "")), name);
      }
      // A line break in a description would end a command of the script.
      assert.doesNotMatch(script, /undefined|\[object/);
    });
  }
});
