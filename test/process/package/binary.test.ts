/** The single executable where nothing else is: no Node, no checkout, no shell, only the libraries that it is linked with. */
import assert from "node:assert/strict";
import { execFile, execFileSync, spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { promisify } from "node:util";
import packageFile from "../../../package.json" with { type: "json" };
import { connectGateway, webSocketTransport } from "../../../src/client/gateway.ts";
import { createAgentClient } from "../../../src/client/http.ts";
import { calling, saying, startModelServer } from "../../harness/openai-server.ts";
import { programEnvironment } from "../../harness/program.ts";
import type { Installed } from "./installed.ts";
import { Smoke } from "./smoke.ts";

const root = join(import.meta.dirname, "../../..");
const run = promisify(execFile);
const canContain = spawnSync("bwrap", ["--ro-bind", "/", "/", "true"]).status === 0;

describe("the single executable", () => {
  let base = "";
  let binary = "";
  let smoke: Smoke;

  before(async () => {
    base = await mkdtemp(join(tmpdir(), "agentd-binary-"));
    binary = join(base, "bin/agentd");
    await run(
      join(root, "node_modules/.bin/node"),
      [join(root, "scripts/build-binary.ts"), "--out", binary],
      {
        env: programEnvironment(),
        maxBuffer: 16 * 1024 ** 2,
      },
    );
    smoke = new Smoke(await installed(base, binary), []);
  });
  after(() => rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

  it("prints its version, its specs and its configuration", async () => {
    const home = await smoke.home();
    await smoke.run(
      home,
      [["--version"], new RegExp(`^agentd ${packageFile.version.replaceAll(".", "\\.")} \\(node 24\\.`)],
      [["spec"], /^http\ngateway\n/],
      [["spec", "gateway"], /"openrpc": ?"1/],
      [["spec", "http"], /"openapi": ?"3/],
      [["config", "set", "log.level", "warn"], /^set log\.level in /],
      [["config", "get", "log.level"], /^warn$/m],
      [["doctor", "--json"], /"name": "database"/, undefined],
      [["acp", "--bootstrap", "--json"], canContain ? /"\/opt\/agentd"/ : new RegExp(binary)],
      [["nonsense"], /nonsense/, 2],
    );
  });

  it("answers a prompt, and finds its bundled skills and its threads", async () => {
    const home = await smoke.home();
    await smoke.run(
      home,
      [["chat", "hello"], /\[demo model\].*"hello"/],
      [["chat", "write notes.txt: needle"], /notes\.txt/],
      [["chat", "search needle"], /notes\.txt/],
      [["sessions", "list", "--json"], /"sessions": \[\n/],
    );
  });

  it("reads a web page on a thread of its own", async () => {
    const home = await smoke.home();
    const page = createServer((_, response) => {
      response.writeHead(200, { "content-type": "text/html" }).end("<p>plain <b>and bold</b></p>");
    });
    await once(page.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(page.address() as AddressInfo).port}/`;
    await using models = await startModelServer([
      calling({ id: "call_1", name: "web_fetch", json: JSON.stringify({ url }) }),
      saying("read"),
    ]);
    const box = { type: "openai_compatible", base_url: models.baseUrl };
    const config = {
      model: { default: "box:small", providers: { box } },
      web: { allowed_private_hosts: ["127.0.0.1"] },
      approvals: { mode: "yolo" },
    };
    await writeFile(join(home, "config.yaml"), JSON.stringify(config), { mode: 0o600 });
    try {
      await smoke.run(home, [["chat", "read the page"], /read/]);
      const { body } = await models.requested(2);
      assert.match(JSON.stringify(body.messages), /plain \*\*and bold\*\*/);
    } finally {
      page.close();
      page.closeAllConnections();
    }
  });

  it("serves HTTP and the WebSocket on SQLite, and SIGTERM ends it", async () => {
    const home = await smoke.home();
    await using gateway = await smoke.gateway(home);
    const [, apiKey = ""] = /^API_SERVER_KEY=(.+)$/m.exec(await readFile(join(home, ".env"), "utf8")) ?? [];
    assert.equal((await fetch(`${gateway.url}/health`)).status, 200);
    const { data } = await createAgentClient({ baseUrl: gateway.url, apiKey }).listModels();
    assert.ok(data);
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    const body = JSON.stringify({ messages: [{ role: "user", content: "over HTTP" }] });
    const completion = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body });
    assert.match(await completion.text(), /over HTTP/);
    {
      const transport = webSocketTransport({ url: gateway.url, token: apiKey });
      await using client = await connectGateway({ transport });
      const { sessions } = await client.call("session.list", {});
      assert.ok(Array.isArray(sessions));
    }
    assert.ok((await readdir(home)).includes("state.db"));
    assert.equal(await gateway.stop(), 0);
  });

  it("serves JSON-RPC and ACP over its standard streams", async () => {
    const home = await smoke.home();
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    await smoke.serve(home, ["rpc"], [ping, /"gateway\.ready"[\s\S]*"pong":true/]);
    const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } };
    await smoke.serve(home, ["acp"], [initialize, /"protocolVersion":1/]);
  });

  it("runs scripts in JavaScript and TypeScript on itself", async () => {
    const home = await smoke.home();
    await mkdir(join(home, "scripts"), { mode: 0o700 });
    const script =
      'const text: string = "from a"; console.log(text, "script", await Promise.resolve(7)); export {};';
    await writeFile(join(home, "scripts/report.ts"), script, { mode: 0o600 });
    await smoke.run(
      home,
      [
        ["cron", "create", "every 1h", "--script", "report.ts", "--no-agent", "--name", "report"],
        /Created job/,
      ],
      [["cron", "run", "report"], /Triggered job/],
      [["cron", "tick"], /report .*: ok/],
    );
    const outputs = await readdir(join(home, "cron"), { recursive: true });
    const file = outputs.find((name) => name.endsWith(".md"));
    assert.match(await readFile(join(home, "cron", file ?? ""), "utf8"), /from a script 7/);
  });

  it("starts many times at once with an empty cache", async () => {
    const home = await smoke.home();
    const env = smoke.installed.environment({ AGENTD_HOME: home, XDG_CACHE_HOME: join(home, "cache") });
    const starts = Array.from({ length: 6 }, () =>
      run(smoke.installed.program, ["version"], { env, cwd: home }),
    );
    for (const { stdout, stderr } of await Promise.all(starts)) {
      assert.match(stdout, /^agentd /);
      assert.equal(stderr, "");
    }
    assert.equal((await readdir(join(home, "cache/agentd"))).length, 1);
  });

  it("says in one line why it cannot unpack itself", async () => {
    const home = await smoke.home();
    const target = join(home, "target");
    await mkdir(target, { mode: 0o700 });
    await mkdir(join(home, ".cache"), { mode: 0o700 });
    await symlink(target, join(home, ".cache/agentd"));
    await writeFile(join(home, "file"), "");
    const env = { HOME: home, XDG_CACHE_HOME: join(home, "file"), AGENTD_HOME: join(home, "file") };
    if (!canContain) return; // Outside of the container, the cache may be in the home of whoever runs the tests.
    const failed = await run(smoke.installed.program, ["version"], {
      env: smoke.installed.environment(env),
    }).then(
      () => assert.fail("it started"),
      (error: { readonly code: number; readonly stderr: string }) => error,
    );
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /^agentd cannot unpack itself: .*Set XDG_CACHE_HOME or AGENTD_HOME .*\n$/);
    assert.deepEqual(await readdir(target), []);
  });
});

/** Puts the executable where only the folder of the tests can be written, and nothing of the machine can be read. */
async function installed(base: string, binary: string): Promise<Installed> {
  const [elsewhere, home] = [join(base, "elsewhere"), join(base, "home")];
  await Promise.all([mkdir(elsewhere), mkdir(home)]);
  const program = canContain ? await contained(base, binary, elsewhere, home) : binary;
  return {
    program,
    elsewhere,
    environment: (env = {}) => ({ ...programEnvironment({ HOME: home }), ...env }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function contained(base: string, binary: string, ...writable: readonly string[]): Promise<string> {
  const libraries = execFileSync("ldd", [binary], { encoding: "utf8" });
  const files = [...libraries.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path ?? "");
  assert.ok(files.length > 0, libraries);
  // Later ones lie over earlier ones, and the tests may run in /dev/shm.
  const words = [
    "--proc /proc --dev /dev",
    ...files.map((path) => `--ro-bind '${path}' '${path}'`),
    ...writable.map((path) => `--bind '${path}' '${path}'`),
    `--ro-bind '${binary}' /opt/agentd`,
  ];
  const program = join(base, "agentd");
  await writeFile(program, launcher(`bwrap ${words.join(" ")} /opt/agentd`));
  await chmod(program, 0o755);
  return program;
}

/** bwrap starts the executable as its child, and passes no signal on. */
function launcher(command: string): string {
  const lines = [
    "#!/bin/sh",
    // A shell gives what runs beside it an empty input.
    "exec 3<&0",
    `${command} "$@" <&3 3<&- &`,
    "stopped=",
    "trap 'stopped=1; kill -TERM $(cat /proc/$!/task/$!/children)' TERM",
    "wait $!; code=$?",
    'if [ -n "$stopped" ]; then wait $!; code=$?; fi',
    "exit $code",
  ];
  return `${lines.join("\n")}\n`;
}
