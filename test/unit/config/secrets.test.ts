import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { loadConfig, readConfig } from "../../../src/config/config.ts";
import { platformKeys, type PlatformName } from "../../../src/config/platform-settings.ts";
import { resolveSecret } from "../../../src/config/home.ts";
import { createKeyRing, ensureApiKey, isLoopback } from "../../../src/config/keys.ts";
import { maskSecrets, secretValues } from "../../../src/config/secret-values.ts";
import { createHome, modeOf } from "./home-folder.ts";

const KEY = "0123456789abcdef0123";
const OTHER = "fedcba9876543210fedc";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

function ringOf(server: object, env = {}) {
  return createKeyRing(readConfig(JSON.stringify({ api_server: server })).config, { env });
}

const invalid = (pattern: RegExp) => (error: unknown) =>
  error instanceof ServiceError && error.code === "invalid_config" && pattern.test(error.message);

describe("createKeyRing", () => {
  it("finds the key with all rights, named keys, and keys known by their digest", () => {
    const ring = ringOf({
      key: KEY,
      keys: [
        { name: "ci", key: OTHER, scopes: ["chat", "read"] },
        { name: "ops", owner: "team", key_sha256: sha256("a key that is nowhere"), scopes: ["admin"] },
      ],
    });
    assert.equal(ring.required, true);
    assert.deepEqual(ring.find(KEY), { name: "default", owner: "default", scopes: ["admin"] });
    assert.deepEqual(ring.find(OTHER), { name: "ci", owner: "ci", scopes: ["chat", "read"] });
    assert.deepEqual(ring.find("a key that is nowhere"), { name: "ops", owner: "team", scopes: ["admin"] });
  });

  it("returns the limits of each key", () => {
    const limits = { rate_limit_rpm: 60, max_concurrent_runs: 2 };
    const ring = ringOf({ key: KEY, keys: [{ name: "ci", key: OTHER, scopes: ["chat"], ...limits }] });
    const expected = { name: "ci", owner: "ci", scopes: ["chat"], rateLimitRpm: 60, maxConcurrentRuns: 2 };
    assert.deepEqual(ring.find(OTHER), expected);
    assert.deepEqual(ring.find(KEY), { name: "default", owner: "default", scopes: ["admin"] });
  });

  it("finds nothing else", () => {
    const ring = ringOf({ key: KEY, keys: [{ name: "ops", key_sha256: sha256(OTHER), scopes: ["admin"] }] });
    for (const wrong of [
      "",
      KEY.slice(0, -1),
      `${KEY}x`,
      KEY.toUpperCase(),
      sha256(OTHER),
      "INSECURE_NO_AUTH",
      "x".repeat(1e5),
    ]) {
      assert.equal(ring.find(wrong), undefined);
    }
  });

  it("reads references from the environment, and names the variable that is not set", () => {
    assert.equal(ringOf({ key: "env:MY_KEY" }, { MY_KEY: KEY }).find(KEY)?.name, "default");
    assert.throws(
      () => ringOf({ key: "env:MY_KEY" }),
      invalid(/api_server\.key refers to the variable MY_KEY, which is not set/),
    );
    assert.throws(
      () => ringOf({ keys: [{ name: "a", key: "env:B", scopes: ["chat"] }] }),
      invalid(/api_server\.keys\[0\]\.key refers to the variable B/),
    );
  });

  it("refuses keys under 16 characters, also behind references, and never shows them", () => {
    const refusal = (error: unknown) =>
      invalid(/at least 16 characters/)(error) && !String(error).includes("hunter2");
    assert.throws(() => ringOf({ key: "env:K" }, { K: "hunter2hunter2x" }), refusal);
    assert.throws(
      () => ringOf({ keys: [{ name: "a", key: "env:K", scopes: ["chat"] }] }, { K: "hunter2" }),
      refusal,
    );
  });

  it("refuses a key that is given twice", () => {
    const twin = { name: "b", key_sha256: sha256(KEY), scopes: ["chat"] };
    assert.throws(
      () => ringOf({ key: KEY, keys: [twin] }),
      invalid(/keys\[0\] is the same key as api_server\.key/),
    );
  });

  it("allows one name for two keys, so that keys can be changed without a gap", () => {
    const keys = [KEY, OTHER].map((key) => ({ name: "ci", key, scopes: ["chat"] }));
    const ring = ringOf({ keys });
    assert.deepEqual([ring.find(KEY)?.name, ring.find(OTHER)?.name], ["ci", "ci"]);
  });

  for (const host of ["127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9", "LOCALHOST"]) {
    it(`asks for no key on ${host} with INSECURE_NO_AUTH`, () => {
      assert.equal(ringOf({ key: "INSECURE_NO_AUTH", host }).required, false);
    });
  }

  for (const host of [
    "0.0.0.0",
    "::",
    "192.168.1.2",
    "example.com",
    "127.0.0.1.example.com",
    "localhost.evil",
    "",
  ]) {
    it(`refuses INSECURE_NO_AUTH on ${JSON.stringify(host)}`, () => {
      if (host === "") return assert.equal(isLoopback(host), false);
      assert.throws(() => ringOf({ key: "INSECURE_NO_AUTH", host }), invalid(/would let anyone/));
      assert.throws(
        () => ringOf({ key: "env:K", host }, { K: "INSECURE_NO_AUTH" }),
        invalid(/would let anyone/),
      );
    });
  }

  it("refuses INSECURE_NO_AUTH to the pages of all origins, not to those of some", () => {
    const open = { key: "env:K", cors_origins: ["https://app.example", "*"] };
    assert.throws(() => ringOf(open, { K: "INSECURE_NO_AUTH" }), invalid(/let any web page/));
    const some = { key: "INSECURE_NO_AUTH", cors_origins: ["https://app.example"] };
    assert.equal(ringOf(some).required, false);
    const { issues } = readConfig('api_server: { key: INSECURE_NO_AUTH, cors_origins: ["*"] }');
    assert.deepEqual(
      issues.map(({ path, severity }) => [path, severity]),
      [["api_server.cors_origins", "error"]],
    );
  });

  it("refuses INSECURE_NO_AUTH as a named key", () => {
    const keys = [{ name: "a", key: "env:K", scopes: ["chat"] }];
    assert.throws(() => ringOf({ keys }, { K: "INSECURE_NO_AUTH" }), invalid(/must be a key/));
  });

  it("refuses a configuration without any key", () =>
    assert.throws(() => ringOf({}), invalid(/No API key is configured/)));
});

