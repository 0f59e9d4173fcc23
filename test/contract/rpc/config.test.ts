import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RpcSetting } from "./scenario.ts";
import { gatedScript, openSession, rpcScenario } from "./scenario.ts";

/** With a configuration file of its own. */
const own = (title: string) => ({ title, config: {} });
const fileOf = ({ service }: RpcSetting) => join(service.home, "agentd", "config.yaml");

async function writeConfig(setting: RpcSetting, text: string): Promise<void> {
  await mkdir(join(setting.service.home, "agentd"), { recursive: true });
  await writeFile(fileOf(setting), text);
}

const CANARIES = `version: 1
api_server:
  key: canary-0123456789abcdef
model:
  providers:
    local: { type: openai, api_key: canary-of-a-provider, headers: { x-any: canary-of-a-header } }
mcp:
  servers:
    files: { command: serve, env: { FILES_TOKEN: canary-of-a-server, LANG: C }, headers: { authorization: canary } }
database:
  url: postgres://me:canary-of-the-database@localhost/db
display:
  skin: mono
`;

rpcScenario("config.get", own("full, mtime and every named key, without secrets"), async (host, setting) => {
  await writeConfig(setting, CANARIES);
  const session_id = await openSession(host);
  const { config } = await host.result("config.get", { key: "full" });
  assert.deepEqual([config.display.skin, config.display.details_mode], ["mono", "collapsed"]);
  assert.ok((await host.result("config.get", { key: "mtime" })).mtime > 1e9);
  const keys = `full provider profile project prompt model reasoning yolo busy title cwd terminal.cwd workdir skin
      indicator details_mode details_mode.tools thinking_mode compact statusbar mouse verbose api_server api_server.key
      mcp mcp.servers.files.env.FILES_TOKEN model.providers.local database.url`;
  for (const key of keys.split(/\s+/)) {
    for (const params of [{ key }, { key, session_id }]) {
      const text = JSON.stringify(await host.result("config.get", params));
      assert.ok(!text.includes("canary"), `${key}: ${text}`);
    }
  }
  const { model, provider, providers } = await host.result("config.get", { key: "provider" });
  assert.deepEqual([model, provider], ["demo", "demo"]);
  assert.partialDeepStrictEqual(providers, [{ slug: "demo", name: "demo", is_current: true }]);
});

rpcScenario("config.get", own("a change updates mtime and full"), async (host, setting) => {
  await writeConfig(setting, "version: 1\n");
  const before = await host.result("config.get", { key: "mtime" });
  await host.result("config.set", { key: "compact", value: true });
  const after = await host.result("config.get", { key: "mtime" });
  assert.ok(after.mtime > before.mtime);
  assert.equal((await host.result("config.get", { key: "full" })).config.display.compact, true);
});

rpcScenario(
  "config.get",
  own("while the file is broken, returns the configuration at start"),
  async (host, setting) => {
    await writeConfig(setting, "version: [\n");
    assert.equal((await host.result("config.get", { key: "full" })).config.version, 1);
  },
);

rpcScenario(["config.get 4002", "config.set 4002"], "unknown keys and values are refused", async (host) => {
  for (const key of ["faster", "__proto__", "constructor", "", "a.b.c", "api_server.nope", "k".repeat(256)]) {
    await host.error("config.get", { key }, 4002);
    const { message } = await host.error("config.set", { key, value: "x" }, 4002);
    assert.match(message, /unknown config key/);
  }
  const session_id = await openSession(host);
  for (const [key, value] of [
    ["model", "no:such:model x"],
    ["model", "m --provider"],
    ["model", "demo --nonsense"],
    ["fast", "fast"],
    ["personality", "pirate"],
    ["model", 5],
    ["reasoning", "wild"],
    ["yolo", "perhaps"],
    ["cwd", "nowhere"],
    ["cwd", "a\0b"],
    ["title", ""],
    ["title", "t".repeat(100_000)],
    ["busy", "dance"],
    ["busy", null],
    ["skin", "../../etc/passwd"],
    ["details_mode", "huge"],
    ["details_mode.tools", "huge"],
    ["mouse", "perhaps"],
    ["statusbar", { on: true }],
    ["api_server.port", 99_999],
    ["api_server.host", ["a"]],
  ] as const) {
    const { data } = await host.error("config.set", { key, value, session_id }, 4002);
    assert.equal(data.reason, "bad_value", key);
  }
  await host.error("config.set", { key: "title", value: "of none" }, 4002);
  await host.error("config.set", { key: "skin", value: "mono", scope: "session" }, 4002);
  await host.error("config.set", { key: "log.level", value: "debug", scope: "session" }, 4002);
  for (const bad of [
    {},
    { key: 5 },
    { key: "k".repeat(257) },
    { key: "skin" },
    { key: "yolo", value: 1, scope: "x" },
  ]) {
    await host.error("config.set", bad, -32602);
  }
});

