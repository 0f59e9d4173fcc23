import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { startPlatform, type PlatformRoute } from "../../harness/platforms/fake.ts";
import { startTerminal, terminalIsMissing, type Terminal } from "../../harness/terminal.ts";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand } from "../../harness/program.ts";

const TOKEN = "1234567:canary-of-the-tests";
const CONFIG = `# mine
version: 1
platforms:
  telegram:
    # of the team
    home_channel: "-1" # old
`;
const taken: PlatformRoute = {
  method: "POST",
  path: /^\/bot[^/]+\/sendMessage$/,
  answer: () => ({ status: 200, body: { ok: true, result: { message_id: 1 } } }),
};

const read = (home: string, name: string) => readFile(join(home, name), "utf8");

function setup(home: string, words: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return agentd(["gateway", "setup", "--platform", "telegram", ...words], { ...env, AGENTD_HOME: home });
}

/** The same in a process that has read secrets before. */
function setupAgain(home: string, words: readonly string[]) {
  return keptAgentd(["gateway", "setup", "--platform", "telegram", ...words], { AGENTD_HOME: home });
}

function startSetup(home: string): Promise<Terminal> {
  const env = { AGENTD_HOME: home };
  return startTerminal({ command: agentdCommand("gateway", "setup"), env, columns: 120, rows: 50 });
}

/** Goes on until the wizard wants to know which platform. */
async function choosePlatform(terminal: Terminal): Promise<void> {
  await terminal.shows("Receive webhooks?");
  await terminal.type("n");
  await terminal.shows("Set up a message platform?");
  await terminal.type("y");
  await terminal.shows("Which platform?");
}

describe("agentd gateway setup --platform", () => {
  it("reads a secret from standard input, which no process list shows", async () => {
    await using made = await createHome();
    const words = ["gateway", "setup", "--platform", "telegram"];
    const env = { AGENTD_HOME: made.home };
    const { code, stdout, stderr } = await agentd([...words, "--set-stdin", "token"], env, `${TOKEN}\n`);
    assert.equal(code, 0, stderr);
    assert.equal(await read(made.home, ".env"), `TELEGRAM_BOT_TOKEN=${TOKEN}\n`);
    assert.ok(!(stdout + stderr).includes(TOKEN));
    for (const [more, text] of [
      [["--set-stdin", "token"], /^--set-stdin: standard input is empty\./],
      [["--set-stdin", "token", "--set", "token=1"], /^Give token either with --set or with --set-stdin\./],
      [["--set-stdin", "token", "--webhook-secret-stdin"], /^Give either --webhook-secret-stdin or/],
    ] as const) {
      const refused = await agentd([...words, ...more], env, "");
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, text);
    }
  });

  it("saves secrets in .env and the rest in the file, keeps its comments and leaves webhooks unchanged", async () => {
    await using made = await createHome({ "config.yaml": CONFIG, ".env": "OTHER=1\n" });
    const { code, stdout, stderr } = await setup(made.home, [
      `--set=token=${TOKEN}`,
      "--set",
      "home_channel=-1001",
    ]);
    assert.equal(code, 0, stderr);
    assert.equal(await read(made.home, "config.yaml"), CONFIG.replace('"-1"', '"-1001"'));
    assert.equal(await read(made.home, ".env"), `OTHER=1\nTELEGRAM_BOT_TOKEN=${TOKEN}\n`);
    assert.equal(await modeOf(join(made.home, ".env")), "600");
    assert.match(stdout, /Telegram is ready/);
    assert.ok(!(stdout + stderr).includes(TOKEN));
  });

  it("replaces a value in the file with a reference to the variable, and enables a disabled platform", async () => {
    const before = `platforms: { telegram: { enabled: false, extra: { token: old-token-in-the-file } } }\n`;
    await using made = await createHome({ "config.yaml": before });
    const { code, stderr } = await setupAgain(made.home, ["--set", `token=${TOKEN}`]);
    assert.equal(code, 0, stderr);
    const file = await read(made.home, "config.yaml");
    assert.match(file, /enabled: true, extra: \{ token: env:TELEGRAM_BOT_TOKEN \}/);
    assert.equal(await read(made.home, ".env"), `TELEGRAM_BOT_TOKEN=${TOKEN}\n`);
  });

  it("sets the variable that the file already refers to, and keeps a given reference", async () => {
    await using made = await createHome({ "config.yaml": "platforms: { telegram: { token: env:MINE } }\n" });
    assert.equal((await setupAgain(made.home, ["--set", `token=${TOKEN}`])).code, 0);
    assert.equal(await read(made.home, ".env"), `MINE=${TOKEN}\n`);
    const { code, stderr } = await setupAgain(made.home, ["--set", "token=env:ELSEWHERE"]);
    assert.equal(code, 1);
    assert.match(stderr, /not ready; missing: token/);
    assert.match(await read(made.home, "config.yaml"), /token: env:ELSEWHERE/);
  });

  it("names missing settings, and variables of the environment that override them", async () => {
    await using made = await createHome();
    const lacking = await setup(made.home, ["--set", "home_channel=-1"]);
    assert.equal(lacking.code, 1);
    assert.match(lacking.stderr, /Telegram is not ready; missing: token \(TELEGRAM_BOT_TOKEN\)/);
    const overruled = await setup(made.home, ["--set", `token=${TOKEN}`], {
      TELEGRAM_BOT_TOKEN: "another-canary",
    });
    assert.match(overruled.stderr, /TELEGRAM_BOT_TOKEN in the environment overrides the saved value/);
    assert.ok(!(overruled.stdout + overruled.stderr).includes("another-canary"));
  });

  it("sends a test message with --test, and fails if it fails", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await createHome();
    const words = [
      "--set",
      `token=${TOKEN}`,
      "--set",
      "home_channel=-1",
      "--set",
      `base_url=${fake.url}`,
      "--test",
    ];
    const { code, stdout } = await setupAgain(made.home, words);
    assert.equal(code, 0);
    assert.match(stdout, /Delivered to telegram\S* in \d+ ms/);
    fake.next({ status: 403, body: { ok: false, description: "Forbidden: bot was kicked" } });
    const refused = await setupAgain(made.home, ["--test"]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /Refused: .*bot was kicked/);
  });

  it("writes nothing for invalid answers", async () => {
    for (const [words, text] of [
      [["--set", "tokn=canary"], /telegram has no key "tokn"; did you mean "token"\?/],
      [["--set", "canary"], /--set must be key=value/],
      [["--set", "token="], /token is empty/],
      [["--set", "token=canary\nX=1"], /token must be a single line/],
      [["--set", `token=${TOKEN}`, "--set", "base_url=canary"], /base_url must/],
      [["--set", "text_limit=canary"], /text_limit must be an integer/],
      [["--set", "enabled=canary"], /has no key "enabled"/],
    ] as const) {
      await using made = await createHome();
      const refused = await setup(made.home, words);
      assert.equal(refused.code, 2, words.join(" "));
      assert.match(refused.stderr, text);
      assert.ok(!refused.stderr.includes("canary"), refused.stderr);
      assert.deepEqual(await readdir(made.home), []);
    }
  });

  it("refuses unknown platforms, and --set without one", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const unknown = await keptAgentd(["gateway", "setup", "--platform", "telegran"], env);
    assert.deepEqual([unknown.code, /did you mean "telegram"/.test(unknown.stderr)], [2, true]);
    const stray = await keptAgentd(["gateway", "setup", "--set", "token=canary"], env);
    assert.deepEqual(
      [stray.code, /--set, --set-stdin and --test require --platform/.test(stray.stderr)],
      [2, true],
    );
    assert.deepEqual(await readdir(made.home), []);
  });
});

