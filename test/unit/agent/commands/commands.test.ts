import assert from "node:assert/strict";
import { test } from "node:test";
import { Commands, parseCommand, type Command, type Directive } from "../../../../src/agent/agent.ts";
import { conversationCommands } from "../../../../src/agent/commands/conversation.ts";
import { modelCommands } from "../../../../src/agent/commands/model.ts";
import { quickCommands, type QuickCommand, serviceCommands } from "../../../../src/agent/commands/service.ts";
import { skillCommands } from "../../../../src/agent/skills/skills.ts";
import { sessionCommands } from "../../../../src/agent/commands/session.ts";
import { createTestAgent, testTool, type TestAgent } from "../../../harness/agent.ts";

const OWNER = "tester";

interface Extras {
  readonly quick?: Readonly<Record<string, QuickCommand>>;
  readonly skills?: readonly string[];
  readonly ran?: string[];
}

function catalogue({ quick = {}, skills = [], ran = [] }: Extras = {}): Commands {
  const listed = skills.map((name) => ({ name, description: `About ${name}` }));
  const service = serviceCommands(
    {
      version: "1.2.3",
      reloadEnv: async () => 1,
      reloadMcp: async () => ["files: connected"],
      skills: async () => listed,
    },
    () => commands,
  );
  const runShell = async (command: string, { cwd }: { readonly cwd: string }) => {
    ran.push(`${cwd}$ ${command}`);
    return "shell says";
  };
  const commands: Commands = new Commands(
    () => [...sessionCommands, ...conversationCommands, ...modelCommands, ...service],
    () => quickCommands(quick, runShell),
    async () => skillCommands(listed),
  );
  return commands;
}

function say(commands: Commands, agent: TestAgent, text: string, sessionId?: string): Promise<Directive> {
  const where = sessionId === undefined ? {} : { sessionId };
  return commands.dispatch(text, { agent: agent.core, owner: OWNER, ...where });
}

async function told(commands: Commands, agent: TestAgent, text: string, id?: string): Promise<string> {
  const directive = await say(commands, agent, text, id);
  assert.equal(directive.type, "exec", text);
  return directive.type === "exec" ? directive.output : "";
}

async function talk(agent: TestAgent, ...texts: string[]): Promise<void> {
  for (const text of texts) await agent.events((await agent.submit(text, { id: "s" })).runId);
}

/** A session with a run that works until the gate opens. */
async function atWork(): Promise<{ agent: TestAgent; gate: PromiseWithResolvers<void>; runId: string }> {
  const begun = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const agent = await createTestAgent({
    script: async ({ user, signal }) => {
      begun.resolve();
      signal.addEventListener("abort", () => gate.resolve(), { once: true });
      await gate.promise;
      return { text: `re: ${user}` };
    },
  });
  const { runId } = await agent.submit("go", { id: "s" });
  await begun.promise;
  return { agent, gate, runId };
}

test("text is parsed as a command or as plain text", () => {
  const parsed: [string, string, string][] = [
    ["/help", "help", ""],
    ["/HELP", "help", ""],
    [" /help", "help", ""],
    ["\n/help \n", "help", ""],
    ["/a\nb", "a", "b"],
    ["/title  My\ttitle ", "title", "My\ttitle"],
    ["/reload-mcp", "reload-mcp", ""],
    ["/q /q x", "q", "/q x"],
    ["/queue\u00a0x", "queue", "x"],
  ];
  for (const [text, name, args] of parsed) assert.deepEqual(parseCommand(text), { name, args }, text);
  const texts = [
    "",
    "/",
    " / ",
    "//x",
    "/ help",
    "help",
    "/usr/bin/ls",
    "/-x",
    "/_x",
    "/h\u00e9lp",
    "/help!",
    "a /help",
  ];
  for (const text of [...texts, "/\u212aey", "/help\u0000", "\\/help"]) {
    assert.equal(parseCommand(text), undefined, JSON.stringify(text));
  }
  // A quadratic parser would need hours.
  assert.equal(parseCommand(`${" ".repeat(5_000_000)}x`), undefined);
  assert.equal(parseCommand(`/a${" ".repeat(5_000_000)}`)?.name, "a");
});

test("names and aliases are unique and can be typed", async () => {
  const all = await catalogue().list();
  const names = all.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
  assert.ok(names.length > 20, names.join());
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.equal(parseCommand(`/${name} x`)?.name, name);
});

