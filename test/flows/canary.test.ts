/** Secrets that are planted everywhere, and everything that was written searched for them. */
import assert from "node:assert/strict";
import { appendFile, chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createClarify } from "../../src/agent/tools/clarify.ts";
import { createTerminal } from "../../src/agent/tools/process/terminal.ts";
import { defineTool, ToolError } from "../../src/agent/tool/tool.ts";
import { createScriptedEngine } from "../../src/agent/engines/scripted.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { startFromHome } from "../../src/app/start.ts";
import { hideSecrets } from "../../src/config/secret-values.ts";
import {
  assertAbsent,
  everything,
  ordinary,
  plantHome,
  planted,
  plantedAtStart,
  plantedValues,
} from "../harness/canaries.ts";
import { connectSocket } from "../harness/rpc.ts";
import { startTestService, testConfig } from "../harness/service.ts";
import { createTestDatabase } from "../harness/store.ts";

const OWNER = "tests";
const ENVIRONMENT = "canary-environment-5d1f";
const SUDO = "canary-sudo-77aa";
const SECRET = "canary-secret-9c3e";
const TOKEN = "sk-canary0123456789abcdefABCDEF";

/** A program `sudo` that takes any password and, as careless programs do, repeats it. */
async function fakeSudo(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, "sudo");
  await writeFile(
    path,
    '#!/bin/sh\n[ "$1" = -n ] && exit 1\n[ "$1" = -A ] && shift\necho "got $($SUDO_ASKPASS | head -n 1)"\nexec "$@"\n',
  );
  await chmod(path, 0o755);
}

const leaky = defineTool<{ how: "result" | "progress" | "throws" | "fails" | "questions" }>({
  name: "leaky",
  toolset: "planning",
  description: "Says more than it should.",
  parameters: { type: "object", properties: { how: { type: "string" } }, required: ["how"] },
  inspect: ({ how }) => ({ kind: "tool", effect: "none", title: `leaky ${how} ${ENVIRONMENT}` }),
  run: async ({ how }, context) => {
    if (how === "throws") throw new Error(`inside: ${ENVIRONMENT} ${TOKEN}`);
    if (how === "fails") throw new ToolError(`told: ${ENVIRONMENT} ${TOKEN}`);
    if (how === "questions") {
      const stored = await context.questions.secret({ prompt: `For ${TOKEN}`, envVar: "CANARY_SECRET" });
      context.variables.share("CANARY_SECRET");
      return `${stored} ${JSON.stringify(context.variables.shared())}`;
    }
    if (how === "progress") {
      for (const piece of [
        ENVIRONMENT.slice(0, 9),
        ENVIRONMENT.slice(9),
        " ",
        TOKEN.slice(0, 12),
        TOKEN.slice(12),
        "\n",
      ]) {
        context.progress(piece);
      }
    }
    return {
      text: `result: ${ENVIRONMENT} ${TOKEN}`,
      todos: [{ id: "1", content: ENVIRONMENT, status: "pending" }],
    };
  },
});

const steps: readonly { readonly tool: string; readonly input: unknown }[] = [
  ...["result", "progress", "throws", "fails", "questions"].map((how) => ({ tool: "leaky", input: { how } })),
  { tool: "terminal", input: { command: "sudo sh -c 'echo done'" } },
  { tool: "terminal", input: { command: 'echo "$CANARY_SECRET"; env' } },
  { tool: "nowhere", input: {} },
];

