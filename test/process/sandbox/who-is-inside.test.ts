/** The table "What runs inside" of docs/sandbox.md, row by row, in a real service. */
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import type { Script, ScriptStep } from "../../../src/agent/engines/scripted.ts";
import type { ToolMessage } from "../../../src/agent/engine.ts";
import { Jobs } from "../../../src/cron/job/jobs.ts";
import type { JobDefinition } from "../../../src/cron/job/job.ts";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { definition } from "../../harness/cron.ts";
import { createAcpPlace } from "../../harness/acp.ts";
import { calling, saying } from "../../harness/openai-server.ts";
import { connectSocket } from "../../harness/rpc.ts";
import { fetchRun, startRun } from "../../harness/runs.ts";
import { startTestService, type TestService, type TestServiceOptions } from "../../harness/service.ts";
import { startWebhookService } from "../../harness/webhook.ts";

const { sandbox } = await findSandbox();
const skip = sandbox ? false : "bubblewrap does not work here";
const SECRET = "agentd-canary-8Lq36";
/** Prints what says where it runs: the first process, and a file of the service's home. The name is spelled so that no policy knows it. */
const PROBE = "cat /proc/1/comm; S=$(printf 'age%s/secret' ntd); cat $S";

describe("inside of the sandbox", { skip }, () => {
  it("a command in the foreground", async () => {
    const model = callsOf([terminal(PROBE)]);
    await using service = await start({ script: model.script });
    await runToEnd(service);
    assertInside(await model.answers);
  });

  it("a command in the background", async () => {
    const model = callsOf([terminal(`(${PROBE}) > told 2>&1; echo end >> told`, { background: true })]);
    await using service = await start({ script: model.script });
    await runToEnd(service);
    const told = await eventually(async () => {
      const text = await readFile(join(service.workspace, "told"), "utf8").catch(() => "");
      return text.includes("end") ? text : undefined;
    });
    assert.match(told, /^bwrap\n/);
    assert.doesNotMatch(told, new RegExp(SECRET));
  });

  it("a command of a sub-agent", async () => {
    const model = callsOf([terminal(PROBE)]);
    const script: Script = (state) => {
      if (state.user !== "go") return model.script(state);
      if (state.step > 0) return { text: "over" };
      return { calls: [{ tool: "delegate_task", input: { tasks: [{ goal: "look around" }] } }] };
    };
    await using service = await start({ script });
    await runToEnd(service, "go");
    assertInside(await model.answers);
  });

  it("a script of a skill and a hook of Git, started by a command", async () => {
    const model = callsOf([
      terminal("D=$(printf 'age%s/skills/look' ntd); sh $D/look.sh"),
      terminal("git -C project commit -q --allow-empty -m x"),
    ]);
    await using service = await start({ script: model.script });
    const skill = join(service.home, "agentd/skills/look");
    await mkdir(skill, { recursive: true });
    await writeFile(join(skill, "look.sh"), `${PROBE}\n`);
    const project = join(service.workspace, "project");
    execFileSync("git", ["init", "-q", project]);
    execFileSync("git", ["-C", project, "config", "user.email", "somebody@example.com"]);
    execFileSync("git", ["-C", project, "config", "user.name", "Somebody"]);
    const hook = join(project, ".git/hooks/pre-commit");
    await writeFile(hook, `#!/bin/sh\ncd ..\n${PROBE}\nexit 0\n`);
    await chmod(hook, 0o755);
    await runToEnd(service);
    const [fromSkill, fromHook] = await model.answers;
    assertInside([fromSkill as ToolMessage]);
    assertInside([fromHook as ToolMessage]);
  });

  it("a command that an editor shows in a terminal", async () => {
    const replies = [calling({ id: "call_1", name: "terminal", json: JSON.stringify({ command: PROBE }) })];
    await using place = await createAcpPlace({ replies: () => replies.shift() ?? saying("over") });
    await mkdir(join(place.folder, "agentd"));
    await writeFile(join(place.home, "secret"), SECRET);
    const editor = await place
      .start({ env: { AGENTD_SANDBOX: "required" } })
      .client({ capabilities: { terminal: true, _meta: { terminal_output: true } } });
    await editor.prompt(await editor.session(place.folder), "look");
    const shown = JSON.stringify(editor.updates("tool_call_update"));
    assert.match(shown, /bwrap\\n/);
    assert.doesNotMatch(shown, new RegExp(SECRET));
  });

  it("a command of a webhook run, and there is no way out", async () => {
    const model = callsOf(WITH_WAYS_OUT);
    await using service = await startWebhookService({
      script: model.script,
      config: AUTO,
      routes: { hook: { prompt: "go", toolsets: ["terminal"] } },
    });
    await hideSecret(service.test);
    await service.post("hook");
    assertConfined(await model.answers);
  });

  it("a command of a scheduled run, and there is no way out", async () => {
    const model = callsOf(WITH_WAYS_OUT);
    await using service = await start({ script: model.script });
    await runJob(service, { prompt: "go" });
    assertConfined(await model.answers);
  });
});

