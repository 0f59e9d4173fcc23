import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startModelServer, saying } from "../../harness/openai-server.ts";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

const KEY = "canary-key-4b1d9e77";

async function filesWith(home: string, text: string): Promise<string[]> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hits = await Promise.all(files.map(async (file) => (await readFile(file, "utf8")).includes(text)));
  return files.filter((_, index) => hits[index]);
}

describe("agentd setup", () => {
  it("saves the key only in .env, and the provider in the configuration", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const words = [
      "setup",
      "--provider",
      "anthropic",
      "--api-key-stdin",
      "--model",
      "claude-x",
      "--approvals",
      "always_ask",
    ];
    const { code, stdout, stderr } = await agentd(words, env, `${KEY}\n`);
    assert.equal(code, 0, stderr);
    assert.ok(!(stdout + stderr).includes(KEY));
    assert.deepEqual(await filesWith(made.home, KEY), [join(made.home, ".env")]);
    assert.equal(await modeOf(join(made.home, ".env")), "600");
    const config = await readFile(join(made.home, "config.yaml"), "utf8");
    assert.match(config, /default: anthropic:claude-x/);
    assert.match(config, /mode: always_ask/);
  });

  it("sets up a custom server, tests it, and keeps the comments of the file", async () => {
    await using server = await startModelServer([saying("hello ", "there")]);
    await using made = await createHome();
    await writeFile(join(made.home, "config.yaml"), "# mine\nlog: { level: warn } # quiet\n");
    const env = { AGENTD_HOME: made.home, MY_KEY: KEY };
    const words = ["setup", "--provider", "openai_compatible", "--name", "box", "--base-url", server.baseUrl];
    const more = ["--api-key-env", "MY_KEY", "--model", "small", "--test"];
    const { code, stdout, stderr } = await agentd([...words, ...more], env);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /box:small answered[\s\S]*hello there/);
    assert.equal(server.requests[0]?.headers.authorization, `Bearer ${KEY}`);
    const config = await readFile(join(made.home, "config.yaml"), "utf8");
    assert.match(config, /# mine[\s\S]*# quiet[\s\S]*env:BOX_API_KEY/);
    assert.deepEqual(await filesWith(made.home, KEY), [join(made.home, ".env")]);
  });

  it("saves the key, names the models, and fails when no model is chosen without a terminal", async () => {
    const pages = {
      "GET /v1/models": { data: [{ id: "text-embedding-9" }, { id: "gpt-8" }, { id: "gpt-9" }] },
    };
    await using server = await startModelServer([], pages);
    await using made = await createHome();
    const words = ["setup", "--provider", "openai", "--base-url", server.baseUrl, "--api-key-stdin"];
    const { code, stdout, stderr } = await agentd(words, { AGENTD_HOME: made.home }, KEY);
    assert.equal(code, 1, stdout);
    assert.match(
      stderr,
      /No model is chosen.*agentd model set openai:gpt-9`.*It lists gpt-9, text-embedding-9/,
    );
    assert.doesNotMatch(stdout, /demo/);
    assert.deepEqual(await filesWith(made.home, KEY), [join(made.home, ".env")]);
    const shown = await keptAgentd(["model", "show"], { AGENTD_HOME: made.home });
    assert.match(
      shown.stderr,
      /OPENAI_API_KEY is set, but no model is chosen.*agentd model set openai:<model>/,
    );
  });

  it("chooses the only model of a server, and keeps the other settings of its section", async () => {
    await using server = await startModelServer([], { "GET /v1/models": { data: [{ id: "only" }] } });
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const section = { type: "openai_compatible", base_url: "http://127.0.0.1:9/v1", timeout_seconds: 7 };
    await writeFile(
      join(made.home, "config.yaml"),
      JSON.stringify({ model: { detect_local: false, providers: { box: section } } }),
    );
    const words = ["setup", "--provider", "openai_compatible", "--name", "box", "--base-url", server.baseUrl];
    const { code, stdout, stderr } = await keptAgentd(words, env);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /The default model is box:only/);
    assert.equal(
      (await keptAgentd(["config", "get", "model.providers.box.timeout_seconds"], env)).stdout,
      "7\n",
    );
  });

  for (const [what, page, wanted] of [
    ["refuses the key", { "GET /v1/models": refusing }, /does not accept the API key \(401\)/],
    ["lists no models", {}, /openai does not list its models/],
  ] as const) {
    it(`says so when the provider ${what}`, async () => {
      await using server = await startModelServer([], page);
      await using made = await createHome();
      const words = ["setup", "--provider", "openai", "--base-url", server.baseUrl, "--api-key-stdin"];
      const { code, stderr } = await agentd(words, { AGENTD_HOME: made.home }, KEY);
      assert.equal(code, 1);
      assert.match(stderr, wanted);
      assert.match(stderr, /agentd model set openai:<model>`, or pass --model/);
    });
  }

  for (const [what, words, message] of [
    ["no terminal and no options", [], /Cannot ask without a terminal\. Pass --provider/],
    ["a server without an address", ["--provider", "openai_compatible"], /--base-url is required/],
    ["an address that is none", ["--provider", "openai", "--base-url", "ftp://x"], /must start with http/],
    [
      "a name that cannot be one",
      ["--provider", "openai_compatible", "--name", "A B", "--base-url", "http://x"],
      /--name must start with/,
    ],
    ["a variable that is not set", ["--provider", "openai", "--api-key-env", "NOPE"], /NOPE is not set/],
    ["a provider there is not", ["--provider", "nobody"], /must be one of/],
    [
      "a provider without its key",
      ["--provider", "openai", "--model", "x"],
      /OPENAI_API_KEY is not set.*--api-key-stdin/,
    ],
    [
      "an empty model",
      ["--provider", "openai", "--api-key-env", "HOME", "--model", " "],
      /--model must not be empty/,
    ],
  ] as const) {
    it(`refuses ${what}, and writes nothing`, async () => {
      await using made = await createHome();
      const before = await readdir(made.home);
      const { code, stderr } = await keptAgentd(["setup", ...words], { AGENTD_HOME: made.home });
      assert.equal(code, 2);
      assert.match(stderr, message);
      assert.deepEqual(await readdir(made.home), before);
    });
  }

  for (const words of [["setup"], ["acp", "--setup"], ["--setup"]]) {
    it(`asks at a terminal, and writes nothing when the user cancels: ${words.join(" ")}`, async (t) => {
      if (await missing("script")) return t.skip("there is no `script` to make a terminal");
      await using made = await createHome();
      const before = await readdir(made.home);
      const { code, seen } = await breakOff(words, made.home);
      assert.match(seen, /Nothing was changed/);
      assert.equal(code, 1);
      assert.deepEqual(await readdir(made.home), before);
    });
  }
});

