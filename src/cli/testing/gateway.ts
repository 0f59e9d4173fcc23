/** Scenarios of the TUI gateway over a WebSocket or a child process; results and events are checked against the OpenRPC document. */
import document from "../../../generated/specs/gateway.openrpc.json" with { type: "json" };
import {
  spawnTransport,
  type GatewayTransport,
  type TransportLink,
  webSocketTransport,
} from "../../client/gateway.ts";
import { formatIssue, type JsonSchema, SchemaSet, type SchemaMap } from "../../base/schema.ts";
import { type Json, PROMPT } from "./http-target.ts";
import { Deviation, must, mustEqual, type Scenario } from "./scenario.ts";

const schemas = new SchemaSet(document.components.schemas as unknown as SchemaMap);
const results = new Map(
  document.methods.map(({ name, result }) => [name, result.schema as unknown as JsonSchema]),
);

const FRAME_MS = 60_000;
const MAX_FRAMES = 100_000;

/** The gateway under test: `open` connects once more. */
export class GatewayTarget {
  readonly #transport: GatewayTransport;

  /** `at` is the URL of a gateway, or the command that starts one. */
  constructor(at: string, key: string | undefined) {
    const isUrl = /^(?:https?|wss?):\/\//.test(at);
    const [command = "", ...args] = at.split(/\s+/);
    this.#transport = isUrl
      ? webSocketTransport({ url: at, ...(key === undefined ? {} : { token: key }) })
      : spawnTransport({ command, args });
  }

  async open(): Promise<Host> {
    const host = new Host();
    host.link = await this.#transport.open(
      { frame: (text) => host.receive(text), cut: (error) => host.cut(error) },
      AbortSignal.timeout(FRAME_MS),
    );
    return host;
  }
}

/** One connection, with every frame that it received. */
class Host {
  link: TransportLink | undefined;
  readonly frames: Json[] = [];
  #problem: Error | undefined;
  #wake = Promise.withResolvers<void>();
  #lastId = 0;

  receive(text: string): void {
    try {
      const frame = JSON.parse(text) as Json;
      if (frame.method === "event") fits("GatewayEvent", frame.params, `the event ${frame.params?.type}`);
      if (this.frames.length < MAX_FRAMES) this.frames.push(frame);
    } catch (error) {
      this.#problem ??= error as Error;
    }
    this.#news();
  }

  cut(error: Error): void {
    this.#problem ??= error;
    this.#news();
  }

  send(text: string): void {
    this.link?.send(text);
  }

  /** Calls a method and returns its result, checked. Deviation when the call fails. */
  async call(method: string, params: unknown = {}): Promise<Json> {
    const { result, error } = await this.answer(method, params);
    must(error === undefined, `${method} fails: ${error?.code} ${error?.message}`);
    const schema = results.get(method);
    const [issue] = schema === undefined ? [] : (schemas.check(schema, result) ?? []);
    if (issue)
      throw new Deviation(`the result of ${method} does not fit its schema: ${formatIssue(issue, "it")}`);
    return result;
  }

  /** Calls a method and returns the whole answer. */
  async answer(method: string, params: unknown = {}): Promise<Json> {
    const id = `conformance-${(this.#lastId += 1)}`;
    this.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return this.frame((frame) => frame.id === id && frame.method === undefined);
  }

  /** Resolves to the first frame from `from` on that fits. Deviation when the connection ends before. */
  async frame(isWanted: (frame: Json) => boolean, from = 0): Promise<Json> {
    for (let at = from; ;) {
      for (; at < this.frames.length; at += 1) if (isWanted(this.frames[at])) return this.frames[at];
      if (this.#problem) throw this.#problem;
      await this.#wake.promise;
    }
  }

  /** The events of a session so far. */
  events(sessionId: string): readonly Json[] {
    return this.frames
      .filter(({ method, params }) => method === "event" && params.session_id === sessionId)
      .map(({ params }) => params);
  }

  /** Sends the prompt to a new session and waits until the turn has ended. */
  async turn(): Promise<{ readonly sessionId: string; readonly complete: Json }> {
    const { session_id: sessionId } = await this.call("session.create");
    await this.call("prompt.submit", { session_id: sessionId, text: PROMPT });
    const { params: complete } = await this.frame(
      ({ method, params }) =>
        method === "event" && params.session_id === sessionId && params.type === "message.complete",
    );
    return { sessionId, complete };
  }

  close(): void {
    this.link?.close();
  }

  #news(): void {
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }
}