describe("agentd gateway setup at a terminal", () => {
  it("asks for each key, hides the secret, and offers a test message", (t) =>
    withTerminal(t, async (terminal, home) => {
      await choosePlatform(terminal);
      await goTo(terminal, "Telegram");
      await terminal.press("Enter");
      await terminal.shows("token: Token of the bot");
      await terminal.type(TOKEN);
      await terminal.press("Enter");
      await terminal.shows("home_channel: Default chat.");
      await terminal.press("Enter");
      await terminal.shows("Set up another platform?");
      await terminal.press("Enter");
      await terminal.shows("Send a test message through Telegram now?");
      await terminal.press("Enter");
      await terminal.shows("Send a test message with");
      assert.equal(await terminal.ended(), 0);
      assert.ok(!(await terminal.history()).includes(TOKEN));
      assert.equal(await read(home, ".env"), `TELEGRAM_BOT_TOKEN=${TOKEN}\n`);
      assert.deepEqual(await readdir(home), [".env", ".lock"]);
    }));

  it("changes nothing after Ctrl-C at any question", (t) =>
    withTerminal(t, async (terminal, home) => {
      await choosePlatform(terminal);
      await goTo(terminal, "Telegram");
      await terminal.press("Enter");
      await terminal.shows("token: Token of the bot");
      await terminal.type(TOKEN);
      await terminal.press("Enter");
      await terminal.shows("home_channel:");
      await terminal.press("C-c");
      await terminal.shows("Nothing was changed.");
      assert.equal(await terminal.ended(), 1);
      assert.deepEqual(await readdir(home), []);
    }));
});

async function withTerminal(
  t: TestContext,
  work: (terminal: Terminal, home: string) => Promise<void>,
): Promise<void> {
  if (terminalIsMissing) return t.skip(terminalIsMissing);
  await using made = await createHome();
  await using terminal = await startSetup(made.home);
  return await work(terminal, made.home);
}

/** Moves the mark to the platform of this title. */
async function goTo(terminal: Terminal, title: string): Promise<void> {
  for (let steps = 0; steps < 30; steps++) {
    if ((await terminal.settles()).includes(`● ${title}`)) return;
    await terminal.press("Down");
  }
  assert.fail(`There is no ${title}: ${await terminal.screen()}`);
}
