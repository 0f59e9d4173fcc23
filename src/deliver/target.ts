import type { Span } from "../base/observe/trace.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/observe/log.ts";
import type { Store } from "../store/store.ts";
import { sha256 } from "../base/digest.ts";

/** A message as its target gets it. */
export interface Delivery {
  /**
   * Stable: the same for every attempt at this message, in every process. A target whose platform can tell a repeat
   * by such a mark MUST hand it over, since a message may be sent again after it arrived.
   */
  readonly id: string;
  /** What stands behind the platform's name in the address; a bare platform's home channel stands here already. */
  readonly address: string;
  /** What was owed: JSON, in the form that this target asks for. A `traceparent` in it is the parent of the span. */
  readonly payload: unknown;
  /** What owes it: a run or a delivery id. */
  readonly ref: string | undefined;
  /** 1 for the first. */
  readonly attempt: number;
  /** Parts of a long message that have arrived, as `progress` noted them in earlier attempts; 0 at first. */
  readonly partsSent: number;
  /** When it was owed, Unix milliseconds. */
  readonly createdAtMs: number;
  /**
   * When the first attempt began of which nobody knows whether it arrived, Unix milliseconds; of the first part that is not
   * known to have. Absent: none.
   */
  readonly uncertainSinceMs?: number;
}

/**
 * How an attempt went. `error` is one sentence for people that says what to do where something can be done; it names no
 * secret, and stays with the message.
 */
export type SendOutcome =
  | { readonly status: "delivered" }
  /** The platform did not take it, and may later. */
  | {
      readonly status: "retry";
      readonly error: string;
      /** What the platform asks to wait, milliseconds. Absent: the dispatcher decides. */
      readonly afterMs?: number;
      /** True: the platform only asked to slow down; the attempt does not count among those that a message has. */
      readonly isThrottled?: boolean;
    }
  /**
   * It was sent, and no answer told whether the platform took it. Where repeats are told apart it is sent again; else it
   * stays on record as unknown, for people to decide.
   */
  | {
      readonly status: "unknown";
      readonly error: string;
      /** The error of a request that sends no message: `error` without the doubt whether one arrived. */
      readonly baseError?: string;
      /** True: of this message the platform would not tell a repeat, though it tells others (`supportsIdempotency`). */
      readonly isFinal?: boolean;
    }
  /** No attempt will ever succeed: the message stays as a dead letter. */
  | { readonly status: "permanent"; readonly error: string };

export interface SendOptions {
  /** The attempt as tracing sees it. Its `traceparent` goes to platforms that take one. */
  readonly span: Span;
  /** Aborts when the attempt has taken too long, its lease is lost, or the service stops. */
  readonly signal: AbortSignal;
  /**
   * Notes durably how many parts of a long message have arrived, in all. A target that cuts texts MUST await it between
   * two parts; later attempts begin behind what was noted.
   */
  readonly progress: (partsSent: number) => Promise<void>;
}

/**
 * Where messages go: one platform.
 *
 * - `send` makes one attempt. It MUST NOT try again by itself: the outbox does, also in another process.
 * - It SHOULD resolve in every case; what it throws counts as a retry.
 * - It MUST stop soon after `signal` aborts. Whether it does or not, the attempt is over then.
 * - It may be called for several messages at once, up to `concurrency`; for one address one after the other, in the
 *   order in which they were owed, unless `isOrdered` is false.
 * - It MUST NOT log or report the payload: messages are private, and addresses may hold keys.
 */
export interface Target {
  /** The platform, in addresses: a lower-case word such as `webhook` or `github_comment`. */
  readonly name: string;
  /** Most attempts at once in one process; default 8. */
  readonly concurrency?: number;
  /** False: messages to one address have nothing to do with each other. Default: true. */
  readonly isOrdered?: boolean;
  /** True: the platform tells a repeat by the message's id, so that what may have arrived can be sent again. */
  readonly supportsIdempotency?: boolean;
  /** In place of `supportsIdempotency`, where it depends on the message. */
  supportsIdempotencyFor?(message: Pick<Delivery, "address" | "payload">): boolean;
  /** Waits before each further attempt, milliseconds, instead of those of the configuration. */
  readonly retryDelaysMs?: readonly number[];
  /** Address (chat, or chat and thread) of messages that name the platform alone. */
  readonly home?: string;
  /**
   * False: this process sends nothing there for now, as while another holds the one connection that the platform
   * allows, or the platform asked everybody to wait. Asked before every round; absent: always true.
   */
  isReady?(): boolean;
  send(delivery: Delivery, options: SendOptions): Promise<SendOutcome>;
  /** Lets go of what it holds, such as a connection. Called once, after the last attempt. */
  close?(): Promise<void>;
}