function fits(name: string, value: unknown, what: string): void {
  const [issue] = schemas.checkNamed(name, value) ?? [];
  if (issue) throw new Deviation(`${what} does not fit its schema: ${formatIssue(issue, "it")}`);
}

/** Runs a scenario on a connection of its own. */
const connected = (
  title: string,
  run: (host: Host, target: GatewayTarget) => Promise<void>,
): Scenario<GatewayTarget> => ({
  title,
  run: async (target, signal) => {
    const host = await target.open();
    signal.addEventListener("abort", () => host.close());
    try {
      await run(host, target);
    } finally {
      host.close();
    }
  },
});

/** Sends text and expects an error with this code and id, and that the connection stays open. */
async function refused(host: Host, text: string, code: number, id: string | null): Promise<void> {
  const from = host.frames.length;
  host.send(text);
  const { error } = await host.frame((frame) => frame.error !== undefined && frame.id === id, from);
  mustEqual(error.code, code, `the error code of ${text.slice(0, 60)}`);
  must(typeof error.message === "string" && error.message !== "", "the error has no message");
  await host.call("ping");
}

const protocol: readonly Scenario<GatewayTarget>[] = [
  connected("the first frame is gateway.ready", async (host) => {
    const first = await host.frame(() => true);
    mustEqual(first.method, "event", "the method of the first frame");
    mustEqual(first.params.type, "gateway.ready", "the type of the first event");
  }),
  connected("an unknown method is -32601", (host) =>
    refused(host, '{"jsonrpc":"2.0","id":"a","method":"no.such.method"}', -32601, "a"),
  ),
  connected("a malformed frame is -32700, and the connection stays open", (host) =>
    refused(host, '{"jsonrpc":"2.0","id":"a","method":', -32700, null),
  ),
  connected("a frame that is not a request is -32600", (host) =>
    refused(host, '{"jsonrpc":"2.0","method":1}', -32600, null),
  ),
  connected("wrong parameters are -32602", (host) =>
    refused(
      host,
      '{"jsonrpc":"2.0","id":"a","method":"prompt.submit","params":{"text":"hello"}}',
      -32602,
      "a",
    ),
  ),
  connected("a notification gets no answer", async (host) => {
    await host.frame(() => true);
    host.send('{"jsonrpc":"2.0","method":"ping"}');
    host.send('{"jsonrpc":"2.0","method":"no.such.method"}');
    await host.call("ping");
    const answers = host.frames.filter(({ method }) => method === undefined);
    mustEqual(answers.length, 1, "the number of answers");
  }),
  connected("numeric and text ids are returned unchanged", async (host) => {
    for (const id of [0, 7, "seven"]) {
      const from = host.frames.length;
      host.send(JSON.stringify({ jsonrpc: "2.0", id, method: "ping" }));
      await host.frame((frame) => frame.id === id && frame.result !== undefined, from);
    }
  }),
  connected("forty calls at once are each answered once", async (host) => {
    await Promise.all(Array.from({ length: 40 }, () => host.call("ping")));
    const ids = host.frames.filter(({ method }) => method === undefined).map(({ id }) => id);
    mustEqual(new Set(ids).size, ids.length, "the number of different ids");
  }),
  connected("the description of the gateway names the methods that it answers", async (host) => {
    const { methods } = await host.call("rpc.discover");
    const names = new Set(methods.map(({ name }: Json) => name));
    mustEqual(
      [...results.keys()].filter((name) => !names.has(name)),
      [],
      "methods that are missing",
    );
  }),
];

