/** Text that goes into a turn at work, wherever that is. */
import { requestSteer } from "../agent/run-control.ts";
import type { RpcRoom } from "./room.ts";
import type { TurnOnce } from "./turn-once.ts";

/**
 * False when the turn takes nothing (any more). With `once` the text and its name are recorded together, so that a
 * repetition finds the one with the other: RepeatedTurn.
 */
export async function steerTurn(
  room: RpcRoom,
  runId: string,
  text: string,
  once?: TurnOnce,
): Promise<boolean> {
  if (!once) return room.agent.turns.steer(runId, text);
  for (;;) {
    const refused = await record(room, runId, text, once);
    if (refused === undefined) return true;
    if (refused.retryMs === undefined) return false;
    await room.clock.sleep(refused.retryMs);
  }
}

/** Undefined: it was taken. What was claimed for a text that is not taken is claimed no more. */
async function record(
  { store }: RpcRoom,
  runId: string,
  text: string,
  once: TurnOnce,
): Promise<NotTaken | undefined> {
  try {
    await store.write(async (tx) => {
      await once.record(tx, store, { runId, isSteer: true });
      const { taken, retryMs } = await requestSteer(tx, store, runId, text);
      if (!taken) throw new NotTaken(retryMs);
    });
    return undefined;
  } catch (error) {
    if (error instanceof NotTaken) return error;
    throw error;
  }
}

class NotTaken extends Error {
  override readonly name = "NotTaken";
  /** When a turn that has only just begun takes something. */
  readonly retryMs: number | undefined;

  constructor(retryMs: number | undefined) {
    super("The turn takes nothing now.");
    this.retryMs = retryMs;
  }
}