/** Whether a message that may have arrived can be sent again without harm. */
export function canRepeat(
  target: Target | undefined,
  message: Pick<Delivery, "address" | "payload">,
): boolean {
  return target?.supportsIdempotencyFor?.(message) ?? target?.supportsIdempotency === true;
}

interface TargetAddress {
  readonly platform: string;
  /** Empty when only the platform is named. */
  readonly address: string;
}

/** Addresses read `platform:rest`, or the platform alone. */
export function parseTarget(text: string): TargetAddress {
  const colon = text.indexOf(":");
  return colon < 0
    ? { platform: text, address: "" }
    : { platform: text.slice(0, colon), address: text.slice(colon + 1) };
}

export function formatTarget({ platform, address }: TargetAddress): string {
  return address === "" ? platform : `${platform}:${address}`;
}

/** The targets of a service, by platform. */
export type Targets = ReadonlyMap<string, Target>;

/** RangeError for a name that cannot stand in an address, or that two targets bear. */
export function createTargets(list: readonly Target[]): Targets {
  const targets = new Map<string, Target>();
  for (const target of list) {
    if (!/^[a-z][a-z0-9_]{0,31}$/.test(target.name)) {
      throw new RangeError(
        `${JSON.stringify(target.name)} names no platform: 1 to 32 lower-case letters, digits and _.`,
      );
    }
    if (targets.has(target.name)) throw new RangeError(`Two targets are named ${target.name}.`);
    targets.set(target.name, target);
  }
  return targets;
}

/** What a platform's target may use of the service. */
export interface PlatformParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Of agentd, for the header `user-agent`. */
  readonly version: string;
  /** Absolute path of the home of the service. */
  readonly agentHome: string;
  /** The environment, for programs that a target runs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For leases of platforms that allow one connection. */
  readonly store: Store;
}

/** A service that messages can be sent through: what it needs, and its target. One file each, beside the target's parts. */
export interface Platform<Settings> {
  readonly name: string;
  /**
   * What still has to be set before anything can be sent, a clause each that names the key and its variable, such as
   * `token (TELEGRAM_BOT_TOKEN)`. Empty: ready.
   */
  missing(settings: Settings): readonly string[];
  /** Only with settings of which nothing is missing. Opens no connection: `send` does, when the first message comes. */
  create(settings: Settings, parts: PlatformParts): Target;
}

/**
 * Sends the parts of a long message one after the other, from the first that has not arrived yet; what has is noted
 * before the next one goes. The outcome is that of the part that did not get through. Where more have arrived than there
 * are now, the text is cut otherwise than before, as with another limit: then all of it goes again, since nobody knows
 * what is missing.
 */
export async function sendParts<Part>(
  parts: readonly Part[],
  { delivery, options }: { readonly delivery: Delivery; readonly options: SendOptions },
  sendPart: (part: Part, index: number) => Promise<SendOutcome>,
): Promise<SendOutcome> {
  // The last part is never noted: with it the message has arrived.
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

/** The same for every attempt at one part of a message, of letters, digits, `_` and `.`; at most `maxLength` characters. */
export function repeatMark({ id }: Pick<Delivery, "id">, part: number, maxLength: number): string {
  const mark = `${id}.${part}`;
  return mark.length <= maxLength ? mark : sha256(mark).slice(0, maxLength);
}

interface RepeatRules {
  /** The platform as people write it. */
  readonly title: string;
  /** How long the platform tells repeats, milliseconds; rather too short than too long. 0: it never does. */
  readonly windowMs: number;
}

/**
 * What becomes of a part of which an earlier attempt may have arrived so long ago that this one could make a second message:
 * it stays unknown, for people to look. Undefined: it may be sent.
 */
export function staleUncertainty(
  { title, windowMs }: RepeatRules,
  { uncertainSinceMs, partsSent }: Pick<Delivery, "uncertainSinceMs" | "partsSent">,
  { index, nowMs }: { readonly index: number; readonly nowMs: number },
): SendOutcome | undefined {
  // Parts behind the first were not begun before.
  if (uncertainSinceMs === undefined || index !== partsSent) return undefined;
  const isTold = windowMs > 0 && nowMs - uncertainSinceMs <= windowMs;
  return isTold ? undefined : { status: "unknown", isFinal: true, error: tooLate(title) };
}

function tooLate(title: string): string {
  return `It may have arrived: an earlier attempt had no answer, and by now ${title} would take a repeat for a new message. Look there; \`agentd outbox retry\` sends it again.`;
}
