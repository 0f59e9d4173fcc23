/** The receiver of webhooks, on a port of its own: opened, drained and closed. */
import type { H3 } from "h3";
import type { DirectSends } from "../deliver/outbox/direct-sends.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import type { WebhookSettings } from "../webhook/settings.ts";
import { listen, type Listener } from "./listen.ts";

export interface WebhookReceiverParts {
  readonly app: H3;
  readonly deps: WebhookDeps;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** The listener's own limit stands above ours, so that an oversize body is refused by us, with our envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

/** Between two attempts to listen: doubled from one to the other, each time. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

export class WebhookReceiver {
  readonly #parts: WebhookReceiverParts;
  #listener: Listener | undefined;
  #problem: string | undefined;
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry = () => {};
  #binding: Promise<void> = Promise.resolve();
  #isClosing = false;

  constructor(parts: WebhookReceiverParts) {
    this.#parts = parts;
  }

  /** Where it listens; undefined while it cannot. */
  get url(): string | undefined {
    return this.#listener?.url;
  }

  /** Why it does not listen, and what to do; undefined while it does. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Names of the routes, those of the file of subscriptions included. */
  get routes(): readonly string[] {
    return this.#parts.deps.routes.names;
  }

  /**
   * Never rejects: an address that is taken must not keep the rest of the service from running. It is logged, and tried
   * again until it is free.
   */
  async listen(): Promise<void> {
    const { deps } = this.#parts;
    deps.coalescer.start();
    await deps.routes.refresh();
    this.#binding = this.#bind();
    await this.#binding;
  }

  async #bind(): Promise<void> {
    const { app, deps, settings } = this.#parts;
    const { host, port } = settings;
    const maxBodyBytes = settings.maxBodyBytes + LISTENER_SLACK_BYTES;
    try {
      this.#listener = await listen(app, { host, port, maxBodyBytes, clock: deps.clock });
    } catch (error) {
      return this.#retryLater(problemOf(error, { host, port }));
    }
    this.#problem = undefined;
    const routes = this.routes.join(", ") || "(none configured)";
    deps.log.info("webhooks are received", { url: this.url, routes });
  }

  #retryLater(problem: string): void {
    const { log, clock } = this.#parts.deps;
    // Said once: it is in the health report for as long as it lasts.
    if (problem !== this.#problem) log.error("webhooks are not received", { problem });
    this.#problem = problem;
    if (this.#isClosing) return;
    this.#cancelRetry = clock.after(this.#retryMs, () => (this.#binding = this.#bind()));
    this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
  }

  /**
   * Lets messages that are being sent arrive for `graceMs`; the rest stays owed, and events that wait for newer ones wait
   * for the next start. New requests are refused meanwhile.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isClosing = true;
    this.#cancelRetry();
    await this.#binding;
    await this.#parts.deps.coalescer.close();
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
  const free = isTaken ? "Stop that program, or set" : "Set";
  return `Cannot listen on ${host}:${port}: ${why}. It is tried again until it succeeds. ${free} platforms.webhook.extra.host or .port, or WEBHOOK_PORT, and start again.`;
}
