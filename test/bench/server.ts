/** The servers that the benches put under load, each in a process of its own: started by child.ts, with the kind. */
import { once } from "node:events";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { H3 } from "h3";
import { FastResponse } from "srvx";
import { createScriptedEngine, type ScriptState, type ScriptStep } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog } from "../../src/agent/model.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { createKeyRing } from "../../src/config/keys.ts";
import { listen } from "../../src/gateway/listen.ts";
import { Variables } from "../../src/config/variables.ts";
import { boundHeap } from "../../src/cli/kit/runtime.ts";
import { startService } from "../../src/app/service.ts";
import { KEY, testConfig } from "../harness/service.ts";
import type { Memory, Reply, Request } from "./child.ts";
import { mountFanOut } from "./fan-out.ts";
import { modelCalls } from "./model-calls.ts";
import { echoSockets } from "./socket-echo.ts";
import { runBareReceiver, runReceiver } from "./webhook-server.ts";

interface Running {
  readonly url: string;
  readonly apiUrl?: string;
  stop(): Promise<void>;
}

/** Told to go; see {@link Request}. */
let released = Promise.withResolvers<void>();

const kinds: Readonly<Record<string, (answer: string, home: string | undefined) => Promise<Running>>> = {
  service: runService,
  bare: runBare,
  receiver: runReceiver,
  "receiver-with-switch": runReceiver,
  "bare-receiver": runBareReceiver,
};

/** By the first word of the prompt; the numbers are the words after it. */
const sayings: Readonly<Record<string, (first: number, second: number) => Promise<ScriptStep>>> = {
  /** `deltas COUNT PACE_MS` */
  deltas: async (count, paceMs) => ({ text: deltas(count, paceMs) }),
  /** `stamp THINKING_MS STALL_MS`: the model stalls between the start of its message and the first delta. */
  stamp: async (thinkingMs, stallMs) => {
    await sleep(thinkingMs);
    return { text: stamp(stallMs) };
  },
};

const start = kinds[process.argv[2] ?? ""];
if (!start || !process.send) throw new Error("child.ts starts this file, with the kind of server");
const [first] = (await once(process, "message")) as [Request];
const running = await ("answer" in first ? start(first.answer, first.home) : start("", undefined));
process.on("message", (request: Request) => {
  if (!("ask" in request)) return;
  if (request.ask === "cpu") {
    const { user, system } = process.cpuUsage();
    tell({ cpuMicros: user + system });
  } else if (request.ask === "calls") {
    tell({ calls: modelCalls.count });
  } else if (request.ask === "memory") {
    void memory().then((held) => tell({ memory: held }));
  } else if (request.ask === "go") {
    released.resolve();
    released = Promise.withResolvers<void>();
  } else void running.stop().then(() => process.disconnect());
});
// Also when the bench dies.
process.once("disconnect", () => process.exit());
tell({ url: running.url, apiUrl: running.apiUrl ?? running.url });

function tell(reply: Reply): void {
  process.send?.(reply);
}

