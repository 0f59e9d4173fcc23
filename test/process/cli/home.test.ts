/** Homes that cannot be made or used, by the program as people start it. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

/** Commands that make the home, and commands that read it first. */
const making = [
  ["gateway", "--port", "0"],
  ["rpc"],
  ["chat", "hello"],
  ["cron", "tick"],
  ["cron", "create", "every 1h", "hi"],
  ["config", "set", "log.level", "info"],
];
const looking = [
  ["setup", "--provider", "openai", "--model", "x"],
  ["cron", "list"],
  ["config", "get", "api_server.port"],
  ["model", "show"],
  ["sessions", "list"],
  ["outbox", "list"],
];

interface Context {
  after(clean: () => Promise<void>): void;
}

async function scratch(t: Context): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-home-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "file"), "");
  return folder;
}

/** In a process of its own what serves its standard input, which ends at once. */
function runAgentd(words: readonly string[], env: Readonly<Record<string, string>>): Promise<Outcome> {
  const isServing = ["gateway", "rpc", "chat"].includes(words[0] ?? "");
  return isServing ? agentd(words, env, "") : keptAgentd(words, env);
}

/** One sentence that ends with what to do, and never the inside of the program. */
function assertPlain(words: readonly string[], stderr: string, wanted: RegExp): void {
  assert.match(stderr, wanted, words.join(" "));
  assert.doesNotMatch(stderr, /^ {4}at |Error:/m, words.join(" "));
}

for (const [what, path] of [
  ["is a file", "file"],
  ["lies below a file", "file/a/b"],
] as const) {
  test(`if the home ${what}, every command says so in one sentence and exits with 1`, async (t) => {
    const env = { AGENTD_HOME: join(await scratch(t), path) };
    for (const words of making) {
      const { code, stderr } = await runAgentd(words, env);
      assert.equal(code, 1, words.join(" "));
      assertPlain(
        words,
        stderr,
        /cannot be (made|created|read) \([a-z ]+, E[A-Z]+\)\. (Set AGENTD_HOME to a folder you may write to|Check the path [^\n]* AGENTD_HOME[^\n]*)\.\n$/,
      );
    }
    for (const words of looking) {
      const { code, stderr } = await runAgentd(words, env);
      assert.equal(code, 1, words.join(" "));
      assertPlain(
        words,
        stderr,
        /cannot be read \([a-z ]+, E[A-Z]+\)\. Check the path [^\n]* AGENTD_HOME[^\n]*\n$/,
      );
    }
  });
}

test("a workspace that cannot be created is reported with its setting", async (t) => {
  const folder = await scratch(t);
  await writeFile(join(folder, "config.yaml"), `agent: { workspace: ${join(folder, "file", "w")} }\n`);
  for (const words of [["gateway", "--port", "0"], ["rpc"], ["chat", "hello"], ["cron", "tick"]]) {
    const { code, stderr } = await agentd(words, { AGENTD_HOME: folder }, "");
    assert.equal(code, 1);
    assertPlain(
      words,
      stderr,
      /file\/w cannot be created \([^)]*\)\. Set agent\.workspace to a folder you may write to\./,
    );
  }
  const { stdout } = await keptAgentd(["doctor"], { AGENTD_HOME: folder });
  assert.match(
    stdout,
    /FAIL {2}workspace +\S+file\/w cannot be created: \S+file is a file\n +-> Set agent\.workspace/,
  );
});

test("a user without a home folder may use the home that AGENTD_HOME names", async (t) => {
  const folder = await scratch(t);
  const env = {
    HOME: "/nonexistent/user",
    AGENTD_HOME: join(folder, "home"),
    OPENAI_API_KEY: "a-key-of-nobody",
  };
  for (const words of [...making.slice(1), ...looking]) {
    const { code, stderr } = await runAgentd(words, env);
    assert.equal(code, 0, `${words.join(" ")}: ${stderr}`);
    assert.doesNotMatch(stderr, /ENOENT/);
  }
});
