import type { Span } from "../base/observe/trace.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Store } from "../store/store.ts";
import { sha256 } from "../base/digest.ts";

/** A message as its target receives it. */
export interface Delivery {
  /**
   * The same for every attempt at this message, in every process. A target whose platform deduplicates by an id MUST
   * send it: a message may be sent again after it arrived.
   */
  readonly id: string;
  /** The part of the address after the platform's name. For an address that is only a platform: its home channel. */
  readonly address: string;
  /** The message as JSON, in the form that this target reads. A `traceparent` in it is the parent of the span. */
  readonly payload: unknown;
  /** Id of the run or the webhook delivery that created the message. */
  readonly ref: string | undefined;
  /** 1 for the first. */
  readonly attempt: number;
  /** Number of parts of a long message that arrived in earlier attempts, as `progress` stored it. */
  readonly partsSent: number;
  /** When the message was enqueued, Unix milliseconds. */
  readonly createdAtMs: number;
  /**
   * Start of the first attempt with an unknown outcome, Unix milliseconds; for a long message, of its first unconfirmed
   * part. Absent: every earlier outcome is known.
   */
  readonly uncertainSinceMs?: number;
}

/**
 * The outcome of an attempt. `error` is one sentence for the operator that also says what to do. It contains no secret
 * and is stored with the message.
 */
export type SendOutcome =
  | { readonly status: "delivered" }
  /** The platform did not accept the message now, and may accept it later. */
  | {
      readonly status: "retry";
      readonly error: string;
      /** How long the platform asks to wait, milliseconds. Absent: the dispatcher decides. */
      readonly afterMs?: number;
      /** Whether the platform only asked to slow down. Such an attempt does not count. */
      readonly isThrottled?: boolean;
    }
  /**
   * The request was sent, and no response confirmed it. A target that supports idempotency sends the message again;
   * otherwise the message gets status unknown, and a person decides.
   */
  | {
      readonly status: "unknown";
      readonly error: string;
      /** `error` without the note that the message may have arrived, for requests that send no message. */
      readonly baseError?: string;
      /** Whether the platform would not deduplicate this message although the target supports idempotency. */
      readonly isFinal?: boolean;
    }
  /** No attempt can succeed: the message gets status dead. */
  | { readonly status: "permanent"; readonly error: string };

export interface SendOptions {
  /** The span of the attempt. Its `traceparent` is sent to platforms that accept one. */
  readonly span: Span;
  /** Aborts when the attempt times out, its lease is lost, or the service stops. */
  readonly signal: AbortSignal;
  /**
   * Stores how many parts of a long message have arrived in total. A target that splits texts MUST await it between two
   * parts; later attempts start after the stored part.
   */
  readonly progress: (partsSent: number) => Promise<void>;
}

/**
 * Sends messages to one platform.
 *
 * - `send` makes one attempt. It MUST NOT retry: the outbox does, possibly in another process.
 * - It SHOULD always resolve; a rejection counts as a retry.
 * - It MUST stop soon after `signal` aborts; the attempt is over in any case.
 * - It may run for several messages at once, up to `concurrency`. Messages to one address are sent one after the other,
 *   in the order in which they were enqueued, unless `isOrdered` is false.
 * - It MUST NOT log or report the payload: messages are private, and addresses may contain keys.
 */
