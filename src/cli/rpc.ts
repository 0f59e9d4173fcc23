/** `agentd rpc`: the gateway for the program that started this one, on standard input and output. */
import process from "node:process";
import { defineCommand } from "citty";
import { serveStdio, takeStdout } from "../rpc/stdio.ts";
import { currentContext } from "./context.ts";

export const rpcCommand = defineCommand({
  meta: { name: "rpc", description: "Serve the TUI gateway (JSON-RPC) on standard input and output" },
  async run() {
    // Before anything else is loaded: whatever prints, frames alone reach the host.
    const output = takeStdout();
    const stop = new AbortController();
    for (const name of SIGNALS) process.once(name, () => stop.abort());
    process.on("unhandledRejection", (error) => process.stderr.write(`${describe(error)}\n`));
    const { env, home } = currentContext();
    const { bootRpc } = await import("../boot.ts");
    const { service, log } = await bootRpc({ env, home });
    await serveStdio({
      hub: service.hub,
      identity: { owner: OWNER, scopes: ["admin"] },
      input: process.stdin,
      output,
      signal: stop.signal,
    });
    log.debug("the host is gone");
    await service.stop({ graceMs: GRACE_MS });
    await output.flushed();
    process.exit(0);
  },
});

const SIGNALS = ["SIGTERM", "SIGHUP", "SIGINT"] as const;
/** Whoever may start a program here has what the main key of the API has. */
const OWNER = "default";
/** What turns get that are at work when the host leaves. */
const GRACE_MS = 500;

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
