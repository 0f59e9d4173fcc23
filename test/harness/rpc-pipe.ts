/** A host on the pipes of `serveStdio`, in the process of the test: every byte goes the way of `agentd rpc`. */
import { PassThrough } from "node:stream";
import type { FrameOutput } from "../../src/base/system/frame-output.ts";
import type { RpcHub } from "../../src/rpc/events/hub.ts";
import type { RpcIdentity } from "../../src/rpc/deps.ts";
import { serveStdio } from "../../src/rpc/connection/stdio.ts";
import { RpcHost } from "./rpc.ts";

/** Resolves when the first frame, `gateway.ready`, is there. The end of the input ends the connection. */
export async function connectPipes(hub: RpcHub, identity: RpcIdentity): Promise<RpcHost> {
  const host = new RpcHost();
  const [input, stdout] = [new PassThrough(), new PassThrough()];
  const gone = new AbortController();
  readLines(stdout, (line) => host.take(line));
  const served = serveStdio({
    hub,
    identity,
    input,
    output: outputOn(stdout, gone.signal),
    signal: gone.signal,
  });
  const closed = served.then(() => {
    gone.abort();
    host.ended(0);
    return 0;
  });
  host.wire = {
    send: (text) => {
      input.write(text);
      input.write("\n");
    },
    close: () => void input.end(),
    closed,
  };
  await host.event("gateway.ready");
  return host;
}

function readLines(stdout: PassThrough, take: (line: string) => void): void {
  let rest = "";
  stdout.setEncoding("utf8");
  stdout.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(take);
  });
}

function outputOn(stdout: PassThrough, gone: AbortSignal): FrameOutput {
  return {
    write: (text) => void stdout.write(text),
    buffered: () => stdout.writableLength,
    onDrain: (run) => void stdout.on("drain", run),
    // The process of a real host ends here; this one goes on, so the connection is let go.
    onBroken: (run) => gone.addEventListener("abort", run),
    flushed: async () => {},
  };
}
