import { fork } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** What a child serves; see server.ts. */
export type ServerKind = "service" | "bare";

/** A server in a process of its own, so that what it costs is told apart from what its clients cost. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  /** CPU time of the process so far, in microseconds. */
  cpuMicros(): Promise<number>;
}

/** What the child says. */
export type Reply = { readonly url: string } | { readonly cpuMicros: number };
export type Request = { readonly answer: string } | { readonly ask: "cpu" | "stop" };

/**
 * Starts a server of a kind; `answer` is the body a bare one gives. AGENTD_BENCH_PROF names a folder for the CPU
 * profiles of the servers.
 */
export async function startServer(kind: ServerKind, answer = ""): Promise<Server> {
  const folder = process.env["AGENTD_BENCH_PROF"];
  const profiling =
    folder === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${kind}-${Date.now()}.cpuprofile`];
  const child = fork(fileURLToPath(new URL("server.ts", import.meta.url)), [kind], { execArgv: profiling });
  const exited = once(child, "exit");
  const send = (request: Request) => child.send(request);
  const reply = async (): Promise<Reply> => {
    const gone = exited.then(([code]) =>
      Promise.reject(new Error(`the ${kind} server ended with ${String(code)}`)),
    );
    const [message] = await Promise.race([once(child, "message"), gone]);
    return message as Reply;
  };
  send({ answer });
  const ready = await reply();
  if (!("url" in ready)) throw new Error("the server did not tell its address");
  return {
    url: ready.url,
    cpuMicros: async () => {
      const answered = reply();
      send({ ask: "cpu" });
      const usage = await answered;
      return "cpuMicros" in usage ? usage.cpuMicros : Number.NaN;
    },
    [Symbol.asyncDispose]: async () => {
      send({ ask: "stop" });
      await exited;
    },
  };
}
