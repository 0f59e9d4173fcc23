/** A gateway as a child process of this one, in Node and Deno. Touches the machine. */
import { readFrames, writerOf } from "./stdio.ts";
import { TransportError, type GatewayTransport } from "./transport.ts";

export interface SpawnTransportOptions {
  /** The program, such as `agentd`. */
  readonly command: string;
  /** Default: `["rpc"]`. */
  readonly args?: readonly string[];
  /** The whole environment of the process; default: that of this one. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Gets what the process writes to standard error, a line each. Without it the last line tells why the process ended. */
  readonly onStderr?: (line: string) => void;
}

/** How long the process has to end by itself, once nobody writes to it. */
const END_MS = 8_000;

/** Each connection is a process of its own: one that died is started again. */
export function spawnTransport(options: SpawnTransportOptions): GatewayTransport {
  const { command, args = ["rpc"], env, cwd, onStderr } = options;
  return {
    async open(sink) {
      // Not imported, so that bundlers for browsers have nothing to resolve.
      const machine = globalThis.process?.getBuiltinModule?.("child_process");
      if (!machine) throw new TransportError("No processes here.", { retryable: false });
      const child = machine.spawn(command, [...args], { cwd, env });
      const ended = Promise.withResolvers<TransportError>();
      const link = writerOf(child.stdin);
      let last = "";
      let timer: ReturnType<typeof setTimeout>;
      child.on("error", (cause) => {
        ended.resolve(new TransportError(`${command} cannot be started.`, { retryable: false, cause }));
      });
      child.on("close", (code, signal) => {
        clearTimeout(timer);
        ended.resolve(new TransportError(`${command} ended with ${signal ?? code}. ${last}`));
      });
      const frame = (line: string) => {
        last = line.slice(0, 500);
        onStderr?.(line);
      };
      void readFrames(child.stderr, { frame });
      void readFrames(child.stdout, sink).then(async (error) => {
        if (error) child.kill();
        sink.cut(await ended.promise);
      });
      return {
        ...link,
        close() {
          link.close();
          clearTimeout(timer);
          // One that has ended needs no time to do so.
          if (child.exitCode === null && child.signalCode === null)
            timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
        },
      };
    },
  };
}
