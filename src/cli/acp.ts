/** `agentd acp`: the agent for the editor that started this program, on standard input and output. */
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { defineCommand } from "citty";
import { createAcpAgent } from "../acp/agent.ts";
import type { AcpSession } from "../acp/session.ts";
import { createWire } from "../acp/wire.ts";
import { systemClock } from "../base/clock.ts";
import { currentContext } from "./context.ts";
import { readVersion } from "./package-file.ts";

export const acpCommand = defineCommand({
  meta: { name: "acp", description: "Serve an editor (Agent Client Protocol) on standard input and output" },
  async run() {
    const sessions = new Map<string, AcpSession>();
    const { env, home } = currentContext();
    const load = async () => {
      const { bootRpc } = await import("../boot.ts");
      const { service, log } = await bootRpc({ env, home });
      return { ...service.room, store: service.store, clock: systemClock, log, owner: "default" };
    };
    const app = createAcpAgent({ version: await readVersion(), load, sessions });
    const wire = createWire({
      input: Readable.toWeb(process.stdin) as unknown as ReadableStream<Uint8Array>,
      output: Writable.toWeb(process.stdout),
      maxLineBytes: 33_554_432,
      clock: systemClock,
      onEnd: () => sessions.forEach((session) => session.cancel()),
    });
    await app.connect(wire.stream).closed;
    process.exit(0);
  },
});