rpcScenario(["config.get 4001", "config.set 4001"], "settings of an unknown session", async (host) => {
  await host.error("config.get", { key: "model", session_id: "none" }, 4001);
  await host.error("config.set", { key: "yolo", value: "on", session_id: "none" }, 4001);
});

rpcScenario(
  ["config.set", "event session.info"],
  "a session setting notifies all viewers",
  async (host, setting) => {
    const session_id = await openSession(host);
    const other = await setting.connect();
    await other.result("session.resume", { session_id });
    await mkdir(join(setting.service.workspace, setting.owner));
    for (const [key, value, expected] of [
      ["yolo", "", { yolo: true }],
      ["yolo", "off", { yolo: false }],
      ["reasoning", "high", { reasoning_effort: "high" }],
      ["model", "demo:demo", { model: "demo" }],
      ["model", "demo --provider demo", { provider: "demo" }],
      ["cwd", setting.owner, { cwd: join(setting.service.workspace, setting.owner) }],
    ] as const) {
      const from = other.frames.length;
      const set = await host.result("config.set", { key, value, session_id });
      assert.deepEqual([set.key, set.scope], [key, "session"]);
      const { payload } = await other.event("session.info", (event) => event.session_id === session_id, from);
      assert.partialDeepStrictEqual(payload, expected);
      assert.partialDeepStrictEqual(set.info, expected);
    }
    await host.result("config.set", { key: "title", value: "A name", session_id });
    assert.equal((await other.event("session.title")).payload.title, "A name");
  },
);

rpcScenario(
  ["config.set", "event sessions.changed"],
  "a session that a setting saved is listed from then on",
  async (host, setting) => {
    const session_id = await openSession(host);
    const other = await setting.connect();
    const from = other.frames.length;
    await host.result("config.set", { key: "title", value: "A name", session_id });
    await other.event("sessions.changed", undefined, from);
    const { sessions } = await other.result("session.list");
    assert.deepEqual(
      sessions.map(({ title }: { title: string }) => title),
      ["A name"],
    );
  },
);

rpcScenario("config.set", "yolo without a value toggles, and answers 1 or 0", async (host) => {
  const session_id = await openSession(host);
  for (const [value, running] of [
    ["1", true],
    ["0", false],
    ["1", true],
  ] as const) {
    const set = await host.result("config.set", { key: "yolo", session_id });
    assert.deepEqual([set.value, set.info.yolo], [value, running]);
    assert.equal((await host.result("config.get", { key: "yolo", session_id })).value, value);
  }
  const error = await host.error("config.set", { key: "title", session_id }, -32602);
  assert.equal(error.data.issues[0].path, "value");
});

rpcScenario(["config.get", "config.set"], "fast is normal, and there is no personality", async (host) => {
  for (const [key, only] of [
    ["fast", "normal"],
    ["personality", "none"],
  ] as const) {
    assert.equal((await host.result("config.get", { key })).value, only);
    assert.equal((await host.result("config.set", { key, value: only })).value, only);
  }
});

for (const [value, ends] of [
  ["demo --provider demo --session", "session"],
  ["--session --provider=demo demo", "session"],
  ["demo:demo --provider demo --tui-session", "session"],
  ["demo --provider demo", "session"],
  ["demo --provider demo --global", "everywhere"],
] as const) {
  rpcScenario(
    ["config.set", "slash.exec", "command.dispatch"],
    own(`a host chooses a model as ${value}, in each of three ways`),
    async (host, setting) => {
      const session_id = await openSession(host);
      const set = await host.result("config.set", { key: "model", value, session_id });
      assert.equal(set.value, "demo:demo");
      const { output } = await host.result("slash.exec", { command: `model ${value}`, session_id });
      assert.match(output, /demo:demo/);
      const done = await host.result("command.dispatch", { name: "model", arg: value, session_id });
      assert.match(done.output, /demo:demo/);
      const file = await readFile(fileOf(setting), "utf8").catch(() => "");
      assert.equal(/default: demo:demo/.test(file), ends === "everywhere");
    },
  );
}

rpcScenario("config.set", own("yolo for all sessions notifies every viewer"), async (host, setting) => {
  const session_id = await openSession(host);
  const other = await setting.connect({ owner: `${setting.owner}-too` });
  const own_id = await openSession(other);
  const [from, too] = [host.frames.length, other.frames.length];
  const set = await other.result("config.set", { key: "yolo", value: "on", scope: "global" });
  assert.deepEqual([set.value, set.scope], ["1", "global"]);
  assert.match(set.warning, /until agentd restarts/);
  const seen = await host.event("session.info", (event) => event.session_id === session_id, from);
  assert.equal(seen.payload.yolo, true);
  assert.equal(
    (await other.event("session.info", (event) => event.session_id === own_id, too)).payload.yolo,
    true,
  );
  assert.equal((await host.result("config.set", { key: "yolo", value: "" })).value, "0");
});

