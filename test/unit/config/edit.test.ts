import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { configSchema } from "../../../generated/config/schema.gen.ts";
import { getAtPath, parseDotPath, isRecord } from "../../../src/base/data.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { type JsonSchema } from "../../../src/base/schema.ts";
import { loadConfig, readConfig } from "../../../src/config/config.ts";
import { setConfigValue, unsetConfigValue } from "../../../src/config/file.ts";
import { schemaAt } from "../../../src/config/check.ts";
import { createHome, modeOf } from "./home-folder.ts";

const FILE = "config.yaml";

/** The file after each `key=value` (or `-key`) was applied to `text`. */
async function edited(text: string | undefined, ...edits: readonly string[]): Promise<string> {
  await using made = await createHome(text === undefined ? {} : { [FILE]: text });
  for (const edit of edits) {
    const [key = "", ...value] = edit.split("=");
    if (key.startsWith("-")) await unsetConfigValue({ home: made.home, key: key.slice(1) });
    else await setConfigValue({ home: made.home, key, value: value.join("=") });
  }
  return await readFile(join(made.home, FILE), "utf8");
}

async function assertRefused(text: string, edit: string, pattern: RegExp): Promise<void> {
  await using made = await createHome({ [FILE]: text });
  const [key = "", ...value] = edit.split("=");
  const change = key.startsWith("-")
    ? unsetConfigValue({ home: made.home, key: key.slice(1) })
    : setConfigValue({ home: made.home, key, value: value.join("=") });
  await assert.rejects(
    change,
    (error) =>
      error instanceof ServiceError && error.code === "invalid_config" && pattern.test(error.message),
  );
  assert.equal(await readFile(join(made.home, FILE), "utf8"), text);
}

/** Lists whose items are not just any text. */
const LISTS: Readonly<Record<string, string>> = {
  scopes: '["chat"]',
  cors_origins: '["https://example.com","*"]',
  filters: '[{"field":"a","exists":true}]',
  retry_seconds: "[1,86400]",
};

/** What must be there before a key in it can be set. */
const HOLDERS: Readonly<Record<string, string>> = {
  "model.providers.mine": '{"type": "openai", "base_url": "http://localhost"}',
  "model.providers.mine.prices[0]": '{"match": "*", "input": 1, "output": 1}',
  "api_server.keys[0]": '{"name": "n", "scopes": ["read"]}',
  "web.search": '{"provider": "brave"}',
  "mcp.servers.mine": '{"enabled": true}',
  "quick_commands.mine": '{"type": "exec", "value": "ls"}',
  "platforms.webhook.routes.mine.coalesce": '{"key": "{a}"}',
  "platforms.webhook.extra.routes.mine.coalesce": '{"key": "{a}"}',
};
/** Maps with names of the user's own. */
const MAPS: readonly string[] = [
  "model.providers",
  "mcp.servers",
  "quick_commands",
  "platforms.webhook.routes",
  "platforms.webhook.extra.routes",
];

