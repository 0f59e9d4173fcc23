/** The scenarios in TypeScript. Each function returns its outcome. */
import assert from "node:assert/strict";
import {
  AgentApiError,
  AgentConnectionError,
  createAgentClient,
  followResponse,
  streamChatCompletion,
  streamFeed,
  streamResponse,
  streamRunEvents,
  type ClientOptions,
  type RunEvent,
} from "../../../src/client/http.ts";
import {
  connectGateway,
  GatewayError,
  spawnTransport,
  TransportError,
  webSocketTransport,
  type GatewayClient,
  type GatewayClientEvent,
  type GatewayOptions,
} from "../../../src/client/gateway.ts";
import type { SdkStage } from "./stage.ts";

type Outcome = Readonly<Record<string, unknown>>;
type Runner = (stage: SdkStage) => Promise<Outcome>;

const here = ({ url: baseUrl, key: apiKey }: SdkStage): ClientOptions => ({ baseUrl, apiKey });
const cutting = ({ cutUrl: baseUrl, key: apiKey }: SdkStage): ClientOptions => ({ baseUrl, apiKey });
const messages = [{ role: "user" as const, content: "hi" }];

const kinds: Readonly<Record<number, string>> = {
  401: "authentication",
  403: "permission",
  404: "not_found",
  409: "conflict",
  429: "rate_limit",
};

async function failure(call: Promise<unknown>): Promise<AgentApiError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof AgentApiError, String(error));
  return error;
}

