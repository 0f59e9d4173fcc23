import { fork } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const FEED_SWITCH = ["--import", new URL("feed-switch.ts", import.meta.url).href];

/** What a child serves; see server.ts. */
export type ServerKind = "service" | "bare" | "receiver" | "receiver-with-switch" | "bare-receiver";

/** A server in a process of its own, so that what it costs is told apart from what its clients cost. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  /** Of the HTTP API, where `url` is that of a webhook receiver. */
  readonly apiUrl: string;
  readonly pid: number;
  /** CPU time of the process so far, in microseconds. */
  cpuMicros(): Promise<number>;
  /** How often its model was asked so far. */
  calls(): Promise<number>;
  /** What the process holds after a garbage collection. */
  memory(): Promise<Memory>;
  /** Whether a receiver with a switch writes the changes of the feed. At first it does. */
  writeFeed(isWritten: boolean): void;
  /** Lets go what waits for it: a run `held ...`, the fan-out of a bare server. */
  go(): void;
}

/** Bytes. `used` is heap and buffers, `resident` what the system counts. */
export interface Memory {
  readonly used: number;
  readonly resident: number;
}

/** What the child says. */
export type Reply =
  | { readonly url: string; readonly apiUrl: string }
  | { readonly cpuMicros: number }
  | { readonly calls: number }
  | { readonly memory: Memory };
export type Request =
  | { readonly answer: string; readonly home: string | undefined }
  /** For feed-switch.ts. */
  | { readonly feed: boolean }
  | { readonly ask: "cpu" | "calls" | "memory" | "go" | "stop" };

/**
 * Starts a server of a kind; `answer` is the body a bare one gives, or JSON with the settings of a receiver or further ones of a service, `home` the folder of a service that is there
 * already, with its database. AGENTD_BENCH_PROF names a folder for the CPU
 * profiles of the servers.
 */
export async function startServer(kind: ServerKind, answer = "", home?: string): Promise<Server> {
  const folder = process.env["AGENTD_BENCH_PROF"];
  const profiling =
    folder === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${kind}-${Date.now()}.cpuprofile`];
  const child = fork(fileURLToPath(new URL("server.ts", import.meta.url)), [kind], {
    execArgv: ["--expose-gc", ...(kind === "receiver-with-switch" ? FEED_SWITCH : []), ...profiling],
  });
  const exited = once(child, "exit");
  const send = (request: Request) => child.send(request);
  const reply = async (): Promise<Reply> => {
    const gone = exited.then(([code]) =>
      Promise.reject(new Error(`the ${kind} server ended with ${String(code)}`)),
    );
    const [message] = await Promise.race([once(child, "message"), gone]);
    return message as Reply;
  };
  send({ answer, home });
  const ready = await reply();
  if (!("url" in ready)) throw new Error("the server did not tell its address");
  return {
    url: ready.url,
    apiUrl: ready.apiUrl,
    pid: child.pid ?? 0,
    cpuMicros: async () => {
      const answered = reply();
      send({ ask: "cpu" });
      const usage = await answered;
      if (!("cpuMicros" in usage)) throw new Error("the server did not tell its CPU time");
      return usage.cpuMicros;
    },
    calls: async () => {
      const answered = reply();
      send({ ask: "calls" });
      const told = await answered;
      if (!("calls" in told)) throw new Error("the server did not tell the calls of its model");
      return told.calls;
    },
    memory: async () => {
      const answered = reply();
      send({ ask: "memory" });
      const told = await answered;
      if (!("memory" in told)) throw new Error("the server did not tell its memory");
      return told.memory;
    },
    writeFeed: (isWritten) => void send({ feed: isWritten }),
    go: () => void send({ ask: "go" }),
    [Symbol.asyncDispose]: async () => {
      send({ ask: "stop" });
      await exited;
    },
  };
}

const PATIENCE_MS = 60_000;
const LOOK_MS = 100;

/** Resolves when the model was asked `count` times. Throws when it is not in time, or was asked more often. */
export async function untilCalled(server: Server, count: number): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS;
  let calls = await server.calls();
  while (calls < count && performance.now() < endMs) {
    await sleep(LOOK_MS);
    calls = await server.calls();
  }
  if (calls !== count) throw new Error(`the model was asked ${calls} times for ${count} runs`);
}