/** Finalizers run between collections, so one is not enough. */
async function memory(): Promise<Memory> {
  for (let i = 0; i < 4; i++) {
    globalThis.gc?.();
    await sleep(100);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  return { used: heapUsed + external, resident: rss };
}

/** Settings of the configuration, and the database, which is a file in the home if none is named. */
type ServiceSettings = Readonly<Record<string, unknown>> & { readonly database_url?: string };

/** The service as the gateway starts it, with keys, and a model that is a script. */
async function runService(settings: string, given: string | undefined): Promise<Running> {
  const home = given ?? (await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-"))));
  const { database_url: databaseUrl = join(home, "state.db"), ...more } = JSON.parse(
    settings || "{}",
  ) as ServiceSettings;
  const config = testConfig({
    api_server: { key: KEY },
    agent: { max_steps: 500 },
    limits: { max_subscribers_per_run: 100_000 },
    ...more,
  });
  const service = await startService({
    config,
    paths: { agentHome: home, userHome: home, workspace: home, databaseUrl },
    keys: createKeyRing(config, { env: {} }),
    models: createModelCatalog({ providers: [] }),
    engine: createScriptedEngine(script, { clock: systemClock }),
    env: {},
    variables: await Variables.open({ env: {}, home }),
    version: "0.0.0-bench",
    log: createLog("warn"),
    validateResponses: false,
  });
  // As the program does.
  boundHeap();
  const stop = async () => {
    await service.stop({ graceMs: 0 });
    if (given === undefined) await rm(home, { recursive: true, force: true });
  };
  return { url: service.url, stop };
}

/**
 * The least a server can do for the same exchange: read and parse the body, then answer what it was told to, or stream
 * a frame for each delta.
 */
async function runBare(answer: string): Promise<Running> {
  const app = new H3({ silent: true });
  app.post("/v1/chat/completions", async (event) => {
    const body = (await event.req.json()) as ChatBody;
    if (body.stream !== true) {
      return new FastResponse(answer, { headers: { "content-type": "application/json" } });
    }
    const [, count, paceMs] = (body.messages.at(-1)?.content ?? "").split(" ");
    const stream = toStream(frames(deltas(Number(count), Number(paceMs))));
    return new FastResponse(stream, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
  });
  app.post("/v1/runs", async (event) => {
    await event.req.json();
    return new FastResponse(answer, { status: 202, headers: { "content-type": "application/json" } });
  });
  mountFanOut(app, () => released.promise, answer);
  const sockets = echoSockets(answer);
  const options = { host: "127.0.0.1", port: 0, maxBodyBytes: 16_777_216, clock: systemClock, sockets };
  const listener = await listen(app, options);
  return { url: listener.url, stop: () => listener.close(0) };
}

function toStream(source: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void source.return(undefined),
  });
}

interface ChatBody {
  readonly stream?: boolean;
  readonly messages: readonly { readonly content: string }[];
}

async function* frames(source: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  const head = {
    id: "chatcmpl_01m7y95wbzjtw2rjd8cq22wyed",
    object: "chat.completion.chunk",
    created: 1_795_238_850,
    model: "agentd",
  };
  for await (const content of source) {
    const choice = { index: 0, delta: { content }, finish_reason: null, logprobs: null };
    yield encoder.encode(`data: ${JSON.stringify({ ...head, choices: [choice] })}\n\n`);
  }
  yield encoder.encode("data: [DONE]\n\n");
}

/** What the model says is asked for by the prompt; see {@link sayings}. */
async function script({ user, step }: ScriptState): Promise<ScriptStep> {
  modelCalls.count += 1;
  const [what = "", first, second] = user.split(" ");
  if (what === "held") return held(step, Number(first));
  // Of a compressed conversation the model sees a summary, which has to repeat what was asked.
  const [asked, steps] = /\blong (\d+)/.exec(user) ?? [];
  if (asked !== undefined) return what === "Summarise" ? { text: asked } : long(step, Number(steps));
  const say = Object.hasOwn(sayings, what) ? sayings[what] : undefined;
  if (say) return say(Number(first), Number(second));
  return { text: "Hello! I am well, thanks." };
}

/** `held STEPS`: waits until it is told to go, then makes so many steps as fast as it can. */
async function held(step: number, steps: number): Promise<ScriptStep> {
  if (step === 0) await released.promise;
  const text = `This is step ${step}, and nothing was found here.`;
  return step < steps ? { text, calls: [{ tool: "look", input: { at: step } }] } : { text: "Done." };
}

/** `long STEPS`: a megabyte a step, in pieces of 10 kB. */
function long(step: number, steps: number): ScriptStep {
  const calls = step + 1 < steps ? { calls: [{ tool: "look", input: { at: step } }] } : {};
  return { text: longText(step), ...calls };
}

/** As from a network: pieces that share no memory, and other work between them. */
async function* longText(step: number): AsyncGenerator<string> {
  for (let at = 0; at < 100; at += 1) {
    if (at % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    yield `${step} ${at} `.padEnd(10_000, "A long answer. ");
  }
}

async function* deltas(count: number, paceMs: number): AsyncGenerator<string> {
  for (let i = 0; i < count; i++) {
    await sleep(paceMs);
    yield `word ${i} `;
  }
}

/**
 * The time at which the engine has it, after `stallMs`. The message then goes on for a while, as messages do: its end
 * would hurry the delta along.
 */
async function* stamp(stallMs: number): AsyncGenerator<string> {
  if (stallMs > 0) await sleep(stallMs);
  yield String(performance.timeOrigin + performance.now());
  await sleep(40);
}
