/** The webhook receiver on its own port: listens, drains and closes. */
import type { H3 } from "h3";
import type { DirectSends } from "../deliver/outbox/attempt.ts";
import type { WebhookDeps } from "../webhook/deps.ts";
import type { WebhookSettings } from "../webhook/routes/route.ts";
import { listen, type Listener } from "./listen.ts";

export interface WebhookReceiverOptions {
  readonly app: H3;
  readonly deps: WebhookDeps;
  readonly settings: WebhookSettings;
  readonly sends: DirectSends;
}

/** The listener's limit is above ours, so that an oversize body gets our error envelope. */
const LISTENER_SLACK_BYTES = 1_048_576;

/** Delay between attempts to listen. It doubles up to the maximum. */
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;

export class WebhookReceiver {
  readonly #options: WebhookReceiverOptions;
  #listener: Listener | undefined;
  #problem: string | undefined;
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry = () => {};
  #binding: Promise<void> = Promise.resolve();
  #isClosing = false;

  constructor(options: WebhookReceiverOptions) {
    this.#options = options;
  }

  /** Its address; undefined while it cannot listen. */
  get url(): string | undefined {
    return this.#listener?.url;
  }

  get deps(): WebhookDeps {
    return this.#options.deps;
  }

  /** Why it does not listen, and how to fix that; undefined while it does. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Names of the routes, including those of the subscriptions file. */
  get routes(): readonly string[] {
    return this.#options.deps.routes.names;
  }

  /**
   * Starts to listen. Never rejects: a taken port must not stop the rest of the service. The failure is logged,
   * and retried until the port is free.
   */
  async listen(): Promise<void> {
    const { deps } = this.#options;
    deps.coalescer.start();
    await deps.routes.refresh();
    this.#binding = this.#bind();
    await this.#binding;
  }

  async #bind(): Promise<void> {
    const { app, deps, settings } = this.#options;
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
    const { log, clock } = this.#options.deps;
    // Logged once. The health report shows the problem as long as it lasts.
    if (problem !== this.#problem) log.error("webhooks are not received", { problem });
    this.#problem = problem;
    if (this.#isClosing) return;
    this.#cancelRetry = clock.after(this.#retryMs, () => (this.#binding = this.#bind()));
    this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
  }

  /**
   * Lets messages that are being sent finish within `graceMs`; the others stay in the outbox. Coalesced events
   * wait for the next start. New requests are refused meanwhile.
   */
  async drain(graceMs: number): Promise<void> {
    this.#isClosing = true;
    this.#cancelRetry();
    await this.#binding;
    await this.#options.deps.coalescer.close();
    await this.#options.sends.close(graceMs);
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
  return `Cannot listen on ${host}:${port}: ${why}. agentd keeps trying. ${free} platforms.webhook.extra.host or .port, or WEBHOOK_PORT, and restart.`;
}