export interface Target {
  /** The platform's name in addresses: a lower-case word such as `webhook` or `github_comment`. */
  readonly name: string;
  /** Most concurrent attempts in one process; default 8. */
  readonly concurrency?: number;
  /** Whether messages to one address keep their order; default true. */
  readonly isOrdered?: boolean;
  /**
   * Whether the platform deduplicates by the message's id, so that a message that may have arrived can be sent again.
   */
  readonly supportsIdempotency?: boolean;
  /** Replaces `supportsIdempotency` where it depends on the message. */
  supportsIdempotencyFor?(message: Pick<Delivery, "address" | "payload">): boolean;
  /** Delays before each retry, milliseconds; default: those of the configuration. */
  readonly retryDelaysMs?: readonly number[];
  /** Home channel: chat, or chat and thread, of messages addressed to the platform alone. */
  readonly home?: string;
  /**
   * Returns false while this process must not send: another process holds the platform's only connection, or the
   * platform asked to wait. Called before every claim; absent: always ready.
   */
  isReady?(): boolean;
  send(delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
  /** Releases resources such as a connection. Called once, after the last attempt. */
  close?(): Promise<void>;
}

/** Returns whether a message that may have arrived can safely be sent again. */
export function canRepeat(
  target: Target | undefined,
  message: Pick<Delivery, "address" | "payload">,
): boolean {
  return target?.supportsIdempotencyFor?.(message) ?? target?.supportsIdempotency === true;
}

interface TargetAddress {
  readonly platform: string;
  /** Empty when the address names only the platform. */
  readonly address: string;
}

/** Parses an address: `platform:rest`, or the platform alone. */
export function parseTarget(text: string): TargetAddress {
  const colon = text.indexOf(":");
  return colon < 0
    ? { platform: text, address: "" }
    : { platform: text.slice(0, colon), address: text.slice(colon + 1) };
}

export function formatTarget({ platform, address }: TargetAddress): string {
  return address === "" ? platform : `${platform}:${address}`;
}

/** The targets of a service by platform name. */
export type Targets = ReadonlyMap<string, Target>;

/**
 * Returns the targets by name. Throws RangeError for a name that is not valid in an address, and for a duplicate name.
 */
export function createTargets(list: readonly Target[]): Targets {
  const targets = new Map<string, Target>();
  for (const target of list) {
    if (!/^[a-z][a-z0-9_]{0,31}$/.test(target.name)) {
      throw new RangeError(
        `${JSON.stringify(target.name)} is not a platform name: use 1 to 32 lower-case letters, digits and _.`,
      );
    }
    if (targets.has(target.name)) throw new RangeError(`Two targets are named ${target.name}.`);
    targets.set(target.name, target);
  }
  return targets;
}

/** What a platform's target gets from the service. */
export interface PlatformParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Version of agentd, for the header `user-agent`. */
  readonly version: string;
  /** Absolute path of the home of the service. */
  readonly agentHome: string;
  /** The environment, for programs that a target runs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Holds the leases of platforms that allow one connection. */
  readonly store: Store;
}

/** A platform that can be configured: its required settings, and its target. */
export interface Platform<Settings> {
  readonly name: string;
  /**
   * Returns the missing settings, each with its key and variable, such as `token (TELEGRAM_BOT_TOKEN)`. Empty: ready.
   */
  missing(settings: Settings): readonly string[];
  /** Creates the target. Call it only when no setting is missing. Opens no connection; the first `send` does. */
  create(settings: Settings, parts: PlatformParts): Target;
}

/**
 * Sends the parts of a long message one after the other, starting with the first that has not arrived, and stores the
 * progress before each next part. Returns the outcome of the part that failed. When more parts arrived than the message
 * has now, the text is split differently than before (another limit), so all parts are sent again.
 */
export async function sendParts<Part>(
  parts: readonly Part[],
  { delivery, options }: { readonly delivery: Delivery; readonly options: SendOptions },
  sendPart: (part: Part, index: number) => Promise<SendOutcome>,
): Promise<SendOutcome> {
  // The last part is never stored: with it the whole message has arrived.
  const firstDue = delivery.partsSent < parts.length ? delivery.partsSent : 0;
  for (const [index, part] of parts.entries()) {
    if (index < firstDue) continue;
    options.signal.throwIfAborted();
    const outcome = await sendPart(part, index);
    if (outcome.status !== "delivered") return outcome;
    if (index + 1 < parts.length) await options.progress(index + 1);
  }
  return { status: "delivered" };
}

/**
 * Returns the idempotency key of one part, the same for every attempt: letters, digits, `_` and `.`, at most
 * `maxLength` characters.
 */
export function repeatMark({ id }: Pick<Delivery, "id">, part: number, maxLength: number): string {
  const mark = `${id}.${part}`;
  return mark.length <= maxLength ? mark : sha256(mark).slice(0, maxLength);
}

interface RepeatRules {
  /** Display name of the platform. */
  readonly title: string;
  /** How long the platform deduplicates, milliseconds; a lower bound. 0: never. */
  readonly windowMs: number;
}

/**
 * Returns the final outcome `unknown` for a part whose earlier uncertain attempt is too old for the platform to
 * deduplicate, so that a retry could create a second message. Returns undefined when the part may be sent.
 */
export function staleUncertainty(
  { title, windowMs }: RepeatRules,
  { uncertainSinceMs, partsSent }: Pick<Delivery, "uncertainSinceMs" | "partsSent">,
  { index, nowMs }: { readonly index: number; readonly nowMs: number },
): SendOutcome | undefined {
  // No earlier attempt started a later part.
  if (uncertainSinceMs === undefined || index !== partsSent) return undefined;
  const isDetected = windowMs > 0 && nowMs - uncertainSinceMs <= windowMs;
  return isDetected ? undefined : { status: "unknown", isFinal: true, error: tooLate(title) };
}

function tooLate(title: string): string {
  return `The message may have arrived: an earlier attempt got no response, and ${title} no longer deduplicates it. Check the chat; \`agentd outbox retry\` sends it again.`;
}
