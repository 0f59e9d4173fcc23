/** Secrets that are planted everywhere, and everything that was written searched for them. */
import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { createClarify } from "../../src/agent/tools/clarify.ts";
import { createTerminal } from "../../src/agent/tools/terminal.ts";
import { defineTool, ToolError } from "../../src/agent/tool.ts";
import { registerSecret } from "../../src/base/redact.ts";
import { secretValues } from "../../src/config/secret-values.ts";
import type { Tables } from "../../src/store/tables.ts";
import { connectSocket } from "../harness/rpc.ts";
import { startTestService, testConfig, type TestService } from "../harness/service.ts";

const OWNER = "tests";
const ENVIRONMENT = "canary-environment-5d1f";
const SUDO = "canary-sudo-77aa";
const SECRET = "canary-secret-9c3e";
const TOKEN = "sk-canary0123456789abcdefABCDEF";

/** Everything the service keeps or said, as text by where it stands. */
async function everything(service: TestService): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>([["log", service.logLines.join("\n")]]);
  const { read } = service.service.store;
  for (const table of await tablesOf(service)) {
    found.set(table, JSON.stringify(await read.selectFrom(table).selectAll().execute()));
  }
  for (const name of await readdir(service.home, { recursive: true, withFileTypes: true })) {
    if (name.isFile()) {
      const path = join(name.parentPath, name.name);
      found.set(path, (await readFile(path)).toString("latin1"));
    }
  }
  return found;
}

/** Every table that the database has, whatever the schema says by now. */
async function tablesOf({ service, database }: TestService): Promise<readonly (keyof Tables)[]> {
  const schema = new URLSearchParams(database.url.split("?")[1]).get("schema") ?? undefined;
  const tables = await service.store.read.introspection.getTables();
  const own = tables.filter((table) => schema === undefined || table.schema === schema);
  assert.ok(own.length > 0);
  return own.map(({ name }) => name as keyof Tables);
}

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

const leaky = defineTool<{ how: "result" | "progress" | "throws" | "fails" | "asks" }>({
  name: "leaky",
  toolset: "planning",
  description: "Says more than it should.",
  parameters: { type: "object", properties: { how: { type: "string" } }, required: ["how"] },
  inspect: ({ how }) => ({ kind: "tool", effect: "none", title: `leaky ${how} ${ENVIRONMENT}` }),
  run: async ({ how }, context) => {
    if (how === "throws") throw new Error(`inside: ${ENVIRONMENT} ${TOKEN}`);
    if (how === "fails") throw new ToolError(`told: ${ENVIRONMENT} ${TOKEN}`);
    if (how === "asks") {
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
  ...["result", "progress", "throws", "fails", "asks"].map((how) => ({ tool: "leaky", input: { how } })),
  { tool: "terminal", input: { command: "sudo sh -c 'echo done'" } },
  { tool: "terminal", input: { command: 'echo "$CANARY_SECRET"; env' } },
  { tool: "nowhere", input: {} },
];

test("a secret of the environment, a tool's output, a sudo answer and a secret answer is written nowhere but in .env", async (t) => {
  const env = { CANARY_API_KEY: ENVIRONMENT };
  for (const secret of secretValues(testConfig(), env)) registerSecret(secret);
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
  const { runId } = await agent.turns.submit({
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
      const askId = String(data["request_id"]);
      const by = { owner: OWNER, by: "test" };
      if (type === "secret.request") await agent.parts.asks.answer(askId, { ...by, value: SECRET });
      if (type === "sudo.request") await agent.parts.asks.answer(askId, { ...by, password: SUDO });
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
    ...(await everything(service)),
    ["frames", frames.join("\n")],
    ["error body", await refused.text()],
  ]);
  const dotEnv = join(service.home, "agentd", ".env");
  assert.match(places.get(dotEnv) ?? "", new RegExp(SECRET));
  for (const [where, text] of places) {
    if (where.endsWith("/bin/sudo")) continue;
    for (const canary of [ENVIRONMENT, SUDO, TOKEN, ...(where === dotEnv ? [] : [SECRET])]) {
      const at = text.indexOf(canary);
      assert.ok(at < 0, `${canary} stands in ${where}: ${text.slice(Math.max(0, at - 200), at + 60)}`);
    }
  }
  assert.match(places.get("events") ?? "", /\[redacted\]/);
  assert.match(places.get("log") ?? "", /"level":"debug".*\[redacted\]/);
  assert.match(places.get("log") ?? "", /"level":"error".*\[redacted\]/);
});
