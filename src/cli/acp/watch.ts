/** What else is done with the messages of an editor, as the configuration says. */
import type { AcpConnection } from "../../acp/wire/connection.ts";
import { Keepalive } from "../../acp/wire/keepalive.ts";
import type { AcpSettings } from "../../acp/deps.ts";
import { toTraceEntry } from "../../acp/wire/trace.ts";
import type { Wire, WireWatcher } from "../../acp/wire/wire.ts";
import { systemClock } from "../../base/clock.ts";
import { createLog } from "../../base/observe/log.ts";

export interface WatchedWire {
  readonly wire: Wire;
  readonly connection: AcpConnection;
}

/** Begins what `settings` ask for; the result ends it. */
export function watchWire(
  { wire, connection }: WatchedWire,
  { settings, isTraced }: { readonly settings: AcpSettings; readonly isTraced: boolean },
): () => void {
  const ends: (() => void)[] = [];
  if (isTraced) {
    // Whatever the level of the log: it was asked for.
    const log = createLog("debug");
    const write: WireWatcher = (direction, message) =>
      log.debug(`acp ${direction}`, { frame: toTraceEntry(message) });
    for (const [direction, message] of wire.takeFirst()) write(direction, message);
    ends.push(wire.watch(write));
  }
  if (settings.keepaliveMs !== undefined) {
    const keepalive = new Keepalive({ connection, clock: systemClock, everyMs: settings.keepaliveMs });
    ends.push(
      () => keepalive.stop(),
      wire.watch((direction, message) => direction === "out" && keepalive.sent(message)),
    );
  }
  return () => {
    for (const end of ends) end();
  };
}
