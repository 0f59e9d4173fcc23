/** One message through a target, without the outbox: nothing is recorded and nothing is tried again. */
import { waitAtMost, type Clock } from "../../base/time.ts";
import { createId } from "../../base/text.ts";
import { offTracer } from "../../base/observe.ts";
import { resolveAddresses } from "../address.ts";
import { Attempt, type AttemptEnd } from "../outbox/attempt.ts";
import { parseTarget, type Delivery, type Target } from "../target.ts";

export interface TrialMessage {
  /** Undefined: the home channel. */
  readonly chat: string | undefined;
  readonly thread: string | undefined;
  readonly text: string;
  readonly extra: Readonly<Record<string, unknown>>;
}

interface TrialOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Called with the address before anything is sent; empty for none. */
  readonly onSend?: (address: string) => void;
}

export interface TrialResult {
  /** Empty: no chat was given, and no home channel is set. */
  readonly address: string;
  /** busy: another process holds the only connection that the platform allows; nothing was sent. */
  readonly outcome: AttemptEnd["status"] | "busy";
  readonly error?: string;
  readonly tookMs: number;
}

/** How long to wait for a platform that allows one connection. */
const READY_MS = 5_000;
const READY_LOOK_MS = 100;
const LATE_MS = 2_000;

/** Sends the message. Resolves after at most the timeout and some seconds, whatever the target does. */
export async function sendTrial(
  target: Target,
  message: TrialMessage,
  options: TrialOptions,
): Promise<TrialResult> {
  const extra = extraOf(message);
  const homes = new Map(target.home === undefined ? [] : [[target.name, target.home]]);
  const { address } = parseTarget(resolveAddresses(target.name, { extra, homes })[0] ?? target.name);
  options.onSend?.(address);
  const startMs = performance.now();
  const end = (await isReady(target, options))
    ? await attemptOnce(target, { address, payload: { text: message.text, extra } }, options)
    : ({ status: "busy" } as const);
  const error = "error" in end ? { error: end.error } : {};
  return { address, outcome: end.status, ...error, tookMs: Math.round(performance.now() - startMs) };
}

/** Returns the text of a test message without one: it names the machine and the time. */
export function greeting(host: string, nowMs: number): string {
  return `Test message from agentd on ${host}, ${new Date(nowMs).toISOString()}.`;
}

async function attemptOnce(
  target: Target,
  { address, payload }: Pick<Delivery, "address" | "payload">,
  { clock, timeoutMs, signal }: TrialOptions,
): Promise<AttemptEnd> {
  const nowMs = clock.now();
  const sent = { id: createId("out", nowMs), ref: undefined, attempt: 1, partsSent: 0, createdAtMs: nowMs };
  const attempt = new Attempt();
  const cut = () => attempt.cut("stopped");
  signal.addEventListener("abort", cut, { once: true });
  if (signal.aborted) cut();
  const end = attempt.run(target, { ...sent, address, payload }, { clock, tracer: offTracer, timeoutMs });
  // The attempt's own timer does not keep the process alive.
  await waitAtMost(clock, timeoutMs + LATE_MS, end);
  signal.removeEventListener("abort", cut);
  return end;
}

/** Waits until the target is ready: another process may have to release the platform's only connection. */
async function isReady(target: Target, { clock, signal }: TrialOptions): Promise<boolean> {
  for (let waitedMs = 0; target.isReady?.() === false; waitedMs += READY_LOOK_MS) {
    if (waitedMs >= READY_MS || signal.aborted) return false;
    await clock.sleep(READY_LOOK_MS);
  }
  return true;
}

function extraOf({ chat, thread, extra }: TrialMessage): Readonly<Record<string, unknown>> {
  return {
    ...extra,
    ...(chat === undefined ? {} : { chat_id: chat }),
    ...(thread === undefined ? {} : { thread_id: thread }),
  };
}
