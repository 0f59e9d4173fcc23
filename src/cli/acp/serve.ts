/** The connection of `agentd acp`, from its first line to the end of the process. */
import process from "node:process";
import packageFile from "../../../package.json" with { type: "json" };
import { createAcpAgent } from "../../acp/agent.ts";
import { AcpConnection } from "../../acp/wire/connection.ts";
import { Wire } from "../../acp/wire/wire.ts";
import { systemClock } from "../../base/time.ts";
import { waitAtMost } from "../../base/time.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { reportError, type Shutdown } from "./process.ts";
import { ownLauncher } from "./bootstrap.ts";

/** How long to wait for a client that does not read. */
const FLUSH_TIMEOUT_MS = 500;

/** Serves until the client disconnects or a signal arrives, then exits the process. */
export async function serveAcp(output: FrameOutput, shutdown: Shutdown): Promise<never> {
  const wire = new Wire({ input: process.stdin, output, clock: systemClock, onEnd: () => end() });
  const connection: AcpConnection = new AcpConnection({
    version: packageFile.version,
    wire,
    load: async () => (await import("./deps.ts")).loadAcpDeps(connection),
    onFault: reportError,
    launcher: ownLauncher,
  });
  const end = () => {
    shutdown.begin();
    connection.disconnect();
  };
  shutdown.onSignal(() => wire.end());
  await createAcpAgent(connection).connect(wire.stream).closed;
  await connection.stop();
  await waitAtMost(systemClock, FLUSH_TIMEOUT_MS, output.flushed());
  return shutdown.exit();
}