describe("resolveSecret", () => {
  it("treats an empty variable as unset", () => {
    assert.equal(resolveSecret("plain", {}, "p"), "plain");
    assert.throws(() => resolveSecret("env:A", { A: "" }, "p"), invalid(/A, which is not set/));
  });
});

describe("ensureApiKey", () => {
  it("creates a key of 32 random bytes in a private .env, and keeps it", async () => {
    await using made = await createHome({ ".env": "# mine\nOTHER=1\n" });
    const first = await ensureApiKey(await loadConfig({ home: made.home, env: {} }));
    assert.deepEqual([first.created, first.path], [true, join(made.home, ".env")]);
    assert.match(first.config.api_server.key ?? "", /^[\w-]{43}$/);
    assert.equal(
      await readFile(first.path, "utf8"),
      `# mine\nOTHER=1\nAPI_SERVER_KEY=${first.config.api_server.key}\n`,
    );
    assert.equal(await modeOf(first.path), "600");
    const second = await ensureApiKey(await loadConfig({ home: made.home, env: {} }));
    assert.deepEqual([second.created, second.config.api_server.key], [false, first.config.api_server.key]);
    assert.ok(createKeyRing(second.config, { env: {} }).find(first.config.api_server.key ?? ""));
  });

  it("creates no key when one is configured, of any kind", async () => {
    for (const [text, env] of [
      [`api_server: { key: ${KEY} }`, {}],
      [`api_server: { keys: [{ name: a, key: ${KEY}, scopes: [chat] }] }`, {}],
      ["api_server: { key: INSECURE_NO_AUTH }", {}],
      ["", { API_SERVER_KEY: KEY }],
    ] as const) {
      await using made = await createHome({ "config.yaml": text });
      const loaded = await loadConfig({ home: made.home, env });
      const ensured = await ensureApiKey(loaded);
      assert.deepEqual([ensured.created, ensured.config], [false, loaded.config]);
      await assert.rejects(readFile(join(made.home, ".env")), { code: "ENOENT" });
    }
  });
});