describe("setConfigValue", () => {
  it("creates the file, private and with its version", async () => {
    await using made = await createHome();
    const edit = { home: join(made.home, "new"), key: "api_server.port", value: "9000" };
    assert.deepEqual(await setConfigValue(edit), { path: join(made.home, "new", FILE), changed: true });
    assert.equal(
      await readFile(join(made.home, "new", FILE), "utf8"),
      "version: 1\napi_server:\n  port: 9000\n",
    );
    assert.equal(await modeOf(join(made.home, "new", FILE)), "600");
  });

  it("keeps comments, blank lines, order and quotes", async () => {
    const text = `# top

# where
api_server:
  # the port
  port: 8642 # default
  host: "0.0.0.0"

log: { level: info } # short
# end
`;
    const after = await edited(text, "api_server.port=9000", "log.level=debug", "agent.max_steps=7");
    assert.equal(
      after,
      text
        .replace("8642", "9000")
        .replace("level: info", "level: debug")
        .replace("# end\n", "agent:\n  max_steps: 7\n\n# end\n"),
    );
  });

  it("fills an empty section, and a file of comments only", async () => {
    assert.match(
      await edited("# a\nmodel:\n  # none\nlog:\n", "log.level=warn"),
      /^# a\nmodel: # none\nlog:\n {2}level: warn\n$/,
    );
    assert.match(await edited("# only\n", "log.level=warn"), /# only\n[\s\S]*log:\n {2}level: warn\n$/);
  });

  it("changes nothing when the value is the same", async () => {
    await using made = await createHome({ [FILE]: "log:    {level:    info}\n" });
    const outcome = await setConfigValue({ home: made.home, key: "log.level", value: "info" });
    assert.equal(outcome.changed, false);
    assert.equal(await readFile(join(made.home, FILE), "utf8"), "log:    {level:    info}\n");
  });

  it("takes YAML scalars and JSON, and plain text for keys that hold text", async () => {
    const after = await edited(
      undefined,
      "agent.toolsets=[files]",
      'terminal.env_passthrough=["A", "B"]',
      "model.detect_local=false",
      "agent.timeout_seconds=1.5",
      "agent.instructions=true: [not] {yaml",
      'model.default="quoted: x"',
      "api_server.model_name=123",
      'model.providers.mine={"type":"openai_compatible","base_url":"http://x/v1","headers":{"x-a":"b"}}',
    );
    const { config, issues } = readConfig(after);
    assert.deepEqual(issues, []);
    assert.deepEqual(config.agent.toolsets, ["files"]);
    assert.deepEqual(config.terminal.env_passthrough, ["A", "B"]);
    assert.deepEqual([config.model.detect_local, config.agent.timeout_seconds], [false, 1.5]);
    assert.equal(config.agent.instructions, "true: [not] {yaml");
    assert.deepEqual([config.model.default, config.api_server.model_name], ["quoted: x", "123"]);
    assert.deepEqual(config.model.providers["mine"]?.headers, { "x-a": "b" });
  });

  it("reaches into lists, and adds the next item only", async () => {
    const text = "api_server:\n  keys:\n    - { name: a, key: 0123456789abcdef, scopes: [chat] } # first\n";
    const after = await edited(text, "api_server.keys[0].name=b", "api_server.keys[0].scopes[1]=runs");
    assert.match(after, /- \{ name: b, key: 0123456789abcdef, scopes: \[ ?chat, runs ?\] \} # first/);
    await assertRefused(text, "api_server.keys[3].name=x", /has 1 item; the next one is \[1\]/);
    await assertRefused(text, "api_server.keys.name=x", /not a known key/);
  });

  const refused: readonly (readonly [string, RegExp])[] = [
    ["api_server.prot=1", /^api_server\.prot is not a known key; did you mean "port"\?$/],
    ["api_srver.port=1", /^api_srver is not a known key; did you mean "api_server"\?$/],
    ["zzz=1", /valid names: version, model/],
    ["api_server.port=abc", /^api_server\.port must be an integer\.$/],
    ["api_server.port=70000", /at most 65535/],
    ["approvals.mode=never", /must be one of "ask", "always_ask", "yolo"/],
    ["agent.toolsets=files", /must be an array/],
    ["agent.toolsets=[files", /neither a YAML scalar nor JSON.*\[a, b\]/],
    ["log=info", /must be an object/],
    ["log.level.x=1", /not a known key/],
    ["log.level=", /must be one of/],
    ["api_server.port=null", /unset it/],
    ["version=2", /version must be 1/],
    ["model.providers.Bad=", /.+/],
    ["model.providers.mine.base_url=http://x", /model\.providers\.mine\.type is required/],
    ["__proto__.x=1", /not a known key/],
    ["constructor=1", /not a known key/],
    ["a..b=1", /is not a key\. Write keys like/],
  ];
  for (const [edit, pattern] of refused) {
    it(`refuses ${edit} with what is allowed, and leaves the file alone`, () =>
      assertRefused("# mine\nlog: { level: warn }\n", edit, pattern));
  }

  it("refuses a file that is not YAML with line and column", async () => {
    await assertRefused(
      "log:\n  level: [\n",
      "log.level=info",
      /config\.yaml:\d+:\d+: .*\nCorrect the file by hand/,
    );
    await assertRefused("- a\n", "log.level=info", /must hold keys and values/);
    await assertRefused("version: 9\n", "log.level=info", /9 is newer than this agentd/);
  });

  it("does not change the target of an alias", () =>
    assertRefused("log: &a { level: info }\nagent: *a\n", "agent.max_steps=5", /is an alias in the file/));

  it("works although something else in the file is wrong, and can repair it", async () => {
    const text = "log: { level: loud }\nfoo: 1\n";
    assert.match(await edited(text, "api_server.port=1"), /foo: 1\napi_server:\n {2}port: 1/);
    assert.deepEqual(readConfig(await edited(text, "log.level=info", "-foo")).issues, []);
    assert.match(await edited("log: 5\n", "log={level: warn}"), /level: warn/);
    await assertRefused("log: 5\n", "log.level=warn", /log is not a section in the file/);
  });

  it("loses no concurrent change", async () => {
    await using made = await createHome();
    const changes = {
      "api_server.port": "1",
      "log.level": "warn",
      "agent.max_steps": "3",
      "model.default": "a:b",
    };
    await Promise.all(
      Object.entries(changes).map(([key, value]) => setConfigValue({ home: made.home, key, value })),
    );
    const { config } = await loadConfig({ home: made.home, env: {} });
    assert.deepEqual(
      [config.api_server.port, config.log.level, config.agent.max_steps, config.model.default],
      [1, "warn", 3, "a:b"],
    );
  });
});

describe("unsetConfigValue", () => {
  it("removes the key and sections that become empty, and keeps other comments", async () => {
    assert.equal(
      await edited("# top\nlog:\n  level: warn\nagent: { max_steps: 3 } # x\n", "-log.level"),
      "# top\nagent: { max_steps: 3 } # x\n",
    );
  });

  it("leaves a file of comments without braces", async () => {
    const after = await edited("# top\n\nversion: 1\n# end\n", "-version");
    assert.doesNotMatch(after, /[{}]/);
    assert.match(after, /# end/);
    assert.deepEqual(readConfig(after).issues, []);
  });

  it("changes nothing when the key does not exist", async () => {
    assert.equal(await edited("log:   {}\n", "-agent.max_steps"), "log:   {}\n");
  });

  it("removes items and unknown keys", async () => {
    assert.equal(await edited("foo: { a: 1 }\nlog: {}\n", "-foo"), "log: {}\n");
    assert.equal(
      await edited("agent: { toolsets: [a, b, c] }\n", "-agent.toolsets[1]"),
      "agent: { toolsets: [ a, c ] }\n",
    );
  });

  it("refuses to remove a key that another one needs", () =>
    assertRefused(
      "model: { providers: { m: { type: openai, models: [x] } } }\n",
      "-model.providers.m.type",
      /type is required/,
    ));

  it("suggests the nearest key, also one of the file", () =>
    assertRefused("foobar: 1\n", "-foobra", /did you mean "foobar"\?/));
});

describe("every key of the schema", () => {
  for (const [key, text] of leaves()) {
    it(`${key} round-trips through set and load`, async () => {
      await using made = await createHome();
      for (const [holder, value] of Object.entries(HOLDERS)) {
        if (key.startsWith(`${holder}.`)) await setConfigValue({ home: made.home, key: holder, value });
      }
      await setConfigValue({ home: made.home, key, value: text });
      const { config } = await loadConfig({ home: made.home, env: {} });
      const value = getAtPath(config, parseDotPath(key) ?? []);
      assert.equal(typeof value === "string" ? value : JSON.stringify(value), text);
      assert.ok(await readFile(join(made.home, FILE), "utf8").then((written) => !written.includes("{}")));
      await writeFile(join(made.home, FILE), "");
    });
  }
});

/** Every key that holds no section, with a value that fits it. */
function leaves(schema: JsonSchema = configSchema, path = ""): readonly (readonly [string, string])[] {
  const { properties } = schema;
  return Object.keys(isRecord(properties) ? properties : {}).flatMap((name) => {
    const key = path === "" ? name : `${path}.${name}`;
    const at = schemaAt(parseDotPath(key) ?? []) ?? {};
    if (isRecord(at["properties"])) return leaves(at, key);
    if (MAPS.includes(key)) return leaves(schemaAt(parseDotPath(`${key}.mine`) ?? []) ?? {}, `${key}.mine`);
    if (name === "keys" || name === "prices") {
      return leaves(schemaAt(parseDotPath(`${key}[0]`) ?? []) ?? {}, `${key}[0]`);
    }
    return [[key, fittingValue(name, at)] as const];
  });
}

function fittingValue(name: string, schema: JsonSchema): string {
  if (name === "timezone") return "Europe/Berlin";
  const { type, enum: choices, const: only, minimum, maximum, maxLength = 64 } = schema;
  if (only !== undefined) return String(only);
  if (Array.isArray(choices)) return String(choices.at(-1));
  if (type === "boolean") return "false";
  if (type === "integer" || type === "number")
    return String(Math.min(Number(minimum ?? 0) + 1, Number(maximum ?? Infinity)));
  if (type === "array") return LISTS[name] ?? '["one","two"]';
  if (type === "object") return isMapOfUrls(schema) ? '{"x-a":"http://127.0.0.1:1/v1"}' : '{"x-a":"b"}';
  const fits = new RegExp(String(schema["pattern"] ?? ""), "u");
  const long = "a".repeat(Math.min(64, Number(maxLength)));
  if (name !== "url" && fits.test(long)) return long;
  return fits.test("https://example.com/v1") ? "https://example.com/v1" : "wss://example.com/v1";
}

function isMapOfUrls({ additionalProperties: items }: Readonly<Record<string, unknown>>): boolean {
  return String((items as { readonly pattern?: unknown } | undefined)?.pattern).startsWith("^http");
}
