/** `agentd acp`: the agent for the editor that started this program, on standard input and output. */
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { defineCommand } from "citty";
import packageFile from "../../package.json" with { type: "json" };
import { createAcpAgent } from "../acp/agent.ts";
import { AcpConnection } from "../acp/connection.ts";
import type { AcpRoom } from "../acp/room.ts";
import { createWire } from "../acp/wire.ts";
import { systemClock } from "../base/clock.ts";
import { acpActions, runAcpAction } from "./acp-actions.ts";
import { currentContext } from "./context.ts";

export const acpCommand = defineCommand({
  meta: { name: "acp", description: "Serve an editor (Agent Client Protocol) on standard input and output" },
  args: acpActions,
  async run({ args }) {
    if (await runAcpAction(args)) return;
    const wire = createWire({
      input: Readable.toWeb(process.stdin) as unknown as ReadableStream<Uint8Array>,
      output: Writable.toWeb(process.stdout),
      maxLineBytes: 33_554_432,
      clock: systemClock,
      onEnd: () => connection.ended(),
    });
    const { afterAnswer } = wire;
    const connection = new AcpConnection({ version: packageFile.version, load, afterAnswer });
    await createAcpAgent(connection).connect(wire.stream).closed;
    process.exit(0);
  },
});

async function load(): Promise<AcpRoom> {
  const [{ openHome, openHomeStore }, { bootRpc }, { acpSettings }] = await Promise.all([
    import("../opened-home.ts"),
    import("../boot.ts"),
    import("../acp/settings.ts"),
  ]);
  const opened = await openHome(currentContext());
  const { approvals, acp } = opened.config;
  // An editor has a person in front of it: its questions wait as long as this block says.
  const config = {
    ...opened.config,
    approvals: { ...approvals, timeout_seconds: acp.approval_timeout_seconds },
  };
  const service = await bootRpc({ ...opened, config }, await openHomeStore(opened));
  return {
    ...service.room,
    store: service.store,
    clock: systemClock,
    log: opened.log,
    settings: acpSettings(acp),
    owner: "default",
  };
}
