import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { openSession, rpcScenario } from "./scenario.ts";

const { PATH = "", HOME = "/tmp", DENO_DIR, NODE_COMPILE_CACHE } = process.env;
/** What the child needs of the machine, on either runtime. It starts from source: without the cache that takes a second. */
const env = {
  PATH,
  HOME,
  DENO_DIR: DENO_DIR ?? join(HOME, ".cache", "deno"),
  ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
};

rpcScenario(
  "cli.exec",
  { title: "runs agentd on this service's home, and returns its exit code", env },
  async (host) => {
    const version = await host.result("cli.exec", { argv: ["version"] });
    assert.deepEqual([version.blocked, version.code], [false, 0], version.output);
    assert.match(version.output, /\d+\.\d+\.\d+/);
    const set = await host.result("cli.exec", { argv: ["config", "set", "display.skin", "mono"] });
    assert.equal(set.code, 0, set.output);
    assert.equal((await host.result("config.get", { key: "skin" })).value, "mono");
    const wrong = await host.result("cli.exec", { argv: ["config", "get", "no.such.key"], timeout: 600 });
    assert.ok(wrong.code > 0 && wrong.output.includes("not a known key"), wrong.output);
  },
);

rpcScenario(
  "cli.exec",
  { title: "arguments are never interpreted by a shell", env },
  async (host, { service }) => {
    const marker = join(service.home, "made-by-a-shell");
    // Whether it were quoted or not, and how, a shell would touch the file.
    const word = [
      `$(touch ${marker})`,
      `\`touch ${marker}\``,
      `&& touch ${marker}`,
      "a\nb",
      `x'; touch ${marker}; '`,
    ].join(" ");
    const done = await host.result("cli.exec", { argv: ["config", "set", "agent.instructions", word] });
    assert.equal(done.code, 0, done.output);
    assert.equal((await host.result("config.get", { key: "agent.instructions" })).value, word);
    const { output } = await host.result("cli.exec", { argv: ["config", "get", "agent.workspace; ls /"] });
    assert.ok(!output.includes("etc"), output);
    await assert.rejects(import("node:fs/promises").then(({ stat }) => stat(marker)));
  },
);

rpcScenario("cli.exec", "interactive and endless commands are refused with a hint", async (host) => {
  for (const argv of [
    [],
    ["--verbose"],
    ["setup"],
    ["gateway"],
    ["--", "gateway"],
    ["gateway", "run"],
    ["rpc"],
    ["acp"],
    ["chat"],
    ["sessions", "browse"],
    ["config", "edit"],
    ["config", "--json", "edit"],
    ["config", "get", "api_server.key", "--reveal"],
    ["config", "get", "--reveal=true"],
  ]) {
    const { blocked, code, output, hint } = await host.result("cli.exec", { argv });
    assert.deepEqual([blocked, code, output], [true, -1, ""], argv.join(" "));
    assert.ok(hint.length > 0);
  }
});

rpcScenario(
  "cli.exec",
  { title: "its output has no secrets, even ones added later", env },
  async (host, { service }) => {
    await mkdir(join(service.home, "agentd"), { recursive: true });
    const secret = "canary-0123456789-telegram";
    const providers = `model:\n  providers:\n    x:\n      type: openai\n      api_key: ${secret}\n`;
    await writeFile(
      join(service.home, "agentd", "config.yaml"),
      `version: 1\n${providers}agent:\n  instructions: say ${secret}\n`,
    );
    for (const argv of [
      ["config", "get"],
      ["config", "get", "agent.instructions"],
      ["config", "set", secret, secret],
    ]) {
      const { output } = await host.result("cli.exec", { argv });
      assert.ok(output.length > 0 && !output.includes(secret), output);
    }
  },
);

rpcScenario(
  "cli.exec",
  { title: "output is limited to 48,000 characters of the start and the end", env },
  async (host) => {
    const text = `begin-${"x".repeat(90_000)}-end`;
    await host.result("config.set", { key: "agent.instructions", value: text });
    const { output } = await host.result("cli.exec", { argv: ["config", "get", "agent.instructions"] });
    assert.equal(output.length, 48_000);
    assert.match(output, /^begin-x+\n\[\.\.\. \d+ characters omitted \.\.\.\]\nx+-end\s*$/);
  },
);

rpcScenario("cli.exec 4003", "argv is not a valid command line", async (host) => {
  await host.error("cli.exec", { argv: ["version", "a\0b"] }, 4003);
  for (const bad of [
    {},
    { argv: "version" },
    { argv: [1] },
    { argv: [null] },
    { argv: Array.from({ length: 65 }, () => "x") },
    { argv: ["x".repeat(65_537)] },
    { argv: ["version"], timeout: 0 },
    { argv: ["version"], timeout: 601 },
    { argv: ["version"], timeout: "1" },
  ]) {
    await host.error("cli.exec", bad, -32602);
  }
});

rpcScenario(
  "cli.exec 4005",
  { title: "cli.exec is disabled", config: { gateway: { cli_exec: "off" } } },
  async (host) => {
    const { data } = await host.error("cli.exec", { argv: ["version"] }, 4005);
    assert.equal(data.reason, "disabled");
  },
);

rpcScenario("error -32003", "cli.exec needs the scope admin", async (_, { connect }) => {
  const chat = await connect({ scopes: ["chat", "read", "sessions"] });
  await chat.error("cli.exec", { argv: ["version"] }, -32003);
});

rpcScenario(
  "cli.exec 5016",
  { title: "a command that exceeds its time limit is stopped", env },
  async (host, { service }) => {
    // A model server that accepts and says nothing.
    const server = createServer((socket) => void socket.resume()).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      await mkdir(join(service.home, "agentd"), { recursive: true });
      const provider = `type: openai_compatible, base_url: "http://127.0.0.1:${port}/v1", models: [m]`;
      const config = `version: 1\nmodel:\n  default: slow:m\n  providers:\n    slow: { ${provider} }\n`;
      await writeFile(join(service.home, "agentd", "config.yaml"), config);
      const { message } = await host.error("cli.exec", { argv: ["model", "test"], timeout: 1 }, 5016);
      assert.match(message, /1 seconds/);
      assert.deepEqual(await host.result("ping"), { pong: true });
    } finally {
      server.close();
    }
  },
);

rpcScenario(
  "cli.exec 5017",
  { title: "the working folder no longer exists", env },
  async (host, { service }) => {
    await rm(service.home, { recursive: true });
    const { message } = await host.error("cli.exec", { argv: ["version"] }, 5017);
    assert.ok(!message.includes(service.home), message);
  },
);

rpcScenario(
  "error -32602",
  {
    title: "hosts on other machines run no commands and see only the workspace",
    env,
    config: { api_server: { host: "0.0.0.0" } },
  },
  async (host, { transport, service }) => {
    const session_id = await openSession(host);
    const secret = join(service.home, "..", "agentd-no-such-folder", "a.png");
    if (transport === "stdio") {
      // Standard input is always of this machine.
      assert.equal((await host.result("cli.exec", { argv: ["version"] })).code, 0);
    } else {
      const { data } = await host.error("cli.exec", { argv: ["version"] }, 4005);
      assert.equal(data.reason, "blocked");
      await host.error("image.attach", { session_id, path: secret }, 4030);
      assert.deepEqual((await host.result("complete.path", { word: "../" })).items, []);
      const pasted = await host.result("clipboard.paste", { session_id });
      assert.match(pasted.message, /image\.attach_bytes/);
    }
    await host.error("cli.exec", { argv: 1 }, -32602);
  },
);
