/** The configuration over the control API. */
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { ConfigChange, ConfigView, FeedEvent } from "../../../generated/http/client/types.gen.ts";
import { asking, list, patch, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { KEY, startTestService, type TestService } from "../../harness/service.ts";

const CONFIG = "/v1/config";
const FILE = `# My agent.
version: 1
# How much it says.
log:
  level: info # for now
  format: text
api_server:
  port: 0
  keys:
    - { name: phone, key: very-secret-key-0123456789, scopes: [ read ] }
# The end.
`;

const folder = (service: TestService) => join(service.home, "agentd");
const fileOf = (service: TestService) => readFile(join(folder(service), "config.yaml"), "utf8");

async function writeFileOf(service: TestService, text = FILE): Promise<void> {
  await mkdir(folder(service), { recursive: true });
  await writeFile(join(folder(service), "config.yaml"), text, { mode: 0o600 });
}

const read = async (service: TestService) => (await (await service.request(CONFIG)).json()) as ConfigView;
const etagOf = async (service: TestService) => (await service.request(CONFIG)).headers.get("etag") ?? "";

/** Changes the version that is there now. */
async function change(service: TestService, body: object, query = ""): Promise<Response> {
  return patch(service, CONFIG + query, body, { "if-match": await etagOf(service) });
}

scenario("getConfig", 200, { title: "the file and what is in use, without secrets" }, async (service) => {
  await writeFileOf(service, `${FILE}agent:\n  max_steps: 7\n  nonsense: 1\n`);
  const view = await read(service);
  const { api_server: server } = view.file as { api_server: { keys: object[] } };
  assert.deepEqual(server.keys, [{ name: "phone", key: "[redacted]", scopes: ["read"] }]);
  assert.equal((view.effective["log"] as { level: string }).level, "info");
  assert.deepEqual(
    view.issues.map(({ path, severity }) => [path, severity]),
    [["agent.nonsense", "error"]],
  );
  assert.ok(view.issues[0]?.line);
  assert.ok(view.pending_restart.includes("agent.max_steps"));
  const text = await (await service.request(CONFIG)).text();
  assert.ok(!text.includes("very-secret-key"));
});

scenario("getConfig", 304, { title: "with the current ETag, which is that of the file" }, async (service) => {
  const etag = await etagOf(service);
  const headers = { "if-none-match": etag };
  assert.equal((await service.request(CONFIG, { headers })).status, 304);
  await writeFileOf(service);
  assert.equal((await service.request(CONFIG, { headers })).status, 200);
});

scenario("getConfig", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(await service.request(`${CONFIG}?raw=1`), 400, "unsupported_parameter");
});

scenario(
  "getConfigSchema",
  200,
  { title: "says when each key applies, and which are secret" },
  async (service) => {
    const schema = await (await service.request(`${CONFIG}/schema`)).json();
    const { $defs } = schema;
    assert.equal($defs.LogConfig.properties.level["x-applies"], "live");
    assert.equal($defs.LogConfig.properties.format["x-applies"], "restart");
    assert.equal(schema.properties.mcp["x-applies"], "reload");
    assert.equal($defs.ApiKeyConfig.properties.key["x-secret"], true);
    const without = Object.entries<Record<string, object>>($defs).flatMap(([name, { properties = {} }]) =>
      Object.entries(properties).flatMap(([key, each]) => ("x-applies" in each ? [] : [`${name}.${key}`])),
    );
    assert.deepEqual(without, []);
  },
);

scenario("getConfigSchema", 400, { title: "an unknown query parameter" }, async (service) => {
  await assertError(await service.request(`${CONFIG}/schema?a=1`), 400, "unsupported_parameter");
});

scenario("updateConfig", 428, { title: "PATCH config without If-Match is 428" }, async (service) => {
  const refused = await patch(service, CONFIG, { log: { level: "warn" } });
  assert.equal((await assertError(refused, 428, "precondition_required")).param, "If-Match");
  await assert.rejects(fileOf(service));
});

scenario("updateConfig", 412, { title: "of two changes with one ETag, one succeeds" }, async (service) => {
  await writeFileOf(service);
  const etag = await etagOf(service);
  const both = await Promise.all(
    [3, 4].map((max_steps) => patch(service, CONFIG, { agent: { max_steps } }, { "if-match": etag })),
  );
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 412]);
});

scenario(
  "updateConfig",
  200,
  { title: "comments and order of the file survive a patch, and null restores a default" },
  async (service) => {
    await writeFileOf(service);
    const before = await etagOf(service);
    const response = await change(service, {
      log: { level: "warn", format: null },
      agent: { max_steps: 12, toolsets: ["files"] },
    });
    const body = (await response.json()) as ConfigChange;
    assert.deepEqual(body.changed.toSorted(), [
      "agent.max_steps",
      "agent.toolsets",
      "log.format",
      "log.level",
    ]);
    assert.deepEqual(body.applied, ["log.level"]);
    assert.deepEqual(body.restart_required.toSorted(), ["agent.max_steps", "agent.toolsets", "log.format"]);
    assert.equal(
      await fileOf(service),
      FILE.replace("level: info", "level: warn")
        .replace("  format: text\n", "")
        .replace("# The end.\n", "agent:\n  max_steps: 12\n  toolsets:\n    - files\n\n# The end.\n"),
    );
    assert.equal(response.headers.get("etag"), await etagOf(service));
    assert.notEqual(response.headers.get("etag"), before);
  },
);