function refusing(response: ServerResponse): void {
  response.writeHead(401).end("{}");
}

/** Runs `agentd` at a terminal, where somebody presses Ctrl-C at the first question. */
async function breakOff(words: readonly string[], home: string) {
  const line = agentdCommand(...words)
    .map((word) => `'${word}'`)
    .join(" ");
  const child = spawn("script", ["-qec", `stty cols 120; ${line}`, "/dev/null"], {
    env: programEnvironment({ AGENTD_HOME: home, TERM: "xterm" }),
    stdio: ["pipe", "pipe", "ignore"],
  });
  let seen = "";
  child.stdout.on("data", (bytes: Uint8Array) => {
    const was = seen.includes("Which model provider");
    seen += bytes.toString();
    if (!was && seen.includes("Which model provider")) child.stdin.write("\u0003");
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, seen };
}

function missing(program: string): Promise<boolean> {
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", `command -v ${program}`], (error) => resolve(error !== null));
  });
}

describe("agentd model", () => {
  it("shows the demo model without configuration, and how to change it", async () => {
    await using made = await createHome();
    await writeFile(join(made.home, "config.yaml"), "model: { detect_local: false }\n");
    const { code, stdout, stderr } = await keptAgentd(["model"], { AGENTD_HOME: made.home });
    assert.deepEqual([code, stdout], [0, "demo:demo\n"]);
    assert.match(stderr, /agentd setup/);
  });

  it("lists, selects and tests models, and explains a failure", async () => {
    await using server = await startModelServer([saying("hi"), { status: 401, body: "no: canary-body" }]);
    await using made = await createHome();
    const provider = { type: "openai_compatible", base_url: server.baseUrl, models: ["a", "b"] };
    await writeFile(
      join(made.home, "config.yaml"),
      JSON.stringify({ model: { providers: { box: provider } } }),
    );
    const run = (...words: string[]) => keptAgentd(["model", ...words], { AGENTD_HOME: made.home });
    assert.match(
      (await run("list")).stdout,
      /box {2}\(openai_compatible, default\)\n {2}box:a {2}\*\n {2}box:b\n/,
    );
    assert.equal((await run("set", "b")).code, 0);
    assert.equal((await run("show")).stdout, "box:b\n");
    const unknown = await run("set", "nobody:at-all/x y");
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /Unknown model .* Configured providers: box, demo/);
    const good = await run("test", "--json");
    assert.deepEqual([JSON.parse(good.stdout).ok, JSON.parse(good.stdout).model], [true, "box:b"]);
    const bad = await run("test", "box:a");
    assert.equal(bad.code, 1);
    assert.match(bad.stderr, /box:a failed: .*does not accept the API key \(401\)/);
    assert.doesNotMatch(bad.stdout + bad.stderr, /canary-body/);
  });
});

describe("agentd doctor", () => {
  it("finds no failure in a fresh home, and leaves nothing behind", async () => {
    await using made = await createHome();
    const before = await readdir(made.home);
    const { code, stdout } = await keptAgentd(["doctor", "--json"], { AGENTD_HOME: made.home });
    const { findings } = JSON.parse(stdout) as { findings: { name: string; status: string }[] };
    // Another program may have the default port on the machine of the test.
    const failed = findings.filter(({ name, status }) => status === "fail" && name !== "port");
    assert.deepEqual(failed, []);
    assert.ok(code === 0 || findings.some(({ name, status }) => name === "port" && status === "fail"));
    assert.deepEqual(await readdir(made.home), before);
  });

  it("reports each problem with its fix, without secrets", async () => {
    await using made = await createHome();
    const taken = createServer((_, response) => response.end("I am something else"));
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    const { port } = taken.address() as AddressInfo;
    const config = {
      api_server: { port },
      model: { default: "openai:gpt-x", providers: { openai: { type: "openai" } } },
      mcp: { servers: { gone: { command: "/nowhere/at-all" } } },
    };
    await writeFile(join(made.home, "config.yaml"), JSON.stringify(config));
    await writeFile(join(made.home, ".env"), `OTHER_API_KEY=${KEY}\n`);
    await chmod(join(made.home, ".env"), 0o644);
    const { code, stdout } = await agentd(["doctor"], { AGENTD_HOME: made.home });
    taken.close();
    assert.equal(code, 1);
    for (const line of [
      /FAIL {2}secrets .*open to other users\n.*chmod 600/,
      /FAIL {2}model .*the provider openai has no API key, and OPENAI_API_KEY is not set.*agentd setup --provider openai/,
      /FAIL {2}port .*in use by another program/,
      /FAIL {2}mcp .*\/nowhere\/at-all was not found/,
    ]) {
      assert.match(stdout, line);
    }
    assert.ok(!stdout.includes(KEY));
  });
});