const sessions: readonly Scenario<GatewayTarget>[] = [
  connected(
    "a turn begins with message.start, and its deltas are the text of message.complete",
    async (host) => {
      const { sessionId, complete } = await host.turn();
      const types = host.events(sessionId).map(({ type }) => type);
      must(types.includes("message.start"), "there is no message.start");
      must(
        types.indexOf("message.start") < types.indexOf("message.delta"),
        "a delta came before message.start",
      );
      const deltas = host.events(sessionId).filter(({ type }) => type === "message.delta");
      mustEqual(
        deltas.map(({ payload }) => payload.text).join(""),
        complete.payload.text,
        "the text of the deltas",
      );
    },
  ),
  connected("the events of a session are numbered without gaps", async (host) => {
    const { sessionId } = await host.turn();
    const numbers = host.events(sessionId).flatMap(({ seq }) => seq ?? []);
    must(numbers.length > 0, "no event has a number");
    mustEqual(
      numbers,
      numbers.map((_, index) => numbers[0] + index),
      "the numbers",
    );
  }),
  connected("the history of a session has the prompt and the answer", async (host) => {
    const { sessionId, complete } = await host.turn();
    const { messages } = await host.call("session.history", { session_id: sessionId });
    const text = JSON.stringify(messages);
    must(text.includes(PROMPT), "the history does not have the prompt");
    must(
      text.includes(JSON.stringify(complete.payload.text).slice(1, -1)),
      "the history does not have the answer",
    );
  }),
  connected("another connection that resumes the session gets its messages", async (host, target) => {
    const { sessionId } = await host.turn();
    const other = await target.open();
    try {
      const resumed = await other.call("session.resume", { session_id: sessionId });
      must(JSON.stringify(resumed).includes(PROMPT), "the resumed session does not have the prompt");
    } finally {
      other.close();
    }
  }),
  connected("the events after a number are those that were sent", async (host) => {
    const { sessionId } = await host.turn();
    const numbered = host.events(sessionId).filter(({ seq }) => seq !== undefined);
    const { seq, epoch } = numbered[Math.floor(numbered.length / 2)];
    const params = { session_id: sessionId, last_seen: seq, ...(epoch === undefined ? {} : { epoch }) };
    const { events } = await host.call("session.events.since", params);
    const sent = new Map(numbered.map((event) => [event.seq, event.type]));
    const again = events.filter((event: Json) => sent.has(event.seq));
    must(again.length > 0, "no event came again");
    for (const event of again) {
      must(event.seq > seq, `event ${event.seq} is not after ${seq}`);
      mustEqual(event.type, sent.get(event.seq), `the type of event ${event.seq}`);
    }
  }),
  connected("a session that does not exist is an error", async (host) => {
    const { error } = await host.answer("session.history", { session_id: "no-such-session" });
    must(typeof error?.code === "number", "the call succeeds");
    await host.call("ping");
  }),
  connected("a session is listed, and no longer exists once it is deleted", async (host) => {
    const { sessionId } = await host.turn();
    const listed = async () => JSON.stringify(await host.call("session.list", { limit: 1000 }));
    must((await listed()).includes(sessionId), "the session is not listed");
    await host.answer("session.close", { session_id: sessionId });
    await host.call("session.delete", { session_id: sessionId });
    must(!(await listed()).includes(sessionId), "the session is still listed");
  }),
  connected("prompts of one session are answered in their order", async (host) => {
    const { session_id: sessionId } = await host.call("session.create");
    for (const word of ["one", "two", "three"]) {
      await host.call("prompt.submit", { session_id: sessionId, text: `Answer with the word ${word}.` });
    }
    let from = 0;
    for (let turn = 0; turn < 3; turn += 1) {
      const end = await host.frame(
        ({ method, params }) =>
          method === "event" && params.session_id === sessionId && params.type === "message.complete",
        from,
      );
      from = host.frames.indexOf(end) + 1;
    }
    const { messages } = await host.call("session.history", { session_id: sessionId });
    const order = [...JSON.stringify(messages).matchAll(/with the word (\w+)\./g)].map(([, word]) => word);
    mustEqual([...new Set(order)], ["one", "two", "three"], "the order of the prompts");
  }),
];

export const gatewayScenarios: readonly Scenario<GatewayTarget>[] = [...protocol, ...sessions];