scenario(
  "updateConfig",
  200,
  { title: "a change that needs a restart is listed as pending until then" },
  async (service) => {
    await change(service, { agent: { max_steps: 12 }, log: { level: "warn" } });
    assert.deepEqual((await read(service)).pending_restart, ["agent.max_steps"]);
    const events = await storedEvents<FeedEvent>(service, "?types=config.*");
    assert.deepEqual(
      events.map(({ actor, data }) => [actor, data["changed"], data["restart_required"]]),
      [["default", ["agent.max_steps", "log.level"], ["agent.max_steps"]]],
    );
    await change(service, { agent: null });
    assert.deepEqual((await read(service)).pending_restart, []);
  },
);

scenario(
  "updateConfig",
  200,
  { title: "a dry run says what would change, and changes nothing" },
  async (service) => {
    await writeFileOf(service);
    const tried = await change(service, { log: { level: "error" } }, "?dry_run=true");
    assert.equal(tried.headers.get("x-agent-dry-run"), "true");
    assert.deepEqual(((await tried.json()) as ConfigChange).changed, ["log.level"]);
    assert.equal(await fileOf(service), FILE);
    assert.equal((await read(service)).effective["log"]!["level" as never], "info");
    assert.deepEqual(await list(service, "/v1/events?types=config.*", { accept: "application/json" }), []);
  },
);

scenario(
  "updateConfig",
  400,
  { title: "a patch that is invalid changes nothing and lists each issue with its path" },
  async (service) => {
    await writeFileOf(service, `${FILE}web:\n  old_mistake: 1\n`);
    const before = await fileOf(service);
    const refused = await change(service, {
      log: { level: "loud", colour: "red" },
      agent: { max_steps: 0 },
      api_server: { port: 1 },
    });
    const error = (await assertError(refused, 400, "invalid_config")) as never as {
      details: { issues: { path: string; message: string }[] };
    };
    assert.deepEqual(error.details.issues.map(({ path }) => path).toSorted(), [
      "agent.max_steps",
      "log.colour",
      "log.level",
    ]);
    assert.equal(await fileOf(service), before);
    for (const body of [{ log: "loud" }, { nothing: { at: { all: 1 } } }, { version: 2 }])
      await assertError(await change(service, body), 400, "invalid_config");
    await assertError(await change(service, { model: { default: "nowhere:1" } }), 400, "invalid_config");
    await assertError(await change(service, { api_server: { key: "env:NOT_SET" } }), 400, "invalid_config");
    await assertError(await change(service, [] as never), 400, "invalid_request");
    assert.equal(await fileOf(service), before);
  },
);

scenario(
  "updateConfig",
  400,
  { title: "the text [redacted] cannot be written back, nor any secret" },
  async (service) => {
    await writeFileOf(service);
    const patches: readonly (readonly [object, string])[] = [
      [{ api_server: { key: "a-plain-secret-0123456789" } }, "api_server.key"],
      [
        { api_server: { keys: [{ name: "a", key: "[redacted]", scopes: ["read"] }] } },
        "api_server.keys[0].key",
      ],
      [{ agent: { instructions: "say [redacted]" } }, "agent.instructions"],
      [{ platforms: { telegram: { token: "123456:abcdefghijklmnop" } } }, "platforms.telegram.token"],
    ];
    for (const [body, param] of patches) {
      const refused = await change(service, body);
      assert.equal((await assertError(refused, 400, "secret_not_allowed")).param, param);
    }
    assert.equal(await fileOf(service), FILE);
  },
);

test("what the file says of itself and is written back changes nothing but secrets, which are refused", async () => {
  await using service = await startTestService({});
  await writeFileOf(service);
  const { file } = await read(service);
  await assertError(await change(service, file ?? {}), 400, "secret_not_allowed");
  const { api_server: _, ...others } = file ?? {};
  const same = (await (await change(service, others)).json()) as ConfigChange;
  assert.deepEqual(same.changed, []);
  assert.equal(await fileOf(service), FILE);
});

test("the level of the log and the mode of approvals apply at once", async () => {
  await using service = await startTestService({ logLevel: "error", ...asking("rm -rf a") });
  await change(service, { log: { level: "debug" } });
  await service.request("/v1/models");
  await change(service, { approvals: { mode: "yolo" } });
  assert.match(service.logLines.join(""), /the configuration was changed/);
  const { run_id: id } = await (await post(service, "/v1/runs", { input: "hi" })).json();
  const run = await (await service.request(`/v1/runs/${id}?wait=30`)).json();
  assert.equal(run.status, "completed", "no question was asked");
  await change(service, { log: { level: "error" }, approvals: null });
  const lines = service.logLines.length;
  const { run_id: next } = await (await post(service, "/v1/runs", { input: "hi" })).json();
  assert.equal(
    (await (await service.request(`/v1/runs/${next}?wait=30`)).json()).status,
    "waiting_for_approval",
  );
  assert.equal(service.logLines.length, lines);
});

test("a key with the scope read sees the configuration and cannot change it", async () => {
  await using service = await startTestService({ keys: [{ key: KEY, name: "reader", scopes: ["read"] }] });
  assert.equal((await service.request(CONFIG)).status, 200);
  await assertError(await patch(service, CONFIG, {}, { "if-match": "*" }), 403, "insufficient_scope");
});