test("a secret of the environment, a tool's output, a sudo answer and a secret answer is written nowhere but in .env", async (t) => {
  const env = { CANARY_API_KEY: ENVIRONMENT };
  hideSecrets({ config: testConfig(), env });
  const bin = await mkdtemp(join(tmpdir(), "agentd-test-"));
  t.after(() => rm(bin, { recursive: true, force: true }));
  await fakeSudo(bin);
  const terminal = createTerminal({
    timeoutMs: 20_000,
    maxOutputBytes: 20_000,
    envPassthrough: [],
    env: { ...process.env, ...env, PATH: `${bin}:${process.env["PATH"] ?? ""}` },
  });
  await using service = await startTestService({
    env,
    logLevel: "debug",
    config: { approvals: { mode: "yolo" } },
    tools: [leaky, createClarify(), terminal],
    script: ({ step }) => {
      const next = steps[step];
      return next ? { text: `step ${step}`, calls: [next] } : { text: "done" };
    },
  });
  const { agent, store } = service.service;
  const { runId } = await agent.runs.submit({
    address: { owner: OWNER, id: "canary" },
    seed: { source: "test", cwd: service.home },
    kind: "run",
    input: { prompt: [{ role: "user", text: "go" }], settings: {}, answerable: true },
  });
  const frames: string[] = [];
  for await (const group of store.journal.follow({ runId })) {
    for (const event of group) {
      frames.push(JSON.stringify(event));
      const { type, data } = event;
      const questionId = String(data["request_id"]);
      const by = { owner: OWNER, by: "test" };
      if (type === "secret.request") await agent.deps.questions.answer(questionId, { ...by, value: SECRET });
      if (type === "sudo.request") await agent.deps.questions.answer(questionId, { ...by, password: SUDO });
    }
    if (group.some(({ type }) => type.startsWith("run.") && /completed|failed|cancelled/.test(type))) break;
  }
  assert.ok(frames.some((frame) => frame.includes('"secret.responded"')));
  assert.ok(frames.some((frame) => frame.includes('"sudo.responded"')));
  const refused = await fetch(`${service.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: "{}",
  });
  // Names of parameters that are not known are logged at level debug alone.
  const host = await connectSocket(service);
  await host.result("ping", { [`${ENVIRONMENT} ${TOKEN}`]: true });
  await host[Symbol.asyncDispose]();
  const places = new Map([
    ...(await everything({
      store,
      databaseUrl: service.database.url,
      folders: [service.home],
      logLines: service.logLines,
    })),
    ["frames", frames.join("\n")],
    ["error body", await refused.text()],
  ]);
  const dotEnv = join(service.home, "agentd", ".env");
  assert.match(places.get(dotEnv) ?? "", new RegExp(SECRET));
  assertAbsent(
    [ENVIRONMENT, SUDO, TOKEN, SECRET],
    places,
    (where, canary) => where === dotEnv && canary === SECRET,
  );
  assert.match(places.get("events") ?? "", /\[redacted\]/);
  assert.match(places.get("log") ?? "", /"level":"debug".*\[redacted\]/);
  assert.match(places.get("log") ?? "", /"level":"error".*\[redacted\]/);
});

test("secrets of a home are written nowhere, also those added to .env while it runs, and ordinary values are shown", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "agentd-home-"));
  const database = await createTestDatabase();
  t.after(async () => {
    await database.drop();
    await rm(home, { recursive: true, force: true });
  });
  const envFile = join(home, ".env");
  await plantHome(home);
  const speak = defineTool<object>({
    name: "speak",
    toolset: "planning",
    description: "Says all it knows.",
    parameters: { type: "object" },
    inspect: () => ({ kind: "tool", effect: "none", title: `speak ${plantedAtStart.join(" ")}` }),
    run: async (_, { progress }) => {
      await appendFile(envFile, `LATER_TOKEN=${planted.addedLater}\n`);
      await new Promise((resolve) => setTimeout(resolve, 10));
      const text = [...plantedValues, ...ordinary].join(" ");
      for (const letter of text) progress(letter);
      return text;
    },
  });
  const logLines: string[] = [];
  const log = createLog("debug", (line) => void logLines.push(line));
  const started = await startFromHome({
    env: { AGENTD_DATABASE_URL: database.url, MINE_API_KEY: planted.process },
    home,
    port: 0,
    log,
    tools: [speak],
    engine: createScriptedEngine(
      ({ step }) =>
        step === 0 ? { text: "first", calls: [{ tool: "speak", input: {} }] } : { text: ordinary.join(" ") },
      { clock: systemClock },
    ),
  });
  await using stopping = new AsyncDisposableStack();
  stopping.defer(() => started.service.stop({ graceMs: 0 }));
  const { agent, store } = started.service;
  const { runId } = await agent.runs.submit({
    address: { owner: OWNER, id: "canary" },
    seed: { source: "test" },
    kind: "run",
    input: { prompt: [{ role: "user", text: "go" }], settings: {}, answerable: false },
  });
  const frames: string[] = [];
  for await (const group of store.journal.follow({ runId })) {
    frames.push(...group.map((event) => JSON.stringify(event)));
    if (group.some(({ type }) => /^run\.(completed|failed|cancelled)/.test(type))) break;
  }
  log.debug(plantedValues.join(" "), { error: new Error(plantedValues.join(" ")), told: ordinary.join(" ") });
  const places = new Map([
    ...(await everything({ store, databaseUrl: database.url, folders: [home], logLines })),
    ["frames", frames.join("\n")],
  ]);
  const isSource = (where: string) => where === envFile || where === join(home, "config.yaml");
  assertAbsent(plantedValues, places, isSource);
  const said = frames.filter((frame) => frame.includes("message.completed") || frame.includes("tool."));
  for (const value of ordinary) {
    assert.ok(said.join("\n").includes(value), value);
    assert.ok(places.get("log")?.includes(value), value);
  }
  assert.match(places.get("log") ?? "", /"model":"demo:demo"/);
});
