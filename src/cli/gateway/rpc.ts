/** `agentd rpc`: the gateway for the program that started this one, on standard input and output. */
import process from "node:process";
import { defineCommand } from "citty";
import packageFile from "../../../package.json" with { type: "json" };
import { systemClock } from "../../base/clock.ts";
import { takeStdout, type FrameOutput } from "../../base/system/frame-output.ts";
import { gatewayLimits } from "../../rpc/connection/limits.ts";
import { failStdio, greetStdio, serveStdio } from "../../rpc/connection/stdio.ts";
import type { RpcService } from "../../app/service.ts";
import { keepCompiledCode } from "../kit/runtime.ts";
import { currentContext } from "../kit/context.ts";

export const rpcCommand = defineCommand({
  meta: {
    name: "rpc",
    description:
      "Serve the TUI gateway (JSON-RPC) to the program that starts it: one JSON value a line on standard input and output, until the input ends. Logs go to standard error; `agentd spec gateway` and `agentd spec host` print what is spoken.",
  },
  async run() {
    // Before anything else is loaded: whatever prints, frames alone reach the host.
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
      greeted,
      signal: stop.signal,
    });
    await service.stop({ graceMs: GRACE_MS });
    await Promise.race([output.flushed(), systemClock.sleep(GRACE_MS)]);
    process.exit(0);
  },
});

const SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
/** Whoever may start a program here has what the main key of the API has. */
const OWNER = "default";
/** What turns get that are at work when the host leaves, and then what a host gets that does not read. */
const GRACE_MS = 500;

/**
 * The host is greeted as soon as the configuration is known to be valid and the journal is open; the rooms, which take
 * longer to load, are built behind it. What the host sends meanwhile waits in the pipe.
 */
async function start(output: FrameOutput): Promise<{ greeted: string; service: RpcService }> {
  const context = currentContext();
  keepCompiledCode(context.home);
  const { openHome, openHomeStore } = await import("../../app/home.ts");
  const opened = await openHome(context);
  const store = await openHomeStore(opened);
  const limits = gatewayLimits(opened.config.sessions.max_queue);
  const greeted = greetStdio(output, { version: packageFile.version, epoch: store.epoch, limits });
  try {
    const { startRpcFromHome } = await import("../../app/start.ts");
    return { greeted, service: await startRpcFromHome(opened, store) };
  } catch (error) {
    await failStdio(output, error);
    throw error;
  }
}

/**
 * Until work begins there is nothing to put away: a signal ends the process at once. The listeners stay: a library that
 * cleans up after itself (signal-exit) would end the process when it finds no other.
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
