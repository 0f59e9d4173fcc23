import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";
import { startPlatform, type PlatformRoute } from "../../harness/platforms/fake.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

const TOKEN = "1234567:canary-of-the-tests";
const taken: PlatformRoute = {
  method: "POST",
  path: /^\/bot[^/]+\/sendMessage$/,
  answer: () => ({ status: 200, body: { ok: true, result: { message_id: 1 } } }),
};

/** A home whose Telegram is a fake; `settings` stand in the file, beside its address. */
function telegramHome(url: string, settings: object = { token: TOKEN, home_channel: "-1001" }) {
  return createHome({
    "config.yaml": JSON.stringify({ platforms: { telegram: { base_url: url, ...settings } } }),
  });
}

interface Entry {
  readonly name: string;
  readonly status: string;
  readonly missing: readonly string[];
  readonly keys: readonly string[];
  readonly home: string | null;
}

async function listed(
  home: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ReadonlyMap<string, Entry>> {
  const { stdout, stderr } = await keptAgentd(["platforms", "list", "--json"], { ...env, AGENTD_HOME: home });
  const { platforms } = JSON.parse(stdout || assert.fail(stderr)) as { readonly platforms: readonly Entry[] };
  return new Map(platforms.map((each) => [each.name, each]));
}

describe("agentd platforms list", () => {
  it("lists each platform as ready, incomplete, not configured or off, with its missing settings", async () => {
    const platforms = {
      telegram: { extra: { token: "env:MY_TOKEN" }, home_channel: "-1001", home_thread: "7" },
      discord: { home_channel: "55" },
      slack: { enabled: false, token: TOKEN },
    };
    await using made = await createHome({
      "config.yaml": JSON.stringify({ platforms }),
      ".env": `MY_TOKEN=${TOKEN}\n`,
    });
    const found = await listed(made.home);
    const { name, status, missing, keys, home } = found.get("telegram") ?? assert.fail();
    assert.deepEqual(
      [name, status, missing, keys, home],
      ["telegram", "ready", [], ["token", "home_channel", "home_thread"], "-1001:7"],
    );
    for (const [each, wanted] of [
      ["discord", "incomplete"],
      ["slack", "off"],
      ["matrix", "unset"],
    ] as const) {
      if (found.has(each)) assert.equal(found.get(each)?.status, wanted, each);
    }
    const { stdout, code } = await agentd(["platforms", "list"], { AGENTD_HOME: made.home });
    assert.equal(code, 0);
    assert.match(
      stdout,
      /^telegram +ready +-1001:7 +`agentd platforms test telegram` sends a test message$/m,
    );
    assert.ok(!stdout.includes(TOKEN));
  });

  it("counts a reference to a variable that is not set as missing, and names the usual variable", async () => {
    await using made = await createHome({
      "config.yaml": "platforms: { telegram: { token: env:NOWHERE } }\n",
    });
    assert.deepEqual((await listed(made.home)).get("telegram")?.missing, ["token (TELEGRAM_BOT_TOKEN)"]);
    const env = { TELEGRAM_BOT_TOKEN: TOKEN };
    await using other = await createHome();
    assert.equal((await listed(other.home, env)).get("telegram")?.status, "ready");
    assert.deepEqual(await readdir(other.home), [], "a look makes nothing");
  });
});

describe("agentd platforms test", () => {
  it("sends one real message to the chat that is given, and says so", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url);
    const words = [
      "platforms",
      "test",
      "telegram",
      "--chat-id=-42",
      "--thread-id",
      "9",
      "--text",
      "Hello *you*",
    ];
    const { code, stdout, stderr } = await agentd(words, { AGENTD_HOME: made.home });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Delivered to telegram:-42:9 in \d+ ms\.\n$/);
    assert.equal(fake.asked.length, 1);
    const { chat_id: chat, message_thread_id: thread, text: said } = fake.asked[0]?.body ?? {};
    assert.deepEqual([chat, thread], ["-42", 9]);
    assert.match(String(said), /Hello/);
    assert.ok(!(stdout + stderr).includes(TOKEN));
  });

  it("goes to the home channel without one, with a greeting; --json reports the outcome", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url);
    const { code, stdout } = await keptAgentd(["platforms", "test", "telegram", "--json"], {
      AGENTD_HOME: made.home,
    });
    assert.equal(code, 0);
    const { took_ms: _, ...told } = JSON.parse(stdout) as Readonly<Record<string, unknown>>;
    assert.deepEqual(told, { platform: "telegram", address: "-1001", outcome: "delivered", error: null });
    assert.match(String(fake.asked[0]?.body?.["text"]), /^Test message from agentd on /);
  });

  it("reports a missing chat and sends nothing", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url, { token: TOKEN });
    const { code, stdout, stderr } = await keptAgentd(["platforms", "test", "telegram"], {
      AGENTD_HOME: made.home,
    });
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(
      stderr,
      /^Refused: The message has no chat: .*TELEGRAM_HOME_CHANNEL[^]*No chat was given, and no home channel is set/,
    );
    assert.equal(fake.asked.length, 0);
  });

  it("prints the platform's error and what to do, with exit code 1 and without the secret", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url);
    const send = () => agentd(["platforms", "test", "telegram"], { AGENTD_HOME: made.home });
    for (const [reply, wanted] of [
      [
        { status: 401, body: { ok: false, description: `Unauthorized ${TOKEN}` } },
        /^Refused: .*Check the credentials of platforms\.telegram/,
      ],
      [
        { status: 429, body: { ok: false, parameters: { retry_after: 3 } } },
        /^Not delivered: .*429[\s\S]*would retry it/,
      ],
      ["close", /^Unknown: [\s\S]*Check whether the message arrived/],
    ] as const) {
      fake.next(reply);
      const { code, stdout, stderr } = await send();
      assert.equal(code, 1);
      assert.match(stderr, wanted);
      assert.ok(!(stdout + stderr).includes(TOKEN));
    }
  });

  it("gives up after --timeout", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url);
    fake.next("hang");
    const { code, stderr } = await keptAgentd(["platforms", "test", "telegram", "--timeout", "1"], {
      AGENTD_HOME: made.home,
    });
    assert.equal(code, 1);
    assert.match(stderr, /within 1 s/);
  });

  it("stops at Ctrl-C, and says that the message may have been sent", async (t) => {
    const fake = await startPlatform(t, [taken]);
    await using made = await telegramHome(fake.url);
    fake.next("hang");
    const [file, ...words] = agentdCommand("platforms", "test", "telegram");
    const child = spawn(file, words, {
      env: programEnvironment({ AGENTD_HOME: made.home }),
      stdio: ["ignore", "ignore", "pipe"],
    });
    const ended = once(child, "exit");
    const said = text(child.stderr);
    await fake.count(1);
    child.kill("SIGINT");
    const [code, signal] = await ended;
    // Deno as the parent takes 130 for the signal that it stands for.
    assert.ok(code === 130 || (code === null && signal === "SIGINT"), `${code} ${signal}`);
    assert.match(await said, /Stopped\. The message may have been sent\./);
  });

  it("refuses platforms that are not configured, disabled or unknown, and sends nothing", async () => {
    for (const [platforms, words, code, wanted] of [
      [
        {},
        ["telegram"],
        1,
        /set token \(TELEGRAM_BOT_TOKEN\), or run `agentd gateway setup --platform telegram`\. Nothing was sent/,
      ],
      [
        { telegram: { enabled: false, token: TOKEN } },
        ["telegram"],
        1,
        /is disabled: set platforms\.telegram\.enabled to true/,
      ],
      [{}, ["telegramm"], 2, /"telegramm" is not a platform; did you mean "telegram"\?/],
      [{}, ["log"], 2, /log needs no configuration/],
      [{}, ["constructor"], 2, /is not a platform/],
      [{}, ["telegram", "--chat-id", " "], 2, /--chat-id is empty/],
      [{}, ["telegram", "--timeout", "0"], 2, /--timeout must be a number of seconds from 1 to 50/],
      [{}, ["telegram", "--extra", "canary"], 2, /--extra must be key=value/],
    ] as const) {
      await using made = await createHome({ "config.yaml": JSON.stringify({ platforms }) });
      const refused = await keptAgentd(["platforms", "test", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, code, refused.stderr);
      assert.match(refused.stderr, wanted);
      assert.deepEqual(await readdir(made.home), ["config.yaml"]);
    }
  });
});
