/** `agentd doctor` in set-ups that are broken for real: each problem is reported once, with what to do. */
import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { saying, startModelServer } from "../../harness/openai-server.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { freePort } from "./free-port.ts";

interface Finding {
  readonly name: string;
  readonly status: "ok" | "warn" | "fail" | "skip";
  readonly detail: string;
  readonly fix?: string;
}

type Env = Readonly<Record<string, string>>;

/** The findings of a home by name, and what failed or was warned about beside what every test machine lacks. */
async function diagnose(home: string, env: Env = {}) {
  const { code, stdout, stderr } = await keptAgentd(["doctor", "--json"], { AGENTD_HOME: home, ...env });
  assert.equal(stderr, "");
  const { findings } = JSON.parse(stdout) as { findings: readonly Finding[] };
  const byName = new Map(findings.map((finding) => [finding.name, finding]));
  const usual = ["sandbox", "search", "home", "webhooks"];
  const bad = findings.filter(
    ({ name, status }) => ["fail", "warn"].includes(status) && !usual.includes(name),
  );
  return { code, bad, of: (name: string) => byName.get(name)!, text: stdout };
}

/** A home with this configuration, on a free port and without a search for model servers. */
async function createConfigured(config: Readonly<Record<string, unknown>> = {}) {
  const {
    model = { default: "demo:demo" },
    api_server: server = {},
    ...others
  } = config as Record<string, object>;
  const port = Number(await freePort());
  const whole = { api_server: { port, ...server }, model, ...others };
  const made = await createHome({ "config.yaml": JSON.stringify(whole) });
  return { ...made, port };
}

test("a healthy home has no failure and nothing to say about the demo model that was chosen", async () => {
  await using made = await createConfigured();
  const { code } = await diagnose(made.home);
  assert.equal(code, 0);
});

