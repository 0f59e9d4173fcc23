/** A gateway as a child process of this one, in Node and Deno. Touches the machine. */
import { readFrames, writerOf } from "./gateway-stdio.ts";
import { TransportError, type GatewayTransport } from "./gateway-transport.ts";

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
      const machine = globalThis.process?.getBuiltinModule?.("node:child_process");
      if (!machine)
        throw new TransportError("Processes are started in Node and Deno only.", { isFinal: true });
      const child = machine.spawn(command, [...args], { cwd, env, stdio: "pipe" });
      const ended = Promise.withResolvers<TransportError>();
      let last = "";
      child.once("error", (cause) => {
        ended.resolve(new TransportError(`${command} cannot be started.`, { isFinal: true, cause }));
      });
      child.once("close", (code, signal) => {
        const how = signal === null ? `with ${code}` : `by ${signal}`;
        ended.resolve(new TransportError(`${command} ended ${how}${last && `: ${last}`}`));
      });
      // That it reads no more shows in that it ended.
      child.stdin.on("error", () => {});
      void readFrames(child.stderr, {
        frame: (line) => {
          last = line.slice(0, 500);
          onStderr?.(line);
        },
      });
      void readFrames(child.stdout, sink).then(async () => sink.cut(await ended.promise));
      const link = writerOf(child.stdin);
      return {
        send: link.send,
        close: () => {
          link.close();
          const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
          child.once("close", () => clearTimeout(timer));
        },
      };
    },
  };
}
