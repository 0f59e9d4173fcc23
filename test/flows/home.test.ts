/** What a home folder brings to the agent: servers, skills, context files, commands; through the real start. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createScriptedEngine, type ScriptState } from "../../src/agent/engines/scripted.ts";
import { followRun } from "../../src/agent/run/run.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { startFromHome } from "../../src/app/start.ts";
import { createTestDatabase } from "../harness/store.ts";

const OWNER = "default";
const fixture = join(import.meta.dirname, "../unit/agent/mcp/sdk-server.ts");
const args = "Deno" in globalThis ? ["run", "-A", "--no-check", fixture] : [fixture];
const { PATH = "", HOME = "" } = process.env;

test("a home's MCP servers, skills, context files and commands are the agent's", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "agentd-home-"));
  const database = await createTestDatabase({ bare: true });
  t.after(async () => {
    await database.drop();
    await rm(home, { recursive: true, force: true });
  });
  const server = { command: process.execPath, args, env: { PATH, HOME }, tools: ["echo"] };
  const config = (servers: object) =>
    writeFile(
      join(home, "config.yaml"),
      JSON.stringify({
        mcp: { servers },
        quick_commands: {
          hi: { type: "exec", value: "echo hello from $PWD" },
          sum: { type: "prompt", value: "Sum up {args}" },
        },
      }),
    );
  await config({ one: server, broken: { command: "/nowhere/at-all" } });
  await mkdir(join(home, "skills", "ship"), { recursive: true });
  await writeFile(
    join(home, "skills", "ship", "SKILL.md"),
    "---\nname: ship\ndescription: Ships it\n---\nShip.\n",
  );
  await mkdir(join(home, "workspace"));
  await writeFile(join(home, "workspace", "AGENTS.md"), "Use tabs.");
  const seen: ScriptState[] = [];
  const { service } = await startFromHome({
    env: { AGENTD_DATABASE_URL: database.url },
    home,
    port: 0,
    engine: createScriptedEngine((state) => (seen.push(state), { text: "ok" }), { clock: systemClock }),
    log: createLog("error", () => {}),
  });
  t.after(() => service.stop({ graceMs: 0 }));
  const { agent, deps, store } = service;
  const turn = async (text: string) => {
    const { runId } = await agent.runs.submit({
      address: { owner: OWNER, id: "s" },
      seed: { source: "tui" },
      kind: "run",
      input: { prompt: [{ role: "user", text }], settings: {}, answerable: true },
    });
    const notices = [];
    for await (const { type, data } of followRun(store, runId)) {
      if (type === "run.notice") notices.push(String(data["message"]));
    }
    return notices;
  };
  const command = async (text: string) => {
    const directive = await deps.commands.dispatch(text, { agent, owner: OWNER, sessionId: "s" });
    return directive.type === "exec" ? directive.output : directive;
  };

  // A turn waits for servers only so long; a busy machine starts them later.
  const isReady = () => agent.deps.tools().some(({ name }) => name === "mcp_one_echo");
  while (!isReady()) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(await turn("first"), ["The MCP server broken cannot be used: its program was not found."]);
  const [first] = seen;
  assert.match(first?.instructions ?? "", /Use tabs\.[\s\S]*- ship: Ships it/);
  for (const name of [
    "terminal",
    "process",
    "web_fetch",
    "vision_analyze",
    "todo",
    "clarify",
    "delegate_task",
    "skill",
    "mcp_one_echo",
  ]) {
    assert.ok(first?.tools.includes(name), name);
  }
  await agent.titles.settled();
  assert.equal((await agent.sessions.get("s", OWNER)).title, "first", "the demo model names nothing itself");

  assert.match(String(await command("/tools")), /mcp: mcp_one_echo/);
  assert.equal(await command("/skills"), "ship: Ships it");
  assert.equal(await command("/hi"), `hello from ${await workspaceOf(home)}\n`);
  assert.deepEqual(await command("/sum the week"), { type: "send", message: "Sum up the week" });
  assert.deepEqual(await command("/ship it now"), {
    type: "skill",
    name: "ship",
    message: "Load the skill ship with the skill tool and follow it. Task: it now",
  });
  await config({ two: server });
  assert.equal(await command("/reload-mcp"), "two: connected, 1 tool");
  await turn("second");
  assert.deepEqual(
    seen.at(-1)?.tools.filter((name) => name.startsWith("mcp_")),
    ["mcp_two_echo"],
  );
  await writeFile(join(home, ".env"), "NEW_TOKEN=abcdefgh\n");
  assert.match(String(await command("/reload-env")), /variables? changed/);
});

async function workspaceOf(home: string): Promise<string> {
  const { realpath } = await import("node:fs/promises");
  return realpath(join(home, "workspace"));
}
