/** The receiver of webhooks, on a port of its own: opened, drained and closed. */
import type { H3 } from "h3";
import type { DirectSends } from "../deliver/direct-sends.ts";
import type { WebhookRoom } from "../webhook/room.ts";
import type { WebhookSettings } from "../webhook/settings.ts";
import { listen, type Listener } from "./listen.ts";

export interface WebhookReceiverParts {
  readonly app: H3;
  readonly room: WebhookRoom;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

export class WebhookReceiver {
  readonly #parts: WebhookReceiverParts;
  #listener: Listener | undefined;

  constructor(parts: WebhookReceiverParts) {
    this.#parts = parts;
  }

  /** Where it listens; undefined when it could not. */
  get url(): string | undefined {
    return this.#listener?.url;
  }

  /** Names of the routes, those of the file of subscriptions included. */
  get routes(): readonly string[] {
    return this.#parts.room.routes.names;
  }

  /** Never rejects: an address that is taken must not keep the rest of the service from running, and is told of. */
  async listen(): Promise<void> {
    const { app, room, settings } = this.#parts;
    const { host, port } = settings;
    room.coalescer.start();
    await room.routes.refresh();
    try {
      this.#listener = await listen(app, {
        host,
        port,
        maxBodyBytes: settings.maxBodyBytes + LISTENER_SLACK_BYTES,
        clock: room.clock,
      });
    } catch (error) {
      room.log.error("webhooks are not received", { problem: problemOf(error, { host, port }) });
      return;
    }
    const routes = this.routes.join(", ") || "(none configured)";
    room.log.info("webhooks are received", { url: this.url, routes });
  }

  /**
   * Lets messages that are being sent arrive for `graceMs`; the rest stays owed, and events that wait for newer ones wait
   * for the next start. New requests are refused meanwhile.
   */
  async drain(graceMs: number): Promise<void> {
    await this.#parts.room.coalescer.close();
    await this.#parts.sends.close(graceMs);
  }

  async close(graceMs: number): Promise<void> {
    await this.#listener?.close(graceMs);
  }
}

function problemOf(error: unknown, { host, port }: { readonly host: string; readonly port: number }): string {
  const { cause = error } = error as { readonly cause?: unknown };
  const { code, name, message } = cause as {
    readonly code?: string;
    readonly name?: string;
    message?: string;
  };
  const isTaken = code === "EADDRINUSE" || name === "AddrInUse";
  const why = isTaken ? "another program listens there" : (code ?? message ?? "the system does not allow it");
  return `Could not listen on ${host}:${port}: ${why}. Set platforms.webhook.extra.host or .port, or WEBHOOK_PORT, and start again.`;
}
