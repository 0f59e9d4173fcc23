import { waitAtMost, systemClock } from "../../base/time.ts";
/** `agentd rpc`: serves the program that started this one on standard input and output. */
import { dirname, resolve } from "node:path";
import process from "node:process";
import { defineCommand } from "citty";
import packageFile from "../../../package.json" with { type: "json" };
import { takeStdout, type FrameOutput } from "../../base/system/frame-output.ts";
import { gatewayLimits } from "../../rpc/connection/ready.ts";
import { failStdio, greetStdio, serveStdio } from "../../rpc/connection/stdio.ts";
import type { RpcService } from "../../app/service.ts";
import { currentContext } from "../kit/context.ts";

export const rpcCommand = defineCommand({
  meta: {
    name: "rpc",
    description:
      "Serve the program that starts this one over the TUI gateway protocol (JSON-RPC): one JSON value per line on standard input and output, until the input ends. Logs go to standard error. `agentd spec gateway` and `agentd spec host` print the protocol.",
  },
  args: {
    cwd: {
      type: "string",
      valueHint: "folder",
      description:
        "Folder in which sessions work unless the host names another. Default: the current folder, or agent.workspace if that is the root of the file system.",
    },
  },
  async run({ args }) {
    // Before anything else loads: only protocol messages may reach the host, whatever code prints.
    const output = takeStdout();
    const stop = stopOnSignal();
    process.on("unhandledRejection", (error) => process.stderr.write(`${describe(error)}\n`));
    const { greeted, service } = await start(output);
    stop.workBegins();
    await serveStdio({
      hub: service.hub,
      identity: { owner: OWNER, scopes: ["admin"] },
      input: process.stdin,
      output,
      ...folderOf(args.cwd),
      greeted,
      signal: stop.signal,
    });
    await service.stop({ graceMs: GRACE_MS });
    await waitAtMost(systemClock, GRACE_MS, output.flushed());
    process.exit(0);
  },
});

/** The root of the file system is not a folder to work in: programs without one, such as desktop hosts, start there. */
function folderOf(given: string | undefined): { readonly cwd?: string } {
  const folder = resolve(given ?? process.cwd());
  return given === undefined && dirname(folder) === folder ? {} : { cwd: folder };
}

const SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
/** A user who can start programs here has the rights of the main API key. */
const OWNER = "default";
/** How long active runs may take to stop after the host disconnects, and then a host to read. */
const GRACE_MS = 500;

/**
 * Greets the host as soon as the configuration is valid and the store is open. The service, which loads slower, starts
 * afterwards; input of the host waits in the pipe.
 */
async function start(output: FrameOutput): Promise<{ greeted: string; service: RpcService }> {
  const { openHome, openHomeStore } = await import("../../app/home.ts");
  const home = await openHome(currentContext());
  const store = await openHomeStore(home);
  const limits = gatewayLimits(home.config.sessions.max_queue);
  const shellExec = home.config.gateway.shell_exec !== "off";
  const greeted = greetStdio(output, { version: packageFile.version, epoch: store.epoch, limits, shellExec });
  try {
    const { startRpcFromHome } = await import("../../app/start.ts");
    return { greeted, service: await startRpcFromHome(home, store) };
  } catch (error) {
    await failStdio(output, error);
    throw error;
  }
}

/**
 * Returns a signal that aborts on SIGTERM, SIGHUP and SIGINT. Before work begins, they end the process at once. The
 * listeners stay: without them, a library with its own cleanup (signal-exit) would end the process.
 */
function stopOnSignal(): { readonly signal: AbortSignal; workBegins(): void } {
  const stop = new AbortController();
  let isWorking = false;
  for (const name of SIGNALS) process.on(name, () => (isWorking ? stop.abort() : process.exit(0)));
  return { signal: stop.signal, workBegins: () => void (isWorking = true) };
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
