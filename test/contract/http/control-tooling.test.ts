/** Providers, prices, skills, toolsets, tools and MCP servers over the control API. */
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type {
  AgentTool,
  FeedEvent,
  McpServer,
  ModelPrice,
  ModelTest,
  Provider,
  Skill,
  Toolset,
} from "../../../generated/http/client/types.gen.ts";
import { testTool } from "../../harness/agent.ts";
import { list, storedEvents } from "../../harness/control.ts";
import { post } from "../../harness/runs.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { type TestService } from "../../harness/service.ts";

const OPENAI = { name: "openai", type: "openai", models: ["gpt-5.1"], hasKey: true };
const LOCAL = {
  name: "ollama",
  type: "openai_compatible",
  baseUrl: "http://user:pass@127.0.0.1:11434/v1",
  models: ["qwen3:8b"],
  isLocal: true,
};
const CORP = {
  name: "corp",
  type: "openai_compatible",
  baseUrl: "https://models.example/v1",
  models: ["m-large", "m-odd"],
  prices: [{ match: "m-l*", input: 2, output: 4, cache_read: 1 }],
};
const NO_KEY = { name: "anthropic", type: "anthropic", models: [], hasKey: false };
const providers = [OPENAI, LOCAL, CORP, NO_KEY];
const config = { model: { providers: { openai: { type: "openai" } } } };

scenario(
  "listProviders",
  200,
  {
    title: "each provider says where it comes from, whether it works and what its models cost",
    providers,
    config,
  },
  async (service) => {
    const all = await list<Provider>(service, "/v1/providers?limit=2");
    assert.deepEqual(
      all.map(({ name, source, ready, has_key: hasKey }) => [name, source, ready, hasKey]),
      [
        ["openai", "config", true, true],
        ["ollama", "detected", true, false],
        ["corp", "detected", true, false],
        ["anthropic", "detected", false, false],
        ["demo", "demo", true, true],
      ],
    );
    const [openai, ollama, corp, anthropic] = all;
    assert.equal(openai?.base_url, null);
    assert.equal(ollama?.base_url, "http://127.0.0.1:11434/v1", "without the password");
    assert.match(anthropic?.issue ?? "", /ANTHROPIC_API_KEY/);
    assert.deepEqual([openai?.models[0]?.id, openai?.models[0]?.is_default], ["openai:gpt-5.1", true]);
    assert.ok(openai!.models[0]!.price!.input > 0);
    assert.equal(ollama?.models[0]?.price?.output, 0);
    assert.deepEqual(
      corp?.models.map(({ price }) => price),
      [{ input: 2, output: 4, cache_read: 1, cache_write: 2 }, null],
    );
  },
);

scenario("listPrices", 200, { title: "each price says its source", providers }, async (service) => {
  const all = await list<ModelPrice>(service, "/v1/prices?limit=2");
  assert.deepEqual(
    all.map(({ id, source }) => [id, source]),
    [
      ["openai:gpt-5.1", "bundled"],
      ["ollama:qwen3:8b", "local"],
      ["corp:m-large", "config"],
      ["corp:m-odd", "none"],
      ["demo:demo", "local"],
    ],
  );
  const named = await list<ModelPrice>(
    service,
    "/v1/prices?model=openai:gpt-5-mini,corp:m-large&provider=openai",
  );
  assert.deepEqual(
    named.map(({ id, source }) => [id, source]),
    [["openai:gpt-5-mini", "bundled"]],
  );
});

scenario(
  "listPrices",
  400,
  { title: "a model that no provider has", providers: [NO_KEY] },
  async (service) => {
    const response = await service.request("/v1/prices?model=gpt-5.1");
    assert.equal((await assertError(response, 400, "model_not_found")).param, "model");
  },
);

const wrongCursor = async (service: TestService, path: string) => {
  const response = await service.request(`${path}?after=run_1`);
  assert.equal((await assertError(response, 400, "invalid_cursor")).param, "after");
  await assertError(await service.request(`${path}?colour=red`), 400, "unsupported_parameter");
};

scenario("listProviders", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/providers"),
);
scenario("listBudgets", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/budgets"),
);
scenario("listSkills", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/skills"),
);
scenario("listToolsets", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/toolsets"),
);
scenario("listTools", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/tools"),
);
scenario("listMcpServers", 400, { title: "a cursor of another list" }, (service) =>
  wrongCursor(service, "/v1/mcp/servers"),
);