test("/help lists every command, and each command works", async () => {
  await using agent = await createTestAgent({
    providers: [{ name: "here", type: "openai", models: ["small"] }],
    tools: [testTool(async () => "x")],
    settings: { compression: { threshold: undefined, keepMessages: 2, model: undefined } },
  });
  const commands = catalogue();
  const help = await told(commands, agent, "/help");
  for (const { name, aliases = [], hint } of await commands.list()) {
    assert.match(help, new RegExp(`^  /${name}\\b`, "m"));
    for (const typed of [name, ...aliases]) {
      await talk(agent, "one", "two");
      const args = hint?.startsWith("<") ? " something" : "";
      const directive = await say(commands, agent, `/${typed}${args}`, "s");
      const text =
        directive.type === "exec" ? directive.output : "message" in directive ? directive.message : "";
      assert.ok(text.length > 0, typed);
      assert.ok(!/undefined|\[object|NaN/.test(text), `${typed}: ${text}`);
    }
    assert.match(await told(commands, agent, `/help ${name}`), new RegExp(`^/${name}`));
  }
});

test("an unknown command gets a short answer with a similar name", async () => {
  await using agent = await createTestAgent();
  const commands = catalogue();
  const message = (text: string) => say(commands, agent, text).then(String, (error: Error) => error.message);
  assert.match(await message("/hlep"), /No command is named \/hlep\. Did you mean \/help\?/);
  assert.match(await message("/comapct"), /Did you mean \/compact\?/);
  assert.equal(await message("/zzzzzz"), "No command is named /zzzzzz. /help lists the commands.");
  assert.ok((await message(`/${"z".repeat(1_000_000)}`)).length < 200);
  await assert.rejects(say(commands, agent, "/nope"), { code: "unknown_command", param: "command" });
  await assert.rejects(say(commands, agent, "/help nope"), { code: "unknown_command" });
  for (const text of ["", "/", "hello", "//x", `/queue ${"x".repeat(100_001)}`]) {
    await assert.rejects(say(commands, agent, text), { code: "command_usage" });
  }
});

test("wrong arguments get an answer with the syntax of the command", async () => {
  await using agent = await createTestAgent();
  await talk(agent, "hi");
  const commands = catalogue();
  const wrong = [
    "/undo 0",
    "/undo -1",
    "/undo 1.5",
    "/undo x",
    "/undo 1001",
    "/history 0",
    "/history x",
    "/history 501",
    "/steer",
    "/queue",
    "/background",
    "/mode yolo",
    "/mode plan please",
    "/yolo maybe",
    "/yolo on off",
    "/yolo on global please",
    "/grants revoke",
    "/grants revoke x",
    "/grants all",
  ];
  for (const text of wrong) {
    const usage = { code: "command_usage", message: new RegExp(`^Usage: ${text.split(" ")[0]} `) };
    await assert.rejects(say(commands, agent, text, "s"), usage, text);
  }
  await assert.rejects(say(commands, agent, "/model claude-opus", "s"), { code: "model_not_found" });
  await assert.rejects(say(commands, agent, "/reasoning huge", "s"), { code: "invalid_request" });
  await assert.rejects(say(commands, agent, `/title ${"x".repeat(121)}`, "s"), { code: "invalid_title" });
  await assert.rejects(say(commands, agent, "/resume nowhere", "s"), { code: "session_not_found" });
});

test("commands for a session need a session of the caller", async () => {
  const { agent, gate, runId } = await atWork();
  await using _ = agent;
  const commands = catalogue();
  const about =
    "retry undo steer background stop compress reset branch title status context usage history model reasoning yolo";
  for (const name of about.split(" ")) {
    const text = `/${name}${["steer", "background"].includes(name) ? " x" : ""}`;
    await assert.rejects(say(commands, agent, text), { code: "command_usage" }, text);
    const foreign = commands.dispatch(text, { agent: agent.core, owner: "stranger", sessionId: "s" });
    await assert.rejects(foreign, { code: "session_not_found" }, text);
  }
  assert.equal((await agent.run(runId)).status, "running");
  gate.resolve();
  const events = await agent.events(runId);
  assert.equal(events.at(-1)?.data["output"], "re: go");
});

test("/stop and /steer reach the current run, and say so when no run is active", async () => {
  const { agent, runId } = await atWork();
  await using _ = agent;
  const commands = catalogue();
  assert.match(await told(commands, agent, "/steer use tabs", "s"), /next step/);
  assert.equal(await told(commands, agent, "/stop", "s"), "Stopping.");
  const end = (await agent.events(runId)).at(-1);
  assert.equal(end?.type, "run.cancelled");
  assert.deepEqual(end?.data["pending_steer"], ["use tabs"]);
  assert.equal(await told(commands, agent, "/interrupt", "s"), "No run is active.");
  assert.deepEqual(await say(commands, agent, "/steer use tabs", "s"), {
    type: "send",
    message: "use tabs",
    notice: "No run is active; sent as a prompt.",
    whenBusy: "queue",
  });
});

test("/steer and /stop reach a run of another process", async () => {
  const { agent, gate, runId } = await atWork();
  await using here = agent;
  await using elsewhere = await createTestAgent({ database: here.databaseUrl });
  const commands = catalogue();
  assert.match(await told(commands, elsewhere, "/steer left", "s"), /at its next step/);
  assert.equal(await told(commands, elsewhere, "/stop", "s"), "Stopping.");
  await gate.promise;
  const last = (await here.events(runId)).at(-1);
  assert.deepEqual([last?.type, last?.data["pending_steer"]], ["run.cancelled", ["left"]]);
});

test("/context shows what fills the context, and how full it is", async () => {
  await using agent = await createTestAgent({
    providers: [{ name: "here", type: "openai", models: ["small"], contextTokens: 10_000 }],
    tools: [testTool(async () => "x")],
  });
  const commands = catalogue();
  await talk(agent, "word ".repeat(800));
  const text = await told(commands, agent, "/context", "s");
  const tokens = (name: string) => Number(new RegExp(`^  ${name} +(\\d+) tokens$`, "m").exec(text)?.[1]);
  assert.ok(tokens("Prompts") >= 1_000 && tokens("Prompts") < 1_100, text);
  assert.ok(tokens("Tools \\(1\\)") > 0, text);
  assert.equal(tokens("Summary"), 0);
  assert.match(text, /^Context {4}\d+ of 10000 tokens \(\d+(\.\d)? %\)$/m);
  const used = Number(/(\d+) of/.exec(text)?.[1]);
  assert.ok(used >= tokens("Prompts") + tokens("Answers"), text);
  await told(commands, agent, "/reset", "s");
  assert.match(await told(commands, agent, "/context", "s"), /^ {2}Prompts +0 tokens$/m);
});

test("/retry and /undo return the removed prompt, and refuse a busy session", async () => {
  await using agent = await createTestAgent();
  const commands = catalogue();
  await talk(agent, "one", "two", "three");
  assert.deepEqual(await say(commands, agent, "/retry", "s"), {
    type: "send",
    message: "three",
    notice: "Trying again.",
  });
  const undone = await say(commands, agent, "/undo 2", "s");
  assert.equal(undone.type === "prefill" && undone.message, "one");
  await assert.rejects(say(commands, agent, "/undo", "s"), { code: "nothing_to_undo" });
  const { agent: busy } = await atWork();
  await using _ = busy;
  for (const text of ["/undo", "/retry", "/reset", "/compress"]) {
    await assert.rejects(say(commands, busy, text, "s"), { code: "session_busy" }, text);
  }
});

test("/model, /reasoning, /mode, /yolo and /title change the session, and /status shows it", async () => {
  const providers = [{ name: "here", type: "openai", models: ["small", "big"] }];
  await using agent = await createTestAgent({ providers });
  const commands = catalogue();
  await talk(agent, "hi");
  assert.match(await told(commands, agent, "/model", "s"), /^Model: here:small\nAvailable:\n {2}here:small/);
  assert.match(await told(commands, agent, "/model big", "s"), /^Model: here:big/);
  await told(commands, agent, "/effort high", "s");
  assert.match(
    await told(commands, agent, "/mode", "s"),
    /^Mode: not set; approvals.mode is ask\nModes:\n {2}ask /,
  );
  assert.match(await told(commands, agent, "/mode plan", "s"), /^Mode: plan, from the next tool call on/);
  await told(commands, agent, "/yolo on", "s");
  await told(commands, agent, "/rename  A  title", "s");
  const status = await told(commands, agent, "/status", "s");
  for (const line of [/Title +A title/, /Model +here:big \(effort high\)/, /Mode +plan/, /Approvals off/]) {
    assert.match(status, line);
  }
  await told(commands, agent, "/reasoning default", "s");
  assert.match(await told(commands, agent, "/yolo", "s"), /^Approvals are on for this session/);
  assert.match(await told(commands, agent, "/reasoning", "s"), /provider's default/);
  assert.match(await told(commands, agent, "/yolo global"), /^Approvals are off for all/);
  assert.match(await told(commands, agent, "/yolo off global"), /^Approvals are on for all/);
});

test("/grants lists remembered approvals and revokes one by its number", async () => {
  await using agent = await createTestAgent();
  const commands = catalogue();
  assert.equal(await told(commands, agent, "/grants"), "No approvals are remembered.");
  for (const name of ["one", "two"]) {
    await agent.deps.grants.allowAlways(
      { owner: OWNER, signature: name, tool: "terminal", title: name },
      "lena",
    );
  }
  const first = /^1\. terminal: (\w+)/.exec(await told(commands, agent, "/grants"))?.[1] ?? "";
  assert.equal(
    await told(commands, agent, "/grants revoke 3"),
    "No approval has the number 3. /grants lists them.",
  );
  assert.equal(
    await told(commands, agent, "/grants revoke 0"),
    "No approval has the number 0. /grants lists them.",
  );
  assert.equal(await told(commands, agent, "/grants revoke 1"), `Revoked: ${first}`);
  assert.doesNotMatch(await told(commands, agent, "/grants"), new RegExp(first));
});

test("configured commands are an alias, a prompt, or a shell command", async () => {
  await using agent = await createTestAgent();
  const ran: string[] = [];
  const commands = catalogue({
    ran,
    quick: {
      st: { type: "alias", value: "/status" },
      ti: { type: "alias", value: "title" },
      fix: { type: "prompt", value: "Fix {args}, and test {args}." },
      up: { type: "exec", value: "uptime", description: "How long" },
    },
  });
  assert.deepEqual(await say(commands, agent, "/st"), { type: "alias", target: "/status" });
  assert.deepEqual(await say(commands, agent, "/ti A b"), { type: "alias", target: "/title A b" });
  for (const args of ["x", "$& $1 $$ $` $'", "{args}", "a\nb"]) {
    const message = `Fix ${args}, and test ${args}.`;
    assert.deepEqual(await say(commands, agent, `/fix ${args}`), { type: "send", message });
  }
  assert.equal(await told(commands, agent, "/up ; rm -rf /"), "shell says");
  const moved = await agent.submit("hi", { id: "m", seed: { source: "test", cwd: "/elsewhere" } });
  await agent.events(moved.runId);
  await told(commands, agent, "/up", "m");
  assert.deepEqual(ran, ["/workspace$ uptime", "/elsewhere$ uptime"]);
  assert.match(await told(commands, agent, "/help"), /Your own\n {2}\/st {2}alias: \/status\n/);
});

test("a skill is a command that asks the agent to load it", async () => {
  await using agent = await createTestAgent();
  const commands = catalogue({ skills: ["pdf-forms", "Mixed"] });
  const plain = await say(commands, agent, "/pdf-forms");
  assert.deepEqual(plain, {
    type: "skill",
    name: "pdf-forms",
    message: "Load the skill pdf-forms with the skill tool and follow it.",
  });
  const asked = await say(commands, agent, "/pdf-forms fill $& in");
  assert.ok(asked.type === "skill" && asked.message.endsWith(" Task: fill $& in"));
  assert.equal((await say(commands, agent, "/mixed")).type, "skill");
});

test("built-in commands win over configured ones, those over skills, and an alias counts as a name", async () => {
  await using agent = await createTestAgent();
  const prompt = (value: string): QuickCommand => ({ type: "prompt", value });
  const commands = catalogue({
    quick: { version: prompt("mine"), clear: prompt("mine"), deploy: prompt("mine") },
    skills: ["version", "Version", "q", "deploy", "free"],
  });
  const categories = async (name: string) => (await commands.resolve(name)).category;
  assert.equal(await categories("version"), "Help");
  assert.equal((await commands.resolve("/clear")).name, "reset");
  assert.equal((await commands.resolve("Q")).name, "queue");
  assert.equal(await categories("deploy"), "Your own");
  assert.equal(await categories("free"), "Skills");
  const names = (await commands.list()).map(({ name }) => name.toLowerCase());
  assert.equal(new Set(names).size, names.length);
  assert.match(await told(commands, agent, "/version"), /agentd 1\.2\.3/);
});

test("an alias never hides a command of its own source", async () => {
  const command = (name: string, aliases: readonly string[] = []): Command => ({
    name,
    aliases,
    description: name,
    category: "Help",
    run: async () => ({ type: "exec", output: name }),
  });
  const commands = new Commands(() => [command("one", ["two"]), command("two"), command("two")]);
  assert.deepEqual(
    (await commands.list()).map(({ name }) => name),
    ["one", "two"],
  );
  assert.equal((await commands.resolve("two")).name, "two");
});