rpcScenario(
  "config.set",
  own("a model for all sessions is saved, and applies to the current one at once"),
  async (host, setting) => {
    const session_id = await openSession(host);
    const set = await host.result("config.set", { key: "model", value: "demo:demo --global", session_id });
    assert.deepEqual([set.value, set.scope], ["demo:demo", "global"]);
    assert.match(set.warning, /when agentd restarts/);
    assert.match(await readFile(fileOf(setting), "utf8"), /default: demo:demo/);
    assert.equal((await host.result("config.get", { key: "model", session_id })).value, "demo:demo");
    assert.equal(
      (await host.result("config.set", { key: "reasoning", value: "low", scope: "global" })).scope,
      "global",
    );
  },
);

rpcScenario(
  ["config.set", "event skin.changed"],
  own("a skin is saved, and every client is notified"),
  async (host, setting) => {
    const other = await setting.connect({ owner: "somebody-else" });
    const from = other.frames.length;
    const set = await host.result("config.set", { key: "skin", value: "mono" });
    assert.deepEqual(set, { key: "skin", value: "mono", scope: "global" });
    assert.deepEqual((await other.event("skin.changed", undefined, from)).payload, { name: "mono" });
    assert.equal((await other.result("config.get", { key: "skin" })).value, "mono");
    assert.equal((await host.result("config.set", { key: "skin", value: "" })).value, "default");
  },
);

rpcScenario(
  "config.set",
  own("display settings: switches toggle, choices cycle, sections fall back"),
  async (host) => {
    const set = async (key: string, value: unknown) =>
      (await host.result("config.set", { key, value })).value;
    const seen = async (key: string) => (await host.result("config.get", { key })).value;
    assert.deepEqual([await set("compact", ""), await set("compact", "off")], ["on", "off"]);
    assert.deepEqual([await set("mouse", ""), await set("mouse", true)], ["off", "on"]);
    assert.deepEqual([await seen("compact"), await seen("mouse")], ["off", "on"]);
    const round = [
      await set("verbose", "cycle"),
      await set("verbose", "cycle"),
      await set("verbose", "cycle"),
    ];
    assert.deepEqual(round, ["verbose", "off", "new"]);
    assert.deepEqual([await set("statusbar", ""), await set("statusbar", "on")], ["off", "bottom"]);
    assert.equal(await set("details_mode.tools", "expanded"), "expanded");
    assert.equal(await set("details_mode.tools", ""), "");
    assert.equal(await set("reasoning", "hide"), "hide");
    assert.equal(await seen("display.show_reasoning"), false);
    assert.equal(await set("prompt", "Be brief: always."), "Be brief: always.");
    assert.equal(await seen("agent.instructions"), "Be brief: always.");
    assert.equal(await set("prompt", "default"), "");
  },
);

{
  const gate = gatedScript();
  rpcScenario(
    "config.set",
    { ...own("busy applies to the next prompt"), script: gate.script },
    async (host) => {
      const session_id = await openSession(host);
      await host.result("prompt.submit", { session_id, text: "one" });
      assert.equal((await host.result("config.set", { key: "busy", value: "reject" })).value, "reject");
      assert.equal((await host.result("config.get", { key: "busy" })).value, "reject");
      await host.error("prompt.submit", { session_id, text: "two" }, 4009);
      await host.result("session.interrupt", { session_id });
    },
  );
}

{
  const gate = gatedScript();
  rpcScenario(
    "config.set 4009",
    { title: "a running turn keeps its folder", script: gate.script },
    async (host) => {
      const session_id = await openSession(host);
      const from = host.frames.length;
      await host.result("prompt.submit", { session_id, text: "one" });
      await host.event("message.start", undefined, from);
      const { message } = await host.error("config.set", { key: "cwd", value: ".", session_id }, 4009);
      assert.match(message, /session busy/);
      await host.result("session.interrupt", { session_id });
    },
  );
}

rpcScenario(
  "config.set 5001",
  own("a file that cannot be changed is reported without its path"),
  async (host, setting) => {
    await rm(fileOf(setting), { force: true });
    await mkdir(fileOf(setting), { recursive: true });
    for (const [method, params] of [
      ["config.set", { key: "skin", value: "mono" }],
      ["config.set", { key: "log.level", value: "debug" }],
    ] as const) {
      const { message, data } = await host.error(method, params, 5001);
      assert.equal(data.reason, "config_failed");
      assert.ok(!message.includes(setting.service.home), message);
    }
  },
);