scenario(
  "testModel",
  200,
  {
    title: "a model is tested with a tool call, and its cost is known",
    providers: [OPENAI],
    script: ({ step }) =>
      step === 0
        ? { text: "Let me see.", calls: [{ tool: "greeting", input: {} }] }
        : { text: "Hello from agentd." },
  },
  async (service) => {
    const test = (await (await post(service, "/v1/providers/test", {})).json()) as ModelTest;
    assert.deepEqual([test.ok, test.called_tool, test.error], [true, true, null]);
    assert.equal(test.model, "openai:gpt-5.1");
    assert.equal(test.text, "Hello from agentd.");
    assert.equal(test.usage.model_calls, 2);
    assert.ok(test.cost_usd! > 0 && test.first_token_ms! >= 0 && test.took_ms >= 0);
    const plain = await (await post(service, "/v1/providers/test", { with_tool: false })).json();
    assert.equal(plain.called_tool, null);
  },
);

scenario("testModel", 400, { title: "an unknown model and an unknown field" }, async (service) => {
  await assertError(await post(service, "/v1/providers/test", { model: "gpt-5.1" }), 400, "model_not_found");
  await assertError(await post(service, "/v1/providers/test", { colour: "red" }), 400, "invalid_request");
});

async function reuseKey(service: TestService, path: string): Promise<void> {
  const headers = { "idempotency-key": "once" };
  const first = await post(service, path, {}, headers);
  assert.equal(first.status, 200, await first.clone().text());
  const again = await post(service, path, {}, headers);
  assert.equal(again.headers.get("idempotency-replayed"), "true");
  assert.deepEqual(await again.json(), await first.json());
  const { store } = service.service;
  await store.write((tx) => tx.update("ledger", { key: "once" }, { fingerprint: "another" }));
  await assertError(await post(service, path, {}, headers), 409, "idempotency_key_conflict");
}

const reused = { title: "an Idempotency-Key of another request", config: nowhere() };
scenario("testModel", 409, reused, (service) => reuseKey(service, "/v1/providers/test"));
scenario("detectProviders", 409, reused, (service) => reuseKey(service, "/v1/providers/detect"));
scenario("reloadMcp", 409, reused, (service) => reuseKey(service, "/v1/mcp/reload"));

scenario(
  "detectProviders",
  200,
  { title: "nothing answers on this machine", config: nowhere() },
  async (service) => {
    const response = await post(service, "/v1/providers/detect", {});
    assert.deepEqual(await response.json(), {
      object: "agent.provider.detection",
      servers: [],
      unanswered: [],
    });
  },
);

scenario("detectProviders", 400, { title: "an unknown field" }, async (service) => {
  await assertError(await post(service, "/v1/providers/detect", { add: true }), 400, "invalid_request");
});

/** Port 9 is closed everywhere. */
function nowhere() {
  return { model: { local_servers: { ollama: "http://127.0.0.1:9/v1" } } };
}

async function addSkill(service: TestService, folder: string, text: string): Promise<void> {
  const path = join(service.home, "agentd", "skills", folder);
  await mkdir(path, { recursive: true });
  await writeFile(join(path, "SKILL.md"), text);
}

scenario(
  "listSkills",
  200,
  { title: "skills have a category, a source and, if they cannot be loaded, a problem" },
  async (service) => {
    await addSkill(
      service,
      "tea",
      "---\nname: tea\ndescription: Makes tea.\nrequired_variables: [TEA_KEY]\n---\nBoil.",
    );
    await addSkill(service, "kitchen/bread", "---\nname: bread\ndescription: Bakes.\n---\nKnead.");
    await addSkill(service, "broken", "no front matter");
    const all = await list<Skill>(service, "/v1/skills?limit=1");
    assert.deepEqual(
      all.map(({ name, category, source, instructions }) => [name, category, source, instructions]),
      [
        ["bread", "kitchen", "home", null],
        ["broken", null, "home", null],
        ["tea", null, "home", null],
      ],
    );
    assert.deepEqual(all[2]?.required_variables, [{ name: "TEA_KEY", is_set: false }]);
    assert.match(all[1]?.problem ?? "", /front matter/);
  },
);