async function refused(call: Promise<unknown>): Promise<Outcome> {
  const { status, code } = await failure(call);
  return { kind: kinds[status] ?? "api", status, code };
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const startRun = async (stage: SdkStage, input: string): Promise<string> =>
  (await createAgentClient(here(stage)).createRun({ body: { input } })).data.run_id;

const runText = (events: readonly RunEvent[]) =>
  events.map((event) => (event.event === "message.delta" ? event.delta : "")).join("");

const counts = (numbers: readonly number[], first: number) =>
  numbers.every((number, at) => number === first + at);

async function endOfRun(stage: SdkStage, run_id: string, choice: "once" | "deny"): Promise<RunEvent> {
  const client = createAgentClient(here(stage));
  let last: RunEvent | undefined;
  for await (const event of streamRunEvents(here(stage), run_id)) {
    last = event;
    if (event.event !== "approval.request") continue;
    await client.resolveRunApproval({ path: { run_id }, body: { choice, request_id: event.request_id } });
  }
  assert.ok(last);
  return last;
}

const outputOf = (event: RunEvent) => ("output" in event ? event.output : undefined);

async function withGateway(
  { url, key: token }: Pick<SdkStage, "url" | "key">,
  run: (gateway: GatewayClient) => Promise<Outcome>,
  options: Partial<GatewayOptions> = {},
): Promise<Outcome> {
  const reconnect = { minMs: 1, maxMs: 20, attempts: 200, first: true };
  const transport = webSocketTransport({ url, token });
  await using gateway = await connectGateway({ transport, reconnect, ...options });
  return await run(gateway);
}

/** Reads one turn to its end; `each` sees every event. */
async function turn(
  gateway: GatewayClient,
  text: string,
  each: (event: GatewayClientEvent, sessionId: string) => Promise<void> | void = () => {},
) {
  const { session_id } = await gateway.call("session.create");
  const events = gateway.events({ sessionId: session_id });
  await gateway.call("prompt.submit", { session_id, text });
  let deltas = "";
  let next = 1;
  let inOrder = true;
  for await (const event of events) {
    await each(event, session_id);
    if ("seq" in event && event.seq !== undefined) {
      inOrder &&= ("first_seq" in event ? (event.first_seq ?? event.seq) : event.seq) === next;
      next = event.seq + 1;
    }
    if (event.type === "message.delta") deltas += event.payload.text;
    if (event.type === "message.complete") return { ...event.payload, deltas, in_order: inOrder };
  }
  throw new Error("the events ended before the turn");
}

async function wholeTurn(gateway: GatewayClient): Promise<Outcome> {
  const { text, deltas, in_order, status } = await turn(gateway, "hi");
  return { text, deltas, in_order, status };
}

export const runners: Readonly<Record<string, Runner>> = {
  async health(stage) {
    const { data } = await createAgentClient(here(stage)).getHealth();
    return { status: data.status };
  },
  async chat(stage) {
    const { data } = await createAgentClient(here(stage)).createChatCompletion({ body: { messages } });
    return { text: data.choices[0]?.message.content };
  },
  async chat_stream(stage) {
    const chunks = await collect(streamChatCompletion(here(stage), { messages }));
    const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    return { text, pieces: chunks.length > 3 };
  },
  async chat_stream_cut(stage) {
    const chunks = await collect(streamChatCompletion(cutting(stage), { messages }));
    return { text: chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("") };
  },
  async response_stream(stage) {
    const events = await collect(streamResponse(here(stage), { input: "hi" }));
    const text = events
      .map((event) => (event.type === "response.output_text.delta" ? event.delta : ""))
      .join("");
    return { text, last: events.at(-1)?.type };
  },
  async follow_response_cut(stage) {
    const body = { input: "hi", background: true };
    const { data } = await createAgentClient(here(stage)).createResponse({ body });
    const events = await collect(followResponse({ ...cutting(stage), baseUrl: stage.wideCutUrl }, data.id));
    const text = events
      .map((event) => (event.type === "response.output_text.delta" ? event.delta : ""))
      .join("");
    const numbers = events.map(({ sequence_number }) => sequence_number);
    return { text, last: events.at(-1)?.type, in_order: counts(numbers, 0) };
  },
  async run_events(stage) {
    const events = await collect(streamRunEvents(here(stage), await startRun(stage, "hi")));
    const numbers = events.map(({ seq }) => seq);
    return {
      first: events[0]?.event,
      last: events.at(-1)?.event,
      in_order: counts(numbers, 1),
    };
  },
  async run_events_cut(stage) {
    const events = await collect(streamRunEvents(cutting(stage), await startRun(stage, "hi")));
    const numbers = events.map(({ seq }) => seq);
    return { text: runText(events), last: events.at(-1)?.event, in_order: counts(numbers, 1) };
  },
  async run_events_from_middle(stage) {
    const id = await startRun(stage, "hi");
    await collect(streamRunEvents(here(stage), id));
    const events = await collect(streamRunEvents(here(stage), id, { after: 2 }));
    return { first: events[0]?.seq, last: events.at(-1)?.event };
  },
  async feed_cut(stage) {
    const client = createAgentClient(here(stage));
    const { response } = await client.listSessions();
    const after = response.headers.get("x-agent-event-cursor") ?? "";
    const made: string[] = [];
    for (let count = 0; count < 12; count++) made.push((await client.createSession({ body: {} })).data.id);
    const found: string[] = [];
    for await (const frame of streamFeed(cutting(stage), { after, types: ["session.created"] })) {
      if (frame.object === "event" && made.includes(frame.data.id)) found.push(frame.data.id);
      if (found.at(-1) === made.at(-1)) break;
    }
    return { events: found.length, in_order: found.join() === made.join() };
  },
  async run_approved(stage) {
    const last = await endOfRun(stage, await startRun(stage, "ask me"), "once");
    return { output: outputOf(last) };
  },
  async run_denied(stage) {
    const last = await endOfRun(stage, await startRun(stage, "ask me"), "deny");
    return { ran: String(outputOf(last)).includes("it ran") };
  },
  async run_cancelled(stage) {
    const client = createAgentClient(here(stage));
    const run_id = await startRun(stage, "hold");
    let last = "";
    for await (const event of streamRunEvents(here(stage), run_id)) {
      last = event.event;
      if (event.event === "message.delta") await client.stopRun({ path: { run_id } });
    }
    const { data } = await client.getRun({ path: { run_id } });
    return { last, status: data.status };
  },
  async idempotent_replay(stage) {
    const client = createAgentClient(here(stage));
    const call = { body: { input: "hi" }, headers: { "idempotency-key": `replay-${stage.tag}` } };
    const first = await client.createRun(call);
    const second = await client.createRun(call);
    return {
      same: first.data.run_id === second.data.run_id,
      replayed: second.response.headers.get("idempotency-replayed"),
    };
  },
  async idempotency_conflict(stage) {
    const client = createAgentClient(here(stage));
    const headers = { "idempotency-key": `conflict-${stage.tag}` };
    await client.createRun({ body: { input: "hi" }, headers });
    return refused(client.createRun({ body: { input: "another" }, headers }));
  },
  async list_pages(stage) {
    const client = createAgentClient(here(stage));
    for (const input of ["one", "two"]) await startRun(stage, input);
    const first = await client.listRuns({ query: { limit: 1 } });
    const second = await client.listRuns({ query: { limit: 1, after: first.data.last_id ?? "" } });
    const ids = [first.data.data[0]?.run_id, second.data.data[0]?.run_id];
    return { pages: ids.filter((id) => id !== undefined).length, same: ids[0] === ids[1] };
  },
  not_found: (stage) => refused(createAgentClient(here(stage)).getRun({ path: { run_id: "run_unknown" } })),
  unauthorized: (stage) =>
    refused(createAgentClient({ ...here(stage), apiKey: "wrong-key-0123456789" }).listRuns()),
  forbidden: (stage) =>
    refused(
      createAgentClient({ ...here(stage), apiKey: stage.readKey }).createRun({ body: { input: "hi" } }),
    ),
  async rate_limited(stage) {
    const client = createAgentClient({ ...here(stage), apiKey: stage.limitedKey });
    const calls = Array.from({ length: 4 }, () => client.listRuns());
    const results = await Promise.allSettled(calls);
    const rejected = results.find((result) => result.status === "rejected");
    assert.ok(rejected);
    const error = await failure(Promise.reject(rejected.reason as Error));
    const waits = (error.retryAfterSeconds ?? 0) > 0;
    return { ...(await refused(Promise.reject(error))), waits };
  },
  async invalid_request(stage) {
    const call = createAgentClient(here(stage)).listRuns({ query: { limit: 0 } });
    const error = await failure(call);
    return { ...(await refused(Promise.reject(error))), param: error.param };
  },
  async unreachable() {
    const call = createAgentClient({ baseUrl: "http://127.0.0.1:1" }).getHealth();
    const error = await call.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    return { kind: error instanceof AgentConnectionError ? "connection" : String(error) };
  },
  gateway_error: (stage) =>
    withGateway(stage, async (gateway) => {
      const { pong } = await gateway.call("ping");
      const error = await gateway.call("session.usage", { session_id: "none" }).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof GatewayError);
      return { pong, code: error.code, reason: error.reason, retryable: error.retryable };
    }),
  gateway_prompt: (stage) => withGateway(stage, wholeTurn),
  gateway_cut: (stage) => withGateway({ ...stage, url: stage.gatewayCutUrl }, wholeTurn),
  async gateway_approval(stage) {
    let asked = "";
    const questions: GatewayOptions["questions"] = {
      approval: ({ command }) => {
        asked = command;
        return { choice: "once" };
      },
    };
    const run = async (gateway: GatewayClient) => ({ text: (await turn(gateway, "ask me")).text, asked });
    return withGateway(stage, run, { questions });
  },
  gateway_clarify: (stage) =>
    withGateway(stage, async (gateway) => {
      let question = "";
      const { text } = await turn(gateway, "clarify", async (event, session_id) => {
        if (event.type !== "clarify.request") return;
        const { request_id } = event.payload;
        ({ question } = event.payload);
        await gateway.call("clarify.respond", { request_id, answer: "this", session_id });
      });
      return { text, question };
    }),
  gateway_declined: (stage) =>
    withGateway(
      stage,
      async (gateway) => ({ ran: (await turn(gateway, "ask me")).text.includes("it ran") }),
      { questions: {} },
    ),
  gateway_interrupt: (stage) =>
    withGateway(stage, async (gateway) => {
      let interrupted = "";
      const { status } = await turn(gateway, "hold", async (event, session_id) => {
        if (event.type !== "message.delta" || interrupted !== "") return;
        interrupted = (await gateway.call("session.interrupt", { session_id })).status;
      });
      return { interrupted, status };
    }),
  async gateway_wrong_key({ url }) {
    const transport = webSocketTransport({ url, token: "wrong-key-0123456789" });
    const error = await connectGateway({ transport }).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    return { refused: error instanceof TransportError };
  },
  async gateway_stdio({ command: [command = "", ...args], env }) {
    const transport = spawnTransport({ command, args, env });
    return withGateway(
      { url: "", key: "" },
      async (gateway) => {
        const { text, deltas, status } = await turn(gateway, "hello there");
        return { protocol: gateway.ready.protocol.name, whole: text !== "" && text === deltas, status };
      },
      { transport },
    );
  },
};
