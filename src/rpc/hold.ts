import type { GatewayEvent } from "../../generated/gateway/host.gen.ts";

/** Events of a session that wait until a call was answered. */
export class Holds {
  readonly #send: (event: GatewayEvent) => void;
  readonly #held = new Map<string, { calls: number; readonly events: GatewayEvent[] }>();

  constructor(send: (event: GatewayEvent) => void) {
    this.#send = send;
  }

  event(event: GatewayEvent): void {
    const held = event.session_id === undefined ? undefined : this.#held.get(event.session_id);
    if (held) held.events.push(event);
    else this.#send(event);
  }

  take(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (held) held.calls += 1;
    else this.#held.set(sessionId, { calls: 1, events: [] });
  }

  /** The last call that holds the session lets its events go. */
  release(sessionId: string): void {
    const held = this.#held.get(sessionId);
    if (!held) return;
    held.calls -= 1;
    if (held.calls > 0) return;
    this.#held.delete(sessionId);
    held.events.forEach((event) => this.#send(event));
  }
}