scenario("getSkill", 200, { title: "with its instructions if they are asked for" }, async (service) => {
  await addSkill(service, "tea", "---\nname: tea\ndescription: Makes tea.\n---\nBoil water.");
  const plain = await (await service.request("/v1/skills/tea")).json();
  assert.deepEqual([plain.description, plain.instructions], ["Makes tea.", null]);
  const whole = await (await service.request("/v1/skills/tea?include=instructions")).json();
  assert.equal(whole.instructions, "Boil water.");
});

scenario("getSkill", 404, { title: "an unknown skill, and one that cannot be loaded" }, async (service) => {
  await addSkill(service, "broken", "no front matter");
  for (const name of ["none", "broken"]) {
    await assertError(await service.request(`/v1/skills/${name}`), 404, "skill_not_found");
  }
});

scenario("getSkill", 400, { title: "an unknown part" }, async (service) => {
  const response = await service.request("/v1/skills/tea?include=files");
  await assertError(response, 400, "unsupported_parameter");
});

scenario(
  "listToolsets",
  200,
  { title: "toolsets are enabled by the configuration", config: { agent: { toolsets: ["files", "mcp"] } } },
  async (service) => {
    const all = await list<Toolset>(service, "/v1/toolsets?limit=3");
    const of = (name: string) => all.find((each) => each.name === name);
    assert.deepEqual([of("files")?.enabled, of("files")?.configured], [true, true]);
    assert.ok(of("files")?.tools.includes("read_file"));
    assert.deepEqual([of("mcp")?.enabled, of("mcp")?.configured], [true, false]);
    assert.deepEqual([of("terminal")?.enabled, of("terminal")?.tools], [false, []]);
  },
);

scenario(
  "listTools",
  200,
  { title: "tools have their schema and their toolset", tools: [testTool(async () => "", "aaa")] },
  async (service) => {
    const all = await list<AgentTool>(service, "/v1/tools?limit=5");
    assert.deepEqual(
      all.map(({ name }) => name),
      all.map(({ name }) => name).toSorted(),
    );
    assert.equal(all[0]?.name, "aaa");
    assert.equal(all[0]?.input_schema["type"], "object");
    const files = await list<AgentTool>(service, "/v1/tools?toolset=files");
    assert.ok(
      files.length >= 4 && files.every(({ toolset, source }) => toolset === "files" && source === "builtin"),
    );
    assert.deepEqual(await list<AgentTool>(service, "/v1/tools?server=none"), []);
  },
);

const broken = { mcp: { servers: { nothing: { command: "/nowhere/at/all" } } } };

scenario(
  "listMcpServers",
  200,
  { title: "a server that cannot be started says why", config: broken },
  async (service) => {
    let servers: McpServer[];
    do servers = await list<McpServer>(service, "/v1/mcp/servers");
    while (servers[0]?.status === "connecting");
    assert.deepEqual([servers[0]?.name, servers[0]?.status, servers[0]?.tools], ["nothing", "failed", 0]);
    assert.ok(servers[0]?.error);
  },
);

scenario("reloadMcp", 200, { title: "connects the servers again", config: broken }, async (service) => {
  const body = await (await post(service, "/v1/mcp/reload", {})).json();
  assert.deepEqual(
    body.data.map(({ name, status }: McpServer) => [name, status]),
    [["nothing", "failed"]],
  );
  assert.deepEqual([body.first_id, body.has_more], ["nothing", false]);
});

scenario(
  "reloadMcp",
  200,
  { title: "each reload is an event of the feed with the status of the servers", config: broken },
  async (service) => {
    await post(service, "/v1/mcp/reload", {});
    let events: FeedEvent[] = [];
    while (!events.some(({ actor }) => actor !== null)) {
      events = await storedEvents<FeedEvent>(service, "?types=mcp.updated");
    }
    const event = events.find(({ actor }) => actor !== null);
    assert.deepEqual(
      [event?.type, event?.actor, event?.data["servers"]],
      ["mcp.updated", "default", [{ name: "nothing", status: "failed", tools: 0 }]],
    );
  },
);

scenario("reloadMcp", 400, { title: "an unknown field" }, async (service) => {
  await assertError(await post(service, "/v1/mcp/reload", { now: true }), 400, "invalid_request");
});
