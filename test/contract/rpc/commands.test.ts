import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Json } from "../../harness/rpc.ts";
import { gatedScript, openSession, rpcScenario, takeTurn } from "./scenario.ts";

const COMMANDS = {
  quick_commands: {
    hi: { type: "prompt", value: "Say hi to {args}" },
    "to-title": { type: "alias", value: "title" },
    where: { type: "exec", value: "pwd" },
  },
};

rpcScenario("commands.catalog", "names, descriptions, aliases and groups agree", async (host) => {
  const session_id = await openSession(host);
  const shown = await host.result("commands.catalog", { session_id });
  const names = shown.pairs.map(([name]: [string]) => name);
  for (const name of ["/model", "/title", "/undo", "/compress", "/help", "/yolo"])
    assert.ok(names.includes(name), name);
  assert.deepEqual([shown.canon["/fork"], shown.canon["/model"]], ["/branch", "/model"]);
  assert.ok(shown.sub["/reasoning"].includes("high"));
  const grouped = shown.categories.flatMap(({ pairs }: Json) => pairs.map(([name]: [string]) => name));
  assert.deepEqual(grouped.toSorted(), names.toSorted());
});

rpcScenario(
  "commands.catalog 4001",
  "the session belongs to another owner",
  async (host, { connect, owner }) => {
    const session_id = await openSession(await connect({ owner: `${owner}-too` }));
    await host.error("commands.catalog", { session_id }, 4001);
  },
);

rpcScenario("command.resolve", "by name or alias, with the slash or without", async (host) => {
  for (const name of ["branch", "/branch", "fork", "/FORK"]) {
    const found = await host.result("command.resolve", { name });
    assert.deepEqual([found.canonical, found.category], ["branch", "Session"]);
  }
});

rpcScenario("command.resolve 4011", "an unknown command names a similar one", async (host) => {
  assert.match(
    (await host.error("command.resolve", { name: "modle" }, 4011)).message,
    /Did you mean \/model/,
  );
  for (const name of ["", "/", " ", "__proto__", "constructor", "x".repeat(256), "a\0b", "model x"]) {
    await host.error("command.resolve", { name }, 4011);
  }
  for (const bad of [{}, { name: 1 }, { name: "x".repeat(257) }])
    await host.error("command.resolve", bad, -32602);
});

rpcScenario("command.dispatch", "either the whole text, or name and arg", async (host) => {
  const session_id = await openSession(host);
  const whole = await host.result("command.dispatch", { command: "/title One", session_id });
  assert.deepEqual(whole, { type: "exec", output: "Title: One" });
  for (const name of ["title", "/title"]) {
    const apart = await host.result("command.dispatch", { name, arg: "Two words", session_id });
    assert.deepEqual(apart, { type: "exec", output: "Title: Two words" });
  }
  assert.equal(
    (await host.result("command.dispatch", { name: "title", session_id })).output,
    "Title: Two words",
  );
  for (const bad of [
    {},
    { command: "/title x", name: "title" },
    { command: "/title", arg: "x" },
    { command: 1 },
    { command: ["/title"] },
    { name: "title", arg: 5 },
  ]) {
    const { data } = await host.error("command.dispatch", { session_id, ...bad }, -32602);
    assert.ok(data.issues.length > 0);
  }
});

