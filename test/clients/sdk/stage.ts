/** The server, proxies and programs that the scenarios of one language run against. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { ANSWER } from "./scenarios.ts";

const READ_KEY = "read-key-0123456789abcdef";
const LIMITED_KEY = "limited-key-0123456789abc";

export interface SdkStage {
  readonly url: string;
  readonly key: string;
  readonly readKey: string;
  /** Allows two calls a minute. */
  readonly limitedKey: string;
  /** Every connection is cut after some bytes, which let at least one event of a run pass. */
  readonly cutUrl: string;
  /** The same for events of responses, which are larger. */
  readonly wideCutUrl: string;
  /** The first connections of a gateway client are cut. */
  readonly gatewayCutUrl: string;
  /** Starts a gateway on its standard input and output, with `env` as its whole environment. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Distinguishes the idempotency keys of runners that share a service. */
  readonly tag: string;
}

export interface OpenStage extends AsyncDisposable {
  readonly stage: SdkStage;
  /** Cuts so far, by address. */
  cuts(): Readonly<Record<string, number>>;
}

/** The prompt says what the model does. */
const script: Script = ({ user, signal, step, toolResults }) => {
  if (user === "hold") return { text: holdUntil(signal) };
  const commands: Readonly<Record<string, string>> = { "ask me": "rm -rf it", clarify: "clarify" };
  const command = commands[user];
  if (command === undefined) return { text: ANSWER, chunkSize: 24, delayMs: 8 };
  if (step === 0) return { calls: [{ tool: "terminal", input: { command } }] };
  return { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join() };
};

async function* holdUntil(signal: AbortSignal): AsyncGenerator<string> {
  yield "held";
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

const tool = testTool(async ({ command }, { questions }) => {
  if (command !== "clarify") return "it ran";
  const question = { id: "q1", question: "Which?", choices: ["this", "that"], multi_select: false };
  return (await questions.clarify([question]))["q1"] || "nothing";
});

export async function openStage(tag: string): Promise<OpenStage> {
  const stack = new AsyncDisposableStack();
  try {
    const service = stack.use(
      await startTestService({
        script,
        tools: [tool],
        keys: [
          { key: KEY, name: "all", scopes: ["admin"] },
          { key: READ_KEY, name: "reader", scopes: ["read"] },
          { key: LIMITED_KEY, name: "limited", scopes: ["read"], rateLimitRpm: 2 },
        ],
      }),
    );
    const cut = stack.use(await startCuttingProxy(service.url, 1303));
    const wide = stack.use(await startCuttingProxy(service.url, 3001));
    const gateway = stack.use(await startCuttingProxy(service.url, [4_500, 3_500, 4_000]));
    const home = await mkdtemp(join(tmpdir(), "agentd-sdk-"));
    stack.defer(() => rm(home, { recursive: true, force: true }));
    const stage: SdkStage = {
      url: service.url,
      key: KEY,
      readKey: READ_KEY,
      limitedKey: LIMITED_KEY,
      cutUrl: cut.url,
      wideCutUrl: wide.url,
      gatewayCutUrl: gateway.url,
      command: agentdCommand("rpc"),
      env: programEnvironment({ AGENTD_HOME: home }),
      tag,
    };
    return {
      stage,
      cuts: () => ({ run: cut.cuts, response: wide.cuts, gateway: gateway.cuts }),
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}