test("a broken line of the configuration is reported once, and what needs it is skipped", async () => {
  await using made = await createHome({ "config.yaml": "api_server:\n  port: many\n" });
  const { code, bad, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.deepEqual(
    bad.map(({ name }) => name),
    ["config"],
  );
  assert.match(bad[0]?.detail ?? "", /config\.yaml:2:9: api_server\.port must be an integer/);
  for (const name of ["database", "port", "model", "outbox", "cron"])
    assert.equal(of(name).status, "skip", name);
  const { stdout } = await keptAgentd(["doctor"], { AGENTD_HOME: made.home });
  assert.equal(stdout.split("api_server.port").length, 2, stdout);
  assert.match(
    stdout,
    /^skip {2}database, .*outbox, cron.*: checked once the failures above are corrected$/m,
  );
});

test("a port that an agentd of another home holds is not taken for our gateway", async () => {
  await using place = await createGatewayPlace();
  const gateway = await place.start();
  const port = Number(new URL(gateway.url).port);
  await using other = await createConfigured({ api_server: { port } });
  const { code, of } = await diagnose(other.home);
  assert.equal(code, 1);
  assert.match(
    of("port").detail,
    /in use by an agentd that refuses the key of this home: it serves another home/,
  );
  assert.match(of("port").fix ?? "", /api_server\.port/);
  const env = { AGENTD_DATABASE_URL: place.database, AGENTD_PORT: String(port) };
  const own = await diagnose(place.home, env);
  assert.match(own.of("port").detail, /^agentd \S+ of this home runs at/);
});

test("a model address without a server fails, with the address", async () => {
  const port = await freePort();
  const box = { type: "openai_compatible", base_url: `http://127.0.0.1:${port}/v1` };
  await using made = await createConfigured({ model: { default: "box:m", providers: { box } } });
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.equal(of("model").detail, `box:m: no model server answers at 127.0.0.1:${port}`);
  assert.match(of("model").fix ?? "", /model\.providers\.box\.base_url/);
});

test("a model server that refuses the key, or does not have the model, is reported", async () => {
  await using server = await startModelServer([saying("hi")], {
    "GET /v1/models": (response) => {
      const isKnown = response.req.headers.authorization === "Bearer the-right-key";
      response.writeHead(isKnown ? 200 : 403).end(JSON.stringify({ data: [{ id: "a" }, { id: "b" }] }));
    },
  });
  const box = { type: "openai_compatible", base_url: server.baseUrl, api_key: "env:BOX_KEY" };
  await using made = await createConfigured({ model: { default: "box:gone", providers: { box } } });
  const refused = await diagnose(made.home, { BOX_KEY: "a-wrong-key" });
  assert.match(refused.of("model").detail, /does not accept the API key \(403\)/);
  const missing = await diagnose(made.home, { BOX_KEY: "the-right-key" });
  assert.match(missing.of("model").detail, /does not list gone, but a, b/);
});

test("a home that cannot be created fails, and only checks that need no home run", async () => {
  await using made = await createHome({ file: "" });
  const { code, of } = await diagnose(join(made.home, "file", "home"));
  assert.equal(code, 1);
  assert.match(of("home").detail, /file\/home cannot be created: \S+file is a file/);
  assert.match(of("home").fix ?? "", /AGENTD_HOME/);
  assert.equal(of("database").status, "skip");
});

test("a workspace that cannot be created fails, with its setting", async () => {
  await using made = await createHome({ file: "" });
  await writeFile(join(made.home, "config.yaml"), `agent: { workspace: ${join(made.home, "file", "w")} }\n`);
  const { of } = await diagnose(made.home);
  assert.match(of("workspace").detail, /file\/w cannot be created: \S+file is a file/);
  assert.match(of("workspace").fix ?? "", /agent\.workspace/);
});

test("a broken database is reported once, with its path and what to do", async () => {
  await using made = await createConfigured();
  const path = join(made.home, "state.db");
  await writeFile(path, "this is text, and not a database of any kind");
  const { code, bad, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.deepEqual(
    bad.map(({ name }) => name).filter((name) => name !== "model"),
    ["database"],
  );
  assert.ok(of("database").detail.startsWith(`${path} cannot be used: `), of("database").detail);
  assert.match(of("database").fix ?? "", /move \S+state\.db away, and copy the one of a backup/);
  assert.equal(of("outbox").status, "skip");
});

test("a database server that cannot be reached is reported once, without its password", async () => {
  await using made = await createConfigured();
  const port = await freePort();
  const env = { AGENTD_DATABASE_URL: `postgres://agentd:canary-password@127.0.0.1:${port}/agentd` };
  const { code, of, text } = await diagnose(made.home, env);
  assert.equal(code, 1);
  assert.match(
    of("database").detail,
    new RegExp(`the PostgreSQL server at 127\\.0\\.0\\.1:${port} cannot be used`),
  );
  assert.match(of("database").fix ?? "", /AGENTD_DATABASE_URL/);
  assert.doesNotMatch(text, /canary-password/);
});

test("webhooks and the API on one port fail", async () => {
  const port = Number(await freePort());
  await using made = await createConfigured({
    api_server: { port },
    platforms: { webhook: { enabled: true, host: "127.0.0.1", port, extra: { secret: "x".repeat(32) } } },
  });
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.equal(
    of("webhooks").detail,
    `platforms.webhook.port and api_server.port are both ${port}, so no webhook arrives`,
  );
  assert.match(of("webhooks").fix ?? "", /WEBHOOK_PORT/);
});

test("the missing key of the default model is named", async () => {
  await using made = await createConfigured({ model: { default: "anthropic:claude-x" } });
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.match(of("model").detail, /anthropic:claude-x cannot answer.*ANTHROPIC_API_KEY is not set/);
});

test("a key without a chosen model is reported, with the command that helps", async () => {
  await using made = await createConfigured({ model: { detect_local: false } });
  const { code, of } = await diagnose(made.home, { OPENAI_API_KEY: "a-key-of-nobody-at-all" });
  assert.equal(code, 0);
  assert.match(of("model").detail, /OPENAI_API_KEY is set, but no model is chosen/);
  assert.match(of("model").fix ?? "", /agentd setup`, or `agentd model set openai:<model>/);
});

test("secrets that other users can read fail, with the command that closes them", async () => {
  await using made = await createConfigured();
  const path = join(made.home, ".env");
  await writeFile(path, "OPENAI_API_KEY=a-key-of-nobody-at-all\n");
  await chmod(path, 0o644);
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.deepEqual([of("secrets").status, of("secrets").fix], ["fail", `chmod 600 ${path}`]);
});

test("a platform without its token is reported, with the command that completes it", async () => {
  await using made = await createConfigured({ platforms: { telegram: { home_channel: "12345" } } });
  const { of } = await diagnose(made.home);
  assert.equal(of("platforms").status, "warn");
  assert.match(of("platforms").detail, /telegram is incomplete; missing: .*token/);
  assert.match(of("platforms").fix ?? "", /agentd gateway setup --platform telegram/);
});

const isRoot = process.getuid?.() === 0;

test("a configuration that cannot be read is reported", { skip: isRoot }, async () => {
  await using made = await createConfigured();
  await chmod(join(made.home, "config.yaml"), 0o000);
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.match(of("config").detail, /config\.yaml cannot be read/);
});

test("a configuration that is a folder is reported, and doctor does not crash", async () => {
  await using made = await createHome();
  await mkdir(join(made.home, "config.yaml"));
  const { code, of } = await diagnose(made.home);
  assert.equal(code, 1);
  assert.equal(of("config").status, "fail");
});

for (const [what, tokens, status] of [
  ["a small context is warned about", 4_096, "warn"],
  ["a large context is shown", 32_768, "ok"],
] as const) {
  test(`${what}, as the server reports it`, async () => {
    await using server = await startModelServer([], {
      "GET /v1/models": { data: [{ id: "m", max_model_len: tokens }] },
    });
    const box = { type: "openai_compatible", base_url: server.baseUrl };
    await using made = await createConfigured({ model: { default: "box:m", providers: { box } } });
    const { of } = await diagnose(made.home);
    assert.equal(of("model").status, status);
    assert.match(of("model").detail, new RegExp(`${tokens} tokens`));
    if (status === "warn") assert.match(of("model").fix ?? "", /OLLAMA_CONTEXT_LENGTH/);
    const shown = await keptAgentd(["model", "show"], { AGENTD_HOME: made.home });
    assert.match(shown.stderr, new RegExp(`Its context is ${tokens} tokens`));
  });
}