rpcScenario(
  "command.dispatch",
  { title: "every directive that a host can get", config: COMMANDS },
  async (host, { service }) => {
    const folder = join(service.home, "agentd", "skills", "tidy");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "SKILL.md"), "---\nname: tidy\ndescription: Tidies up\n---\nTidy.\n");
    const session_id = await openSession(host);
    const dispatch = (command: string) => host.result("command.dispatch", { command, session_id });
    assert.deepEqual(await dispatch("/hi Ada"), { type: "send", message: "Say hi to Ada" });
    assert.deepEqual(await dispatch("/to-title A b"), { type: "alias", target: "/title A b" });
    assert.equal((await dispatch("/where")).output.trim(), service.workspace);
    const skill = await dispatch("/tidy the desk");
    assert.deepEqual([skill.type, skill.name], ["skill", "tidy"]);
    assert.match(skill.message, /the desk/);
    await takeTurn(host, session_id, "hello");
    assert.deepEqual(await dispatch("/undo"), {
      type: "prefill",
      message: "hello",
      notice: "Removed 2 messages.",
    });
    const queued = { type: "send", message: "more", when_busy: "queue" };
    assert.deepEqual(await dispatch("/queue more"), queued);
    assert.deepEqual(await dispatch("/q more"), queued);
    assert.equal((await host.result("commands.catalog", { session_id })).skill_count, 1);
  },
);

const interrupting = { sessions: { when_busy: "interrupt" } };

for (const [what, form] of [
  ["command.dispatch", (text: string) => ({ command: `/queue ${text}` })],
  ["slash.exec", (text: string) => ({ command: `q ${text}` })],
] as const) {
  for (const [host, keeps] of [
    ["that submits with the given busy mode", true],
    ["that does not know when_busy", false],
  ] as const) {
    const gate = gatedScript();
    rpcScenario(
      "prompt.submit",
      {
        title: `what ${what} queues interrupts no turn, from a host ${host}`,
        config: interrupting,
        script: gate.script,
      },
      async (connection) => {
        const session_id = await openSession(connection);
        const submit = (text: string, more: Json = {}) =>
          connection.result("prompt.submit", { session_id, text, ...more });
        const first = await submit("first");
        const directive = await connection.result(what, { session_id, ...form("later") });
        assert.deepEqual(directive, { type: "send", message: "later", when_busy: "queue" });
        const { status } = await submit(directive.message, keeps ? { when_busy: directive.when_busy } : {});
        assert.equal(status, "queued");
        const { state } = await connection.result("session.status", { session_id });
        assert.deepEqual([state.turn_id, state.status], [first.turn_id, "working"]);
        // The next prompt is one like any: it interrupts.
        await submit("later");
        const { payload } = await connection.event(
          "message.complete",
          (event) => event.turn_id === first.turn_id,
        );
        assert.equal(payload.status, "interrupted");
      },
    );
  }
}

rpcScenario(
  ["command.dispatch", "event sessions.changed"],
  "a command that opens another session names it, and the session is open",
  async (host) => {
    const session_id = await openSession(host);
    const from = host.frames.length;
    await takeTurn(host, session_id, "hello");
    const branched = await host.result("command.dispatch", { command: "/branch Other", session_id });
    assert.equal(branched.type, "exec");
    assert.notEqual(branched.session_id, session_id);
    await host.event("sessions.changed", undefined, from);
    assert.equal((await host.result("session.title", { session_id: branched.session_id })).title, "Other");
    const fresh = await host.result("command.dispatch", { command: "/new", session_id });
    assert.equal((await takeTurn(host, fresh.session_id, "hello again")).status, "complete");
    const back = await host.result("slash.exec", { session_id, command: `resume ${branched.session_id}` });
    assert.equal(back.session_id, branched.session_id);
  },
);

rpcScenario("command.dispatch", "the model of the session: what set_model is", async (host) => {
  const session_id = await openSession(host);
  const from = host.frames.length;
  const { output } = await host.result("command.dispatch", { command: "/model demo:demo", session_id });
  assert.match(output, /demo:demo/);
  const { payload } = await host.event("session.info", (event) => event.session_id === session_id, from);
  assert.deepEqual([payload.model, payload.provider], ["demo", "demo"]);
});

