/** One message through a platform's target, without the outbox: nothing is recorded and nothing is tried again. */
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
  /** Undefined: a word of greeting. */
  readonly text: string | undefined;
  readonly extra: Readonly<Record<string, string>>;
}

export interface TrialOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with the address, empty for none, before anything is sent. */
  readonly onSend: (address: string) => void;
}

export interface Trial {
  readonly platform: PlatformName;
  /** Empty: no chat was given, and there is no home channel. */
  readonly address: string;
  readonly outcome: AttemptEnd["status"] | "busy";
  readonly error?: string;
  readonly took_ms: number;
}

/** How long a platform that allows one connection is waited for. */
const READY_MS = 5_000;
const READY_LOOK_MS = 100;
const CLOSE_MS = 2_000;

/** ServiceError `invalid_config` for a platform that is off or not set up; nothing was sent then. */
export async function sendTrial(message: TrialMessage, options: TrialOptions): Promise<Trial> {
  const { home, env: processEnv } = currentContext();
  const loaded = await loadConfig({ home, env: processEnv });
  const config = requireValid(loaded);
  const { env } = loaded;
  hideSecrets(loaded);
  const { openStore } = await import("../../store/open.ts");
  const database = await findDatabase();
  // For leases of platforms that allow one connection; where no service ever ran nobody holds one.
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
    await within(CLOSE_MS, target.close?.());
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
  // The attempt's own timer would let the process go before it ends.
  await within(timeoutMs + CLOSE_MS, end);
  return end;
}

/** A platform that allows one connection is not ready at once: another process may have to let go of it. */
async function isReady(target: Target, signal: AbortSignal): Promise<boolean> {
  for (let waitedMs = 0; target.isReady?.() === false; waitedMs += READY_LOOK_MS) {
    if (waitedMs >= READY_MS || signal.aborted) return false;
    await systemClock.sleep(READY_LOOK_MS);
  }
  return true;
}

async function within(ms: number, work: Promise<unknown> | undefined): Promise<void> {
  const over = new AbortController();
  const late = systemClock.sleep(ms, { signal: over.signal }).catch(() => {});
  await Promise.race([work, late]);
  over.abort();
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
      ? `is switched off: set platforms.${name}.enabled to true.`
      : `is not set up: it lacks ${state.missing.join(" and ")}. Run \`agentd gateway setup --platform ${name}\`.`;
  return new ServiceError("invalid_config", `${name} ${hint} Nothing was sent.`);
}

/** Aborts at Ctrl-C. From now on the process does not end by it. */
export function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  // It stays: a library that cleans up after itself (signal-exit) would end the process when it finds no other.
  process.on("SIGINT", () => interrupted.abort());
  return interrupted.signal;
}

export function trialIsGood({ outcome }: Trial): boolean {
  return outcome === "delivered";
}

/** How it went, and what to do. */
export function trialText({ platform, outcome, error = "", took_ms: tookMs }: Trial): string {
  const said = oneLine(error);
  switch (outcome) {
    case "delivered":
      return `Delivered in ${tookMs} ms.`;
    case "retry":
      return `Not delivered: ${said}\nIt may work later: messages in the outbox are tried again.`;
    case "unknown":
      return `Nobody knows: ${said}\nLook whether it arrived; nothing is sent again.`;
    case "permanent":
      return `Refused: ${said}`;
    case "busy":
      return `Not sent: ${platform} allows one connection, which another process has. Stop \`agentd gateway\` first, or let it send.`;
    case "stopped":
    case "lost":
      return "Stopped. The message may have been sent.";
  }
}
