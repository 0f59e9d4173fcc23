/** A request for every write of the HTTP API, with what it works on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Grant, Question } from "../../generated/http/client/types.gen.ts";
import { operations, type OperationId } from "../../generated/http/server.gen.ts";
import type { Script } from "../../src/agent/engines/scripted.ts";
import { testTool } from "./agent.ts";
import { askQuestion, createJob, list } from "./control.ts";
import { createKey } from "./keys.ts";
import { addMessage } from "./outbox.ts";
import { post } from "./runs.ts";
import { KEY, startTestService, type TestService, type TestServiceOptions } from "./service.ts";
import { WebhookService, withReceiver } from "./webhook.ts";
import { createRoute } from "./webhook-routes.ts";

const THINK = "think";

/** A request that changes something. */
export interface Write {
  readonly path: string;
  readonly body?: object | Uint8Array<ArrayBuffer>;
}

/**
 * Asks for approval of a command when the prompt of a run says hi, which is what askQuestion sends, and thinks until it is
 * stopped when the prompt says so.
 */
export const writeScript: Script = async ({ step, toolResults, user, signal }) => {
  if (user === THINK) await once(signal, "abort");
  return step === 0 && user === "hi"
    ? { calls: [{ tool: "terminal", input: { command: "make all" } }] }
    : { text: toolResults.map(({ text }) => text).join() || "hello" };
};

export const writeOptions: TestServiceOptions = {
  ...withReceiver({ routes: { hook: { owner: "default" } }, config: { cron: { enabled: false } } }),
  keys: [{ key: KEY, name: "ops", owner: "default", scopes: ["admin"] }],
  tools: [testTool(async ({ command }) => `ran ${command}`)],
  script: writeScript,
};

const counts = new WeakMap<TestService, number>();

/** Numbers what is made in a service, so that two services get the same names. */
function next(service: TestService): number {
  const count = (counts.get(service) ?? 0) + 1;
  counts.set(service, count);
  return count;
}

const fresh = (service: TestService, word: string) => `${word}-${next(service)}`;

async function aSession(service: TestService): Promise<string> {
  const id = fresh(service, "s");
  for (let turn = 0; turn < 12; turn++) {
    const body = { messages: [{ role: "user", content: `turn ${turn}` }] };
    await (await service.chat(body, { headers: { "x-agent-session-id": id } })).text();
  }
  const titleOf = async () => (await (await service.request(`/v1/sessions/${id}`)).json()).title as unknown;
  while ((await titleOf()) === null);
  return id;
}

async function aDelivery(service: TestService): Promise<string> {
  const receiver = new WebhookService(service);
  const known = (await receiver.deliveries()).length;
  await receiver.post(
    "hook",
    {},
    { headers: { "x-github-event": "push", "x-request-id": fresh(service, "r") } },
  );
  const rows = await receiver.recorded(
    (all) => all.length > known && all.every((row) => row.ended_at !== null),
  );
  return rows.at(-1)?.id ?? assert.fail();
}

async function aGrant(service: TestService): Promise<string> {
  const { id, run_id: run } = await askQuestion(service);
  await post(service, `/v1/questions/${id}/answer`, { choice: "always" });
  await (await service.request(`/v1/runs/${run}?wait=30`)).text();
  return (await list<Grant>(service, "/v1/grants"))[0]?.id ?? assert.fail();
}

async function aRunningRun(service: TestService): Promise<string> {
  const { run_id: id } = await (await post(service, "/v1/runs", { input: THINK })).json();
  while ((await (await service.request(`/v1/runs/${id}`)).json()).status !== "running");
  return id;
}

/** Starts a response that asks, and returns its id once the question is open. */
async function aBackgroundResponse(service: TestService): Promise<string> {
  const open = async () => (await list<Question>(service, "/v1/questions?status=open")).length;
  const before = await open();
  const { id } = await (await post(service, "/v1/responses", { input: "hi", background: true })).json();
  while ((await open()) === before);
  return id;
}

const messageTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/outbox/${await addMessage(service, { status: "dead" })}/${verb}`,
  body: {},
});
const messagesTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/outbox/${verb}`,
  body: { ids: [await addMessage(service, { status: "dead" })] },
});
const jobTo = async (service: TestService, verb: string): Promise<Write> => ({
  path: `/v1/jobs/${(await createJob(service, { name: fresh(service, "job") })).id}${verb}`,
});
const keyTo = async (service: TestService, verb = ""): Promise<Write> => ({
  path: `/v1/keys/${(await createKey(service, { name: fresh(service, "key") })).id}${verb}`,
});
const routeTo = async (service: TestService, verb = ""): Promise<Write> => ({
  path: `/v1/webhooks/routes/${(await createRoute(service, { name: fresh(service, "route") })).name}${verb}`,
});

/** Makes what an operation works on, and returns a request that it accepts. */
export const writes: Partial<Record<OperationId, (service: TestService) => Promise<Write>>> = {
  createSession: async (service) => ({ path: "/v1/sessions", body: { id: fresh(service, "s") } }),
  updateSession: async (service) => ({
    path: `/v1/sessions/${await aSession(service)}`,
    body: { title: fresh(service, "t") },
  }),
  deleteSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}` }),
  forkSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}/fork`, body: {} }),
  compressSession: async (service) => ({
    path: `/v1/sessions/${await aSession(service)}/compress`,
    body: {},
  }),
  undoSession: async (service) => ({ path: `/v1/sessions/${await aSession(service)}/undo`, body: {} }),
  answerQuestion: async (service) => ({
    path: `/v1/questions/${(await askQuestion(service)).id}/answer`,
    body: { choice: "deny" },
  }),
  deleteGrant: async (service) => ({ path: `/v1/grants/${await aGrant(service)}` }),
  createRoute: async (service) => ({ path: "/v1/webhooks/routes", body: { name: fresh(service, "route") } }),
  updateRoute: async (service) => ({ ...(await routeTo(service)), body: { description: "mine" } }),
  deleteRoute: async (service) => routeTo(service),
  rotateRouteSecret: async (service) => ({ ...(await routeTo(service, "/rotate-secret")), body: {} }),
  replayDelivery: async (service) => ({
    path: `/v1/webhooks/deliveries/${await aDelivery(service)}/replay`,
    body: {},
  }),
  replayDeliveries: async (service) => {
    await aDelivery(service);
    return {
      path: "/v1/webhooks/deliveries/replay",
      body: { route: "hook", from: 0, status: ["completed"], limit: 1 },
    };
  },
  createJob: async () => ({ path: "/v1/jobs", body: { schedule: "every 1h", prompt: "make tea" } }),
  importJobs: async () => ({
    path: "/v1/jobs/import",
    body: { jobs: [{ id: "0123456789ab", schedule: "every 1h", prompt: "make tea" }] },
  }),
  updateJob: async (service) => ({ ...(await jobTo(service, "")), body: { prompt: "make coffee" } }),
  deleteJob: async (service) => jobTo(service, ""),
  pauseJob: async (service) => ({ ...(await jobTo(service, "/pause")), body: {} }),
  resumeJob: async (service) => {
    const { id } = await createJob(service, { name: fresh(service, "job"), paused: true });
    return { path: `/v1/jobs/${id}/resume`, body: {} };
  },
  runJob: async (service) => jobTo(service, "/run"),
  sendMessage: async () => ({ path: "/v1/outbox", body: { target: "local", text: "words" } }),
  retryMessage: async (service) => messageTo(service, "retry"),
  dropMessage: async (service) => messageTo(service, "drop"),
  retryMessages: async (service) => messagesTo(service, "retry"),
  dropMessages: async (service) => messagesTo(service, "drop"),
  updateConfig: async (service) => ({
    path: "/v1/config",
    body: { agent: { max_steps: 10 + next(service) } },
  }),
  createKey: async (service) => ({
    path: "/v1/keys",
    body: { name: fresh(service, "key"), scopes: ["read"] },
  }),
  updateKey: async (service) => ({ ...(await keyTo(service)), body: { rate_limit_rpm: 5 } }),
  rotateKey: async (service) => ({ ...(await keyTo(service, "/rotate")), body: {} }),
  deleteKey: async (service) => keyTo(service),
  putVariable: async (service) => ({
    path: `/v1/variables/${fresh(service, "V").replace("-", "_")}`,
    body: { value: "x" },
  }),
  deleteVariable: async (service) => {
    const path = `/v1/variables/${fresh(service, "V").replace("-", "_")}`;
    await sendWrite(service, "putVariable", { path, body: { value: "x" } });
    return { path };
  },
  reloadService: async (service) => {
    const file = join(service.home, "agentd", "config.yaml");
    await writeFile(file, `log: { level: ${next(service) % 2 ? "error" : "warn"} }\n`);
    return { path: "/v1/service/reload", body: {} };
  },
  importBackup: async (service) => {
    const archive = await post(service, "/v1/backup", {});
    return { path: "/v1/backup/import", body: new Uint8Array(await archive.arrayBuffer()) };
  },
  createChatCompletion: async () => ({
    path: "/v1/chat/completions",
    body: { messages: [{ role: "user", content: "good day" }] },
  }),
  createResponse: async () => ({ path: "/v1/responses", body: { input: "good day" } }),
  deleteResponse: async (service) => {
    const { id } = await (await post(service, "/v1/responses", { input: "good day" })).json();
    return { path: `/v1/responses/${id}` };
  },
  cancelResponse: async (service) => ({ path: `/v1/responses/${await aBackgroundResponse(service)}/cancel` }),
  createRun: async () => ({ path: "/v1/runs", body: { input: "good day" } }),
  resolveRunApproval: async (service) => ({
    path: `/v1/runs/${(await askQuestion(service)).run_id}/approval`,
    body: { choice: "deny" },
  }),
  steerRun: async (service) => ({
    path: `/v1/runs/${await aRunningRun(service)}/steer`,
    body: { input: "Leave the tests alone." },
  }),
  stopRun: async (service) => ({ path: `/v1/runs/${(await askQuestion(service)).run_id}/stop`, body: {} }),
  testRoute: async (service) => ({ ...(await routeTo(service, "/test")), body: { payload: {} } }),
  testModel: async () => ({ path: "/v1/providers/test", body: { with_tool: false } }),
  detectProviders: async () => ({ path: "/v1/providers/detect", body: {} }),
  reloadMcp: async () => ({ path: "/v1/mcp/reload", body: {} }),
  createSocketTicket: async () => ({ path: "/api/auth/ws-ticket" }),
  createConsoleCode: async () => ({ path: "/api/console/codes", body: { kind: "link" } }),
  deleteConsoleSessions: async () => ({ path: "/api/console/sessions" }),
  drainService: async () => ({ path: "/v1/service/drain", body: { grace_seconds: 0 } }),
};

/** Sends a write over HTTP. */
export async function sendWrite(
  service: TestService,
  id: OperationId,
  { path, body }: Write,
  query = "",
): Promise<Response> {
  const isArchive = body instanceof Uint8Array;
  const headers: Record<string, string> = {
    ...(id === "updateConfig" ? { "if-match": "*" } : {}),
    ...(body ? { "content-type": isArchive ? "application/gzip" : "application/json" } : {}),
  };
  return service.request(path + query, {
    method: operations[id].method,
    headers,
    ...(body ? { body: isArchive ? body : JSON.stringify(body) } : {}),
  });
}

/** Starts a service on which every request of {@link writes} can be made. */
export async function startForWrites(): Promise<TestService> {
  const service = await startTestService(writeOptions);
  await mkdir(join(service.home, "agentd"), { recursive: true });
  return service;
}
