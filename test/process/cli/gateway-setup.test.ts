import assert from "node:assert/strict";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startTerminal, terminalIsMissing } from "../../harness/terminal.ts";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand } from "../../harness/program.ts";

const SECRET = "a-secret-of-the-tests-0123";
const CONFIG = `# mine
version: 1
platforms:
  webhook:
    # of the office
    port: 9000 # behind the proxy
    routes:
      ci: { secret: one } # the build
`;

function read(home: string, name: string): Promise<string> {
  return readFile(join(home, name), "utf8");
}

describe("agentd gateway setup", () => {
  it("enables webhooks with options: saves the secret in .env and the rest in the file, and keeps its comments", async () => {
    await using made = await createHome({ "config.yaml": CONFIG, ".env": "OTHER=1\n" });
    const { code, stdout, stderr } = await agentd(
      ["gateway", "setup", "--enable-webhooks", "--webhook-port", "9001", "--webhook-secret", SECRET],
      { AGENTD_HOME: made.home },
    );
    assert.equal(code, 0, stderr);
    const wanted = CONFIG.replace("9000", "9001").replace(/$/, "    enabled: true\n");
    assert.equal(await read(made.home, "config.yaml"), wanted);
    assert.equal(await read(made.home, ".env"), `OTHER=1\nWEBHOOK_SECRET=${SECRET}\n`);
    assert.equal(await modeOf(join(made.home, ".env")), "600");
    assert.match(stdout, /http:\/\/your-server:9001\/webhooks\/<route-name>/);
    assert.ok(!(stdout + stderr).includes(SECRET));
    const subscribed = await keptAgentd(["webhook", "subscribe", "a"], { AGENTD_HOME: made.home });
    assert.match(subscribed.stdout, /http:\/\/localhost:9001\/webhooks\/a/);
  });

  it("reads the secret from standard input", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const words = ["gateway", "setup", "--webhook-secret-stdin"];
    const { code, stdout, stderr } = await agentd(words, env, `${SECRET}\n`);
    assert.equal(code, 0, stderr);
    assert.equal(await read(made.home, ".env"), `WEBHOOK_SECRET=${SECRET}\n`);
    assert.ok(!(stdout + stderr).includes(SECRET));
    const twice = await agentd([...words, "--webhook-secret", "x"], env, SECRET);
    assert.deepEqual([twice.code, twice.stdout], [2, ""]);
  });

  it("creates a missing home, and keeps every default with --yes", async () => {
    await using made = await createHome();
    const home = join(made.home, "new");
    const { code, stdout } = await keptAgentd(["gateway", "setup", "--yes"], { AGENTD_HOME: home });
    assert.equal(code, 0);
    assert.equal(await read(home, "config.yaml"), "version: 1\nplatforms:\n  webhook:\n    enabled: true\n");
    assert.deepEqual(await readdir(home), [".lock", "config.yaml"]);
    assert.match(stdout, /No global secret is set/);
    assert.match(stdout, /:8644\/webhooks/);
  });

  it("says when the environment overrides a setting", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home, WEBHOOK_PORT: "9002", WEBHOOK_ENABLED: "false" };
    const { stderr } = await keptAgentd(["gateway", "setup", "--webhook-port", "9001"], env);
    assert.match(stderr, /WEBHOOK_PORT in the environment overrides the port: 9002/);
    assert.match(stderr, /WEBHOOK_ENABLED in the environment overrides this/);
  });

  it("writes nothing for invalid answers", async () => {
    for (const [words, text] of [
      [["--webhook-port", "0"], /--webhook-port must be a number from 1 to 65535/],
      [["--webhook-port", "70000"], /--webhook-port must be a number/],
      [["--webhook-secret", ""], /--webhook-secret is empty/],
      [["--webhook-secret", "INSECURE_NO_AUTH"], /only on loopback addresses/],
      [[], /Cannot ask without a terminal\. Pass --enable-webhooks/],
    ] as const) {
      await using made = await createHome();
      const refused = await keptAgentd(["gateway", "setup", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, 2, words.join(" "));
      assert.match(refused.stderr, text);
      assert.deepEqual(await readdir(made.home), []);
    }
  });

  it("asks at a terminal, hides the secret, and keeps the port for an invalid one", async (t) => {
    if (terminalIsMissing) return t.skip(terminalIsMissing);
    await using made = await createHome();
    await using terminal = await startTerminal({
      command: agentdCommand("gateway", "setup"),
      env: { AGENTD_HOME: made.home },
      columns: 100,
      rows: 40,
    });
    await terminal.shows("Receive webhooks?");
    await terminal.press("Enter");
    await terminal.shows("opens a public port");
    await terminal.shows("Webhook port (default 8644)");
    await terminal.type("many");
    await terminal.press("Enter");
    await terminal.shows("Keeping 8644");
    await terminal.shows("Global HMAC secret (shared across all routes)");
    await terminal.type(SECRET);
    await terminal.press("Enter");
    await terminal.shows("Set up a message platform?");
    await terminal.press("Enter");
    await terminal.shows("Next:");
    assert.equal(await terminal.ended(), 0);
    assert.ok(!(await terminal.history()).includes(SECRET));
    assert.equal(await read(made.home, ".env"), `WEBHOOK_SECRET=${SECRET}\n`);
    assert.match(await read(made.home, "config.yaml"), /enabled: true/);
  });

  it("changes nothing when the user declines", async (t) => {
    if (terminalIsMissing) return t.skip(terminalIsMissing);
    await using made = await createHome({ "config.yaml": CONFIG.replace("port", "enabled: true\n    port") });
    const before = await read(made.home, "config.yaml");
    await using terminal = await startTerminal({
      command: agentdCommand("gateway", "setup"),
      env: { AGENTD_HOME: made.home },
    });
    await terminal.shows("Reconfigure webhooks?");
    await terminal.press("Enter");
    await terminal.shows("Set up a message platform?");
    await terminal.press("Enter");
    await terminal.shows("Nothing was changed.");
    assert.equal(await terminal.ended(), 1);
    assert.equal(await read(made.home, "config.yaml"), before);
  });
});