rpcScenario(
  "command.dispatch",
  "admin commands are refused for other keys",
  async (_, { connect, owner }) => {
    const chat = await connect({ owner: `${owner}-chat`, scopes: ["chat", "sessions", "read"] });
    const session_id = await openSession(chat);
    for (const command of [
      "/yolo on",
      "/yolo global",
      "/mode dont_ask",
      "/model demo --global",
      "/reload-mcp",
      "/reload-env",
      "/grants",
      "/cron",
      "/cron list",
      "/cron add every 1h -- Look around",
      "/cron run anything",
    ]) {
      const { data } = await chat.error("command.dispatch", { command, session_id }, -32003);
      assert.equal(data.reason, "insufficient_scope");
      await chat.error("slash.exec", { command: command.slice(1), session_id }, -32003);
    }
    assert.equal((await chat.result("config.get", { key: "yolo", session_id })).value, "0");
    await chat.result("command.dispatch", { command: "/title Mine", session_id });
  },
);

rpcScenario("command.dispatch", "/cron requires only the scope jobs", async (_, { connect, owner }) => {
  const host = await connect({ owner: `${owner}-jobs`, scopes: ["chat", "jobs"] });
  const session_id = await openSession(host);
  const command = `/cron add every 3h -- Look around for ${owner}`;
  assert.match((await host.result("command.dispatch", { command, session_id })).output, /Created job/);
  assert.match((await host.result("slash.exec", { command: "cron", session_id })).output, /Look around/);
  await host.error("command.dispatch", { command: "/yolo on", session_id }, -32003);
});

rpcScenario(
  "command.dispatch",
  { title: "a switch for all sessions notifies all their viewers", config: {} },
  async (host, { connect, owner }) => {
    const other = await connect({ owner: `${owner}-too` });
    const session_id = await openSession(other);
    for (const [command, yolo] of [
      ["/yolo on global", true],
      ["/yolo off global", false],
    ] as const) {
      const from = other.frames.length;
      await host.result("command.dispatch", { command });
      const { payload } = await other.event("session.info", (event) => event.session_id === session_id, from);
      assert.equal(payload.yolo, yolo);
    }
  },
);

rpcScenario(
  ["command.dispatch 4001", "slash.exec 4001"],
  "the session is unknown, or another owner's",
  async (host, { connect, owner }) => {
    const other = await openSession(await connect({ owner: `${owner}-too` }));
    for (const session_id of ["none", other]) {
      await host.error("command.dispatch", { command: "/title x", session_id }, 4001);
      await host.error("slash.exec", { command: "title x", session_id }, 4001);
    }
    await host.error(
      "command.dispatch",
      { command: "/resume no such session", session_id: await openSession(host) },
      4001,
    );
  },
);

rpcScenario(
  ["command.dispatch 4002", "slash.exec 4002"],
  "the argument of the command does not exist",
  async (host) => {
    const session_id = await openSession(host);
    for (const command of [
      "/model no such",
      "/model no:such",
      "/reasoning wild",
      `/title ${"t".repeat(5000)}`,
    ]) {
      await host.error("command.dispatch", { command, session_id }, 4002);
      await host.error("slash.exec", { command: command.slice(1), session_id }, 4002);
    }
  },
);

rpcScenario(
  ["command.dispatch 4004", "slash.exec 4004"],
  "empty, not a command, or wrong usage",
  async (host) => {
    const session_id = await openSession(host);
    for (const command of [
      "",
      "/",
      " / ",
      "/undo many",
      "/undo 5",
      "/steer",
      "/yolo sometimes",
      `/title ${"x".repeat(100_001)}`,
    ]) {
      await host.error("command.dispatch", { command, session_id }, 4004);
      await host.error("slash.exec", { command: command.replace("/", ""), session_id }, 4004);
    }
    for (const command of ["hello", "/../x", "/a\0b", "/ü"]) {
      await host.error("command.dispatch", { command, session_id }, 4004);
    }
    const { message } = await host.error("command.dispatch", { command: "/title x" }, 4004);
    assert.match(message, /needs a session/);
  },
);