describe("outside of the sandbox", { skip }, () => {
  it("a script of a scheduled job", async () => {
    await using service = await start({});
    const told = await writeProbe(service, "look.sh");
    await runJob(service, { script: "look.sh" });
    await assertOutside(told);
  });

  it("a script of a webhook route", async () => {
    await using service = await startWebhookService({
      config: AUTO,
      routes: { hook: { script: "look.sh" } },
    });
    await hideSecret(service.test);
    const told = await writeProbe(service.test, "look.sh");
    await service.post("hook");
    await assertOutside(told);
  });

  it("a quick command", async () => {
    await using service = await start({
      config: { quick_commands: { where: { type: "exec", value: "cat /proc/1/comm" } } },
    });
    const { agent, deps } = service.service;
    const answer = await deps.commands.dispatch("/where", { agent, owner: "default" });
    assert.equal(answer.type === "exec" && answer.output, FIRST_PROCESS);
  });

  it("an MCP server on stdio", async (t) => {
    const fixture = join(import.meta.dirname, "../../unit/agent/mcp/sdk-server.ts");
    const words = "Deno" in globalThis ? "run -A --no-check" : "";
    const told = join(tmpdir(), `agentd-mcp-${process.pid}`);
    t.after(() => rm(told, { force: true }));
    const command = `cat /proc/1/comm > ${told}; exec '${process.execPath}' ${words} '${fixture}'`;
    const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "/" };
    await using service = await start({
      config: { mcp: { servers: { one: { command: "/bin/sh", args: ["-c", command], env } } } },
    });
    await eventually(
      async () => service.service.agent.deps.tools().some(({ name }) => name === "mcp_one_echo") || undefined,
    );
    assert.equal(await readFile(told, "utf8"), FIRST_PROCESS);
  });

  it("shell.exec of the gateway", async () => {
    await using service = await start({ config: { gateway: { shell_exec: "local" } } });
    await using host = await connectSocket(service);
    const { stdout } = await host.result("shell.exec", { command: "cat /proc/1/comm" });
    assert.equal(stdout, FIRST_PROCESS);
  });

  it("a command with outside_sandbox, where approvals are switched off", async () => {
    const model = callsOf([terminal(PROBE, { outside_sandbox: true })]);
    await using service = await start({ script: model.script, config: { approvals: { mode: "yolo" } } });
    await runToEnd(service);
    const [answer] = await model.answers;
    assert.match(String(answer?.text), new RegExp(SECRET));
  });
});

const AUTO = { terminal: { sandbox: "required" } } as const;
const FIRST_PROCESS = await readFile("/proc/1/comm", "utf8").catch(() => "");

function terminal(command: string, more: object = {}): Call {
  return { tool: "terminal", input: { command, ...more } };
}

type Call = NonNullable<ScriptStep["calls"]>[number];

const WITH_WAYS_OUT = [
  terminal(PROBE),
  terminal("frobnicate; echo got out", { outside_sandbox: true }),
  terminal("frobnicate; echo got out", { hosts: ["registry.example.com"] }),
];

/** A model that makes the calls and ends. */
function callsOf(calls: readonly Call[]) {
  const { promise, resolve } = Promise.withResolvers<readonly ToolMessage[]>();
  const script: Script = ({ step, toolResults }) => {
    if (step === 0) return { calls };
    resolve(toolResults);
    return { text: "over" };
  };
  return { script, answers: promise };
}

async function start(options: TestServiceOptions): Promise<TestService> {
  const service = await startTestService({ ...options, config: { ...AUTO, ...options.config } });
  await hideSecret(service);
  return service;
}

/** Writes a file of the service's home. */
async function hideSecret({ home }: TestService): Promise<void> {
  await mkdir(join(home, "agentd/scripts"), { recursive: true });
  await writeFile(join(home, "agentd/secret"), SECRET);
}

async function runToEnd(service: TestService, input = "look"): Promise<void> {
  const { id } = await startRun(service, { input });
  await eventually(async () => ((await fetchRun(service, id, 5)).status === "completed" ? true : undefined));
}

async function runJob({ service }: TestService, parts: Partial<JobDefinition>): Promise<void> {
  const jobs = new Jobs(service.store, { maxJobs: 10 });
  const { id } = await jobs.create(definition({ deliver: "local", ...parts }));
  await jobs.run(id);
}

/** A script that writes down where it runs; resolves to its file. */
async function writeProbe({ home }: TestService, name: string): Promise<string> {
  const told = join(home, "told");
  const text = `cat /proc/1/comm '${home}/agentd/secret' > '${told}.part' && mv '${told}.part' '${told}'\n`;
  await writeFile(join(home, "agentd/scripts", name), text, { mode: 0o700 });
  return told;
}

function assertInside(answers: readonly ToolMessage[]): void {
  const all = answers.map(({ text }) => text).join("\n");
  assert.match(all, /^bwrap$/m);
  assert.doesNotMatch(all, new RegExp(SECRET));
}

/** Inside, and each way out is refused, since no one can answer. */
function assertConfined([inside, ...ways]: readonly ToolMessage[]): void {
  assertInside([inside as ToolMessage]);
  assert.deepEqual(
    ways.map(({ status, code }) => [status, code]),
    [
      ["denied", "not_answerable"],
      ["denied", "not_answerable"],
    ],
  );
  assert.ok(ways.every(({ text }) => !text.includes("got out\n")));
}

async function assertOutside(told: string): Promise<void> {
  const text = await eventually(() => readFile(told, "utf8").catch(() => undefined));
  assert.equal(text, `${FIRST_PROCESS}${SECRET}`);
}

async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
