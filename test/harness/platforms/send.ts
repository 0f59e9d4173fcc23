/** One message through a platform's target, without a service around it. */
import { systemClock } from "../../../src/base/time.ts";
import { silentLog, offTracer } from "../../../src/base/observe.ts";
import type { Platform, PlatformParts, Delivery, SendOutcome } from "../../../src/deliver/target.ts";

export interface Sent {
  readonly outcome: SendOutcome;
  /** What the target noted of its parts. */
  readonly progress: readonly number[];
}

export interface SendRequest extends Partial<Omit<Delivery, "payload">> {
  readonly text?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
  /** In place of `{ text, extra }`. */
  readonly payload?: unknown;
  readonly signal?: AbortSignal;
  /** Called at each note of progress. */
  readonly onProgress?: (partsSent: number) => void;
}

export function platformParts(parts: Partial<PlatformParts> = {}): PlatformParts {
  return {
    clock: systemClock,
    log: silentLog,
    version: "1.2.3",
    agentHome: "/project/home",
    env: {},
    ...parts,
  } as PlatformParts;
}

/** Makes the target, sends, and closes it. */
export async function sendThrough<Settings>(
  platform: Platform<Settings>,
  settings: Settings,
  request: SendRequest,
  parts: Partial<PlatformParts> = {},
): Promise<Sent> {
  const { text = "Hello", extra = {}, payload = { text, extra }, signal, onProgress, ...delivery } = request;
  const target = platform.create(settings, platformParts(parts));
  const progress: number[] = [];
  try {
    const outcome = await target.send(
      {
        id: "out_01",
        address: "",
        ref: "run_01",
        attempt: 1,
        partsSent: 0,
        createdAtMs: 1_700_000_000_000,
        ...delivery,
        payload,
      },
      {
        signal: signal ?? new AbortController().signal,
        span: offTracer.start("send", {}),
        progress: async (partsSent) => {
          progress.push(partsSent);
          onProgress?.(partsSent);
        },
      },
    );
    return { outcome, progress };
  } finally {
    await target.close?.();
  }
}