{
  const gate = gatedScript();
  rpcScenario(
    ["command.dispatch 4009", "slash.exec 4009"],
    { title: "a running turn forbids changes of what it reads", script: gate.script },
    async (host) => {
      const session_id = await openSession(host);
      const from = host.frames.length;
      await host.result("prompt.submit", { session_id, text: "one" });
      await host.event("message.start", undefined, from);
      for (const command of ["/undo", "/compress", "/reset"]) {
        const { message } = await host.error("command.dispatch", { command, session_id }, 4009);
        assert.match(message, /session busy/);
        await host.error("slash.exec", { command: command.slice(1), session_id }, 4009);
      }
      await host.result("session.interrupt", { session_id });
    },
  );
}

rpcScenario(["command.dispatch 4011", "slash.exec 4011"], "the command is unknown", async (host) => {
  const session_id = await openSession(host);
  for (const command of ["/modle x", "/constructor", "/tostring"]) {
    await host.error("command.dispatch", { command, session_id }, 4011);
    await host.error("slash.exec", { command: command.slice(1), session_id }, 4011);
  }
});

rpcScenario(
  ["command.dispatch 5030", "slash.exec 5030"],
  {
    title: "the model cannot write the summary",
    config: { compression: { keep_messages: 2 } },
    script: ({ user }) =>
      user.startsWith("say") ? { text: "said" } : { error: { code: "provider_error", message: "down" } },
  },
  async (host) => {
    const session_id = await openSession(host);
    for (let n = 0; n < 6; n++) await takeTurn(host, session_id, `say ${n}`);
    for (const [method, command] of [
      ["command.dispatch", "/compress"],
      ["slash.exec", "compress"],
    ] as const) {
      const { data } = await host.error(method, { command, session_id }, 5030);
      assert.equal(data.retryable, true);
    }
  },
);

rpcScenario(
  ["command.dispatch 4090", "slash.exec 4090"],
  { title: "too many sessions are open", config: { sessions: { max_live: 1 } } },
  async (host) => {
    const session_id = await openSession(host);
    await takeTurn(host, session_id, "hello");
    for (const command of ["/new", "/branch Other"]) {
      const { data } = await host.error("command.dispatch", { command, session_id }, 4090);
      assert.equal(data.reason, "session_limit");
      await host.error("slash.exec", { command: command.slice(1), session_id }, 4090);
    }
  },
);

rpcScenario(
  ["command.dispatch 5017", "slash.exec 5017"],
  { title: "the session's folder no longer exists", config: COMMANDS },
  async (host, { service }) => {
    const folder = join(service.workspace, "gone");
    await mkdir(folder);
    const session_id = await openSession(host, { cwd: folder });
    await rm(folder, { recursive: true });
    await host.error("command.dispatch", { command: "/where", session_id }, 5017);
    await host.error("slash.exec", { command: "where", session_id }, 5017);
    assert.match((await host.result("command.dispatch", { command: "/where" })).output, /^\//);
  },
);

rpcScenario(
  "slash.exec",
  { title: "prints the command's output, or is a directive", config: COMMANDS },
  async (host) => {
    const session_id = await openSession(host);
    assert.deepEqual(await host.result("slash.exec", { session_id, command: "title One" }), {
      output: "Title: One",
    });
    assert.deepEqual(await host.result("slash.exec", { session_id, command: "/title" }), {
      output: "Title: One",
    });
    const sent = await host.result("slash.exec", { session_id, command: "hi Ada" });
    assert.deepEqual(sent, { type: "send", message: "Say hi to Ada" });
    assert.match((await host.result("slash.exec", { session_id, command: "help" })).output, /\/model/);
  },
);

rpcScenario(
  "slash.exec 4018",
  { title: "skills require command.dispatch", config: {} },
  async (host, { service }) => {
    const folder = join(service.home, "agentd", "skills", "tidy");
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "SKILL.md"), "---\nname: tidy\ndescription: Tidies up\n---\nTidy.\n");
    const { message } = await host.error(
      "slash.exec",
      { session_id: await openSession(host), command: "tidy up" },
      4018,
    );
    assert.match(message, /Use command.dispatch/);
  },
);
