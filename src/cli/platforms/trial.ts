/** One message through a platform's target, without the outbox: nothing is recorded and nothing is tried again. */
import { waitAtMost } from "../../base/deadline.ts";
import { hostname } from "node:os";
import process from "node:process";
import { systemClock } from "../../base/clock.ts";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { createLog } from "../../base/observe/log.ts";
import { offTracer } from "../../base/observe/trace.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import type { PlatformName } from "../../config/platform-settings.ts";
import { hideSecrets } from "../../config/secrets/values.ts";
import { resolveAddresses } from "../../deliver/address.ts";
import { Attempt, type AttemptEnd } from "../../deliver/outbox/attempt.ts";
import { platformState, type PlatformState } from "../../deliver/platform/platforms.ts";
import { parseTarget, type Delivery, type Target } from "../../deliver/target.ts";
import { currentContext } from "../kit/context.ts";
import { warn } from "../kit/output.ts";
import { readVersion } from "../kit/version.ts";
import { oneLine } from "../sessions/text.ts";
import { findDatabase } from "../kit/database.ts";

export interface TrialMessage {
  readonly platform: PlatformName;
  /** Undefined: the home channel. */
  readonly chat: string | undefined;
  readonly thread: string | undefined;
  /** Undefined: a greeting. */
  readonly text: string | undefined;
  readonly extra: Readonly<Record<string, string>>;
}

interface TrialOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with the address before anything is sent; empty for none. */
  readonly onSend: (address: string) => void;
}

interface Trial {
  readonly platform: PlatformName;
  /** Empty: no chat was given, and no home channel is set. */
  readonly address: string;
  readonly outcome: AttemptEnd["status"] | "busy";
  readonly error?: string;
  readonly took_ms: number;
}

/** How long to wait for a platform that allows one connection. */
const READY_MS = 5_000;
const READY_LOOK_MS = 100;
const CLOSE_MS = 2_000;

/**
 * Sends the message. Throws ServiceError `invalid_config`, without sending, for a platform that is disabled or not
 * configured.
 */
export async function sendTrial(message: TrialMessage, options: TrialOptions): Promise<Trial> {
  const { home, env: processEnv } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  hideSecrets(loaded);
  const { openStore } = await import("../../store/open.ts");
  const database = await findDatabase();
  // Holds the leases of platforms that allow one connection. Without a database no service has ever run, so no lease is held.
  const store = await openStore({ url: database.exists ? database.url : ":memory:" });
  try {
    const log = createLog("warn", (line) => warn(line.trimEnd()));
    const parts = { clock: systemClock, log, version: await readVersion(), agentHome: home, env, store };
    const state = await platformState(message.platform, config, parts);
    if (state.status !== "ready") throw notReady(message.platform, state);
    return await sendThrough(state.target, message, options);
  } finally {
    await store.close();
  }
}

async function sendThrough(target: Target, message: TrialMessage, options: TrialOptions): Promise<Trial> {
  const { platform } = message;
  const extra = extraOf(message);
  const homes = new Map(target.home === undefined ? [] : [[platform, target.home]]);
  const { address } = parseTarget(resolveAddresses(platform, { extra, homes })[0] ?? platform);
  options.onSend(address);
  const startMs = performance.now();
  try {
    const payload = { text: message.text ?? greeting(), extra };
    const end = (await isReady(target, options.signal))
      ? await attemptOnce(target, { address, payload }, options)
      : ({ status: "busy" } as const);
    const error = "error" in end ? { error: end.error } : {};
    return {
      platform,
      address,
      outcome: end.status,
      ...error,
      took_ms: Math.round(performance.now() - startMs),
    };
  } finally {
    await waitAtMost(systemClock, CLOSE_MS, Promise.resolve(target.close?.()));
  }
}

async function attemptOnce(
  target: Target,
  { address, payload }: Pick<Delivery, "address" | "payload">,
  { timeoutMs, signal }: TrialOptions,
): Promise<AttemptEnd> {
  const nowMs = systemClock.now();
  const sent = { id: createId("out", nowMs), ref: undefined, attempt: 1, partsSent: 0, createdAtMs: nowMs };
  const attempt = new Attempt();
  const cut = () => attempt.cut("stopped");
  signal.addEventListener("abort", cut, { once: true });
  if (signal.aborted) cut();
  const end = attempt.run(
    target,
    { ...sent, address, payload },
    { clock: systemClock, tracer: offTracer, timeoutMs },
  );
  // The attempt's own timer does not keep the process alive.
  await waitAtMost(systemClock, timeoutMs + CLOSE_MS, end);
  return end;
}

/** Waits until the target is ready: another process may have to release the platform's only connection. */
async function isReady(target: Target, signal: AbortSignal): Promise<boolean> {
  for (let waitedMs = 0; target.isReady?.() === false; waitedMs += READY_LOOK_MS) {
    if (waitedMs >= READY_MS || signal.aborted) return false;
    await systemClock.sleep(READY_LOOK_MS);
  }
  return true;
}

function extraOf({ chat, thread, extra }: TrialMessage): Readonly<Record<string, string>> {
  return {
    ...extra,
    ...(chat === undefined ? {} : { chat_id: chat }),
    ...(thread === undefined ? {} : { thread_id: thread }),
  };
}

function greeting(): string {
  return `Test message from agentd on ${hostname()}, ${new Date().toISOString()}.`;
}

function notReady(
  name: PlatformName,
  state: Exclude<PlatformState, { readonly status: "ready" }>,
): ServiceError {
  const hint =
    state.status === "disabled"
      ? `is disabled: set platforms.${name}.enabled to true.`
      : `is not configured: set ${state.missing.join(" and ")}, or run \`agentd gateway setup --platform ${name}\`.`;
  return new ServiceError("invalid_config", `${name} ${hint} Nothing was sent.`);
}

/** Returns a signal that aborts at Ctrl-C, which no longer ends the process. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  // The listener stays: signal-exit would end the process when it finds no other listener.
  process.on("SIGINT", () => interrupted.abort());
  return interrupted.signal;
}

export function trialIsGood({ outcome }: Trial): boolean {
  return outcome === "delivered";
}

/** Returns the result and what to do. */
export function trialText({ platform, outcome, error = "", took_ms: tookMs }: Trial): string {
  const said = oneLine(error);
  switch (outcome) {
    case "delivered":
      return `Delivered in ${tookMs} ms.`;
    case "retry":
      return `Not delivered: ${said}\nIt may work later: the outbox would retry it.`;
    case "unknown":
      return `Unknown: ${said}\nCheck whether the message arrived. It is not sent again.`;
    case "permanent":
      return `Refused: ${said}`;
    case "busy":
      return `Not sent: ${platform} allows one connection, which another process has. Stop \`agentd gateway\` first.`;
    case "stopped":
    case "lost":
      return "Stopped. The message may have been sent.";
  }
}