describe("secrets of a configuration", () => {
  const { config } = readConfig(`
api_server: { key: env:MAIN, keys: [{ name: ci, key: ${OTHER}, scopes: [chat] }], webhook_secret: whsec_c2lnbnM= }
model: { providers: { p: { type: openai, api_key: sk-provider-key, headers: { x-token: header-token, x-ref: env:REF } } } }
database: { url: "postgres://me:p%40ssword@db/agentd" }
`);
  const env = {
    MAIN: KEY,
    REF: "referred-value",
    ANTHROPIC_API_KEY: "anthropic-key",
    UNRELATED: "unrelated",
  };

  it("are registered with the redactor, with references resolved, in every form", () => {
    assert.deepEqual(
      new Set(secretValues(config, env)),
      new Set([
        KEY,
        OTHER,
        "whsec_c2lnbnM=",
        "sk-provider-key",
        "header-token",
        "referred-value",
        "anthropic-key",
        "p%40ssword",
        "p@ssword",
      ]),
    );
  });

  it("are empty for INSECURE_NO_AUTH and for empty settings", () => {
    assert.deepEqual(secretValues(readConfig("api_server: { key: INSECURE_NO_AUTH }").config, {}), []);
  });

  it("are masked for people, references are not", () => {
    const text = JSON.stringify(maskSecrets(config));
    for (const secret of [OTHER, "whsec_c2lnbnM=", "sk-provider-key", "header-token", "p%40ssword"])
      assert.ok(!text.includes(secret), secret);
    for (const open of ["env:MAIN", "env:REF", "postgres://me:[redacted]@db/agentd", '"name":"ci"']) {
      assert.ok(text.includes(open), open);
    }
  });

  it("are masked where a server's address or its command line names them", () => {
    const servers = {
      far: { url: "https://mcp.example/sse?tavilyApiKey=canary-1&page=2&access_token=canary-2" },
      near: {
        command: "serve",
        args: ["--api-key", "canary-3", "--token=canary-4", "--port", "80", "--keyring"],
      },
    };
    assert.deepEqual(maskSecrets({ mcp: { servers } }), {
      mcp: {
        servers: {
          far: { url: "https://mcp.example/sse?tavilyApiKey=[redacted]&page=2&access_token=[redacted]" },
          near: {
            command: "serve",
            args: ["--api-key", "[redacted]", "--token=[redacted]", "--port", "80", "--keyring"],
          },
        },
      },
    });
  });

  it("are masked when read one by one", () => {
    assert.equal(maskSecrets(OTHER, ["api_server", "keys", 0, "key"]), "[redacted]");
    assert.equal(maskSecrets("v", ["model", "providers", "p", "headers", "x"]), "[redacted]");
    assert.equal(maskSecrets("openai", ["model", "providers", "p", "type"]), "openai");
  });

  it("of platforms are all settings that the schema marks, wherever they are written", () => {
    const names = Object.keys(readConfig("").config.platforms).filter((name) => name !== "webhook");
    const keys = (names as readonly PlatformName[]).flatMap((name) =>
      platformKeys(name).map((key) => ({ ...key, name })),
    );
    const secret = keys.filter(({ isSecret }) => isSecret);
    assert.ok(secret.length >= 15);
    for (const [index, { name, key, type, variables }] of secret.entries()) {
      const address = `https://x.example/send?access_token=canary-q-${index}`;
      const value = (mark: string) => (key.endsWith("_url") ? address + mark : `canary-${mark}-${index}`);
      const wrap = (mark: string) => (type === "object" ? { "some user": value(mark) } : value(mark));
      const platform = { [key]: wrap("a"), extra: { [key]: wrap("b") } };
      const { config: written, issues } = readConfig(JSON.stringify({ platforms: { [name]: platform } }));
      assert.deepEqual(issues, []);
      const found = secretValues(written, Object.fromEntries(variables.map((each) => [each, value(each)])));
      for (const mark of ["a", "b", ...variables])
        assert.ok(found.includes(value(mark)), `${name}.${key} ${mark}`);
      if (key.endsWith("_url")) assert.ok(found.includes(`canary-q-${index}a`), `${name}.${key}`);
      assert.doesNotMatch(JSON.stringify(maskSecrets(written)), /canary/, `${name}.${key}`);
      assert.doesNotMatch(JSON.stringify(maskSecrets(wrap("a"), ["platforms", name, key])), /canary/);
    }
  });

  it("of platforms do not include plain settings", () => {
    const { config: written } = readConfig(
      "platforms: { telegram: { home_channel: '-1001', token: env:TG }, weixin: { account_id: acc } }",
    );
    assert.deepEqual(secretValues(written, { TG: "canary-token", TELEGRAM_HOME_CHANNEL: "-1002" }), [
      "canary-token",
    ]);
    const text = JSON.stringify(maskSecrets(written.platforms));
    for (const open of ["-1001", "env:TG", "acc"]) assert.ok(text.includes(open), open);
  });

  it("of platforms include the passwords in their addresses", () => {
    const { config: written } = readConfig(
      "platforms: { mattermost: { base_url: 'https://me:hunter%402@chat.example' } }",
    );
    assert.deepEqual(secretValues(written, {}), ["hunter%402", "hunter@2"]);
    assert.match(JSON.stringify(maskSecrets(written.platforms)), /me:\[redacted\]@chat/);
  });
});
