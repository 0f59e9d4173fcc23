/** The one connection of `agentd acp`, from its first line to the end of the process. */
import process from "node:process";
import packageFile from "../../../package.json" with { type: "json" };
import { createAcpAgent } from "../../acp/agent.ts";
import { AcpConnection } from "../../acp/wire/connection.ts";
import { Wire } from "../../acp/wire/wire.ts";
import { systemClock } from "../../base/clock.ts";
import type { FrameOutput } from "../../base/system/frame-output.ts";
import { reportFault, type Leaving } from "./process.ts";
import { ownLauncher } from "./bootstrap.ts";

/** What a client gets that does not read. */
const LAST_WORDS_MS = 500;

/** Serves until the client leaves or a signal ends it; then the process exits. */
export async function serveAcp(output: FrameOutput, disconnected: Leaving): Promise<never> {
  const wire = new Wire({ input: process.stdin, output, clock: systemClock, onEnd: () => end() });
  const connection: AcpConnection = new AcpConnection({
    version: packageFile.version,
    load: async () => (await import("./deps.ts")).loadAcpDeps({ wire, connection }),
    afterAnswer: (id, after) => wire.afterAnswer(id, after),
    onFault: reportFault,
    launcher: ownLauncher,
  });
  const end = () => {
    disconnected.begin();
    connection.disconnect();
  };
  wire.watch((direction, message) => {
    if (direction === "in") connection.onMessage(message);
  });
  disconnected.hold(() => wire.end());
  await createAcpAgent(connection).connect(wire.stream).closed;
  await connection.stop();
  await Promise.race([output.flushed(), systemClock.sleep(LAST_WORDS_MS)]);
  return disconnected.exit();
}
