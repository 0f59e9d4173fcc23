/** Outbound messages, and the targets that send them: one for each platform. */
import type { Span, Log } from "../base/observe.ts";
import type { Clock } from "../base/time.ts";
import type { Store } from "../store/store.ts";
import { sha256, isBlank, toReadable } from "../base/text.ts";
import { isRecord } from "../base/data.ts";
import { redact } from "../base/observe.ts";

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
  /** Files to send after the text. Only a target that takes files gets any. */
  readonly files?: readonly OutboundFile[];
}

/** A file that an answer sends along. */
export interface OutboundFile {
  /** Without a folder. */
  readonly name: string;
  /** Media type. */
  readonly type: string;
  readonly sizeBytes: number;
  /** Resolves to the bytes, the same for every attempt; undefined when they are lost. */
  read(): Promise<Uint8Array | undefined>;
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
  /** Returns what else keeps the platform from sending, and what to do: a sentence without its full stop. */
  problem?(
    settings: Settings,
    env: Readonly<Record<string, string | undefined>>,
  ): Promise<string | undefined>;
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

/** Sends the texts of a message, then its files, as parts of one message: see {@link sendParts}. */
export async function sendWithFiles<Text>(
  texts: readonly Text[],
  { delivery, options }: { readonly delivery: Delivery; readonly options: SendOptions },
  how: {
    readonly sendText: (text: Text, index: number) => Promise<SendOutcome>;
    readonly sendFile: (file: LoadedFile, index: number) => Promise<SendOutcome>;
  },
): Promise<SendOutcome> {
  const parts = [
    ...texts.map((text) => (index: number) => how.sendText(text, index)),
    ...(delivery.files ?? []).map((file) => async (index: number) => {
      const loaded = await loadFile(file);
      return "bytes" in loaded ? how.sendFile(loaded, index) : loaded;
    }),
  ];
  return sendParts(parts, { delivery, options }, (send, index) => send(index));
}

export type LoadedFile = Omit<OutboundFile, "read"> & { readonly bytes: Uint8Array<ArrayBuffer> };

/** Returns the files with their bytes, or the outcome of a message whose bytes are lost. */
export async function loadFiles(
  files: readonly OutboundFile[],
): Promise<readonly LoadedFile[] | SendOutcome> {
  const loaded: LoadedFile[] = [];
  for (const file of files) {
    const each = await loadFile(file);
    if (!("bytes" in each)) return each;
    loaded.push(each);
  }
  return loaded;
}

async function loadFile({ read, ...file }: OutboundFile): Promise<LoadedFile | SendOutcome> {
  const bytes = await read();
  if (bytes) return { ...file, bytes: new Uint8Array(bytes) };
  const error = `The bytes of the file ${JSON.stringify(file.name)} are gone from the home of this service.`;
  return { status: "permanent", error };
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

/** A piece of a message: Markdown, or text from outside that is never read as markup, on any platform. */
export type TextPiece = { readonly markdown: string } | { readonly literal: string };

/** Markdown, or the pieces of a text. */
export type MessageText = string | readonly TextPiece[];

/** What the outbox keeps of a message. */
export interface MessagePayload {
  /** The pieces joined. */
  readonly text: string;
  /** The literal pieces: ranges of `text` in UTF-16 code units, in order, each with its start and its end. */
  readonly literals?: readonly (readonly [start: number, end: number])[];
  readonly extra: Readonly<Record<string, unknown>>;
  /**
   * Present for the answer of an agent: its lines `MEDIA:path` name files in this folder, the absolute working folder of
   * the session, or in the workspace. Null: in the workspace only.
   */
  readonly filesFrom?: string | null;
}

/** Returns the payload of a message to enqueue. */
export function messagePayload(text: MessageText, extra: MessagePayload["extra"] = {}): MessagePayload {
  if (typeof text === "string") return { text, extra };
  const literals: [number, number][] = [];
  let joined = "";
  for (const piece of text) {
    const start = joined.length;
    joined += "literal" in piece ? piece.literal : piece.markdown;
    if ("literal" in piece && joined.length > start) literals.push([start, joined.length]);
  }
  return { text: joined, literals, extra };
}

/** Returns the payload of an agent's answer, which may send files along. `cwd` is the working folder of its session. */
export function answerPayload(
  text: string,
  { cwd = null, extra = {} }: { readonly cwd?: string | null; readonly extra?: MessagePayload["extra"] } = {},
): MessagePayload {
  return { text, extra, filesFrom: cwd };
}

/** Returns the whole text with literal and Markdown pieces as they were written. */
export function joinText(text: MessageText): string {
  return messagePayload(text).text;
}

/** Returns `text` readable and with secrets redacted; empty when nothing visible is left. */
export function cleanText(text: string): string {
  const readable = toReadable(text);
  return isBlank(readable) ? "" : redact(readable);
}

export interface Message {
  /** May be empty. */
  readonly text: MessageText;
  /** `deliver_extra`: keys of the platform; strings are already rendered. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Empty when neither the address nor `extra` names a chat and the platform has no home channel. */
  readonly chat: string;
  readonly thread: string | undefined;
}

export interface ChatAddress {
  readonly chat: string;
  readonly thread?: string;
}

/**
 * Returns the message of a delivery to `platform`, or undefined when the payload is not a {@link MessagePayload}. The
 * address takes precedence over `chat_id`, `message_thread_id` and `thread_id` in `extra`.
 */
export function readMessage(
  platform: string,
  { address, payload }: Pick<Delivery, "address" | "payload">,
): Message | undefined {
  if (!isRecord(payload)) return undefined;
  const { text, literals, extra = {} } = payload;
  if (typeof text !== "string" || typeof extra !== "object" || extra === null) return undefined;
  const metadata = extra as Readonly<Record<string, unknown>>;
  return { text: readPieces(text, literals), extra: metadata, ...chatOf(platform, address, metadata) };
}

/** Without valid ranges the whole text counts as literal. */
function readPieces(text: string, literals: unknown): MessageText {
  if (literals === undefined) return text;
  if (!Array.isArray(literals)) return [{ literal: text }];
  const pieces: TextPiece[] = [];
  let at = 0;
  for (const range of literals as readonly unknown[]) {
    const [start, end] = Array.isArray(range) ? (range as readonly unknown[]) : [];
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end)) return [{ literal: text }];
    const [from, to] = [Number(start), Number(end)];
    if (from < at || to < from || to > text.length) return [{ literal: text }];
    pieces.push({ markdown: text.slice(at, from) }, { literal: text.slice(from, to) });
    at = to;
  }
  return [...pieces, { markdown: text.slice(at) }];
}

/** Returns the chat and thread of a message. The address takes precedence over the extra. */
export function chatOf(
  platform: string,
  address: string,
  extra: Message["extra"],
): Pick<Message, "chat" | "thread"> {
  const { chat, thread } = splitAddress(platform, address);
  return {
    chat: chat || (idOf(extra["chat_id"]) ?? ""),
    thread: thread ?? idOf(extra["message_thread_id"]) ?? idOf(extra["thread_id"]),
  };
}

/** Splits the part of an address after the platform's name into chat and thread. */
export function splitAddress(platform: string, text: string): ChatAddress {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  if (traits?.address !== "chat:thread") return { chat: text };
  // Names of Matrix rooms have colons; threads are events, which begin with $.
  const at = platform === "matrix" ? text.indexOf(":$") : text.indexOf(":");
  return at < 0 ? { chat: text } : { chat: text.slice(0, at), thread: text.slice(at + 1) };
}

/** Returns an id as text. A number counts only when it is a safe integer; an empty id is none. */
export function idOf(value: unknown): string | undefined {
  if (typeof value === "string") return value.trim() || undefined;
  return Number.isSafeInteger(value) ? String(value) : undefined;
}

/** Longer addresses do not fit into the database indexes. */
export const MAX_ID_CHARACTERS = 500;

const KEYS = ["chat_id", "message_thread_id", "thread_id"];

/**
 * Returns what is wrong with the chat and thread ids in the `extra` of a message to `platform`, or undefined. An
 * invalid id would be ignored, so the message would go to the home channel or outside its thread. Unquoted YAML numbers
 * beyond 2^53 have lost digits.
 */
export function idProblem(platform: string, payload: unknown): string | undefined {
  const traits: PlatformTraits | undefined = Object.entries(platforms).find(
    ([name]) => name === platform,
  )?.[1];
  const extra = isRecord(payload) ? payload["extra"] : undefined;
  if (!isRecord(extra) || traits === undefined || traits.address === "none") return undefined;
  const key = KEYS.find((each) => !isId(extra[each]));
  if (key === undefined) return undefined;
  if (typeof extra[key] === "string") return `deliver_extra.${key} is too long for an id.`;
  return typeof extra[key] === "number"
    ? `Quote deliver_extra.${key}: as a number it has lost digits.`
    : `deliver_extra.${key} must be an id: write it as a quoted string.`;
}

/** Null means that the id is not given. */
function isId(value: unknown): boolean {
  if (typeof value === "string") return value.trim().length <= MAX_ID_CHARACTERS;
  return value === undefined || value === null || Number.isSafeInteger(value);
}

export interface PlatformTraits {
  /** As people write it. */
  readonly title: string;
  /**
   * The form of an address after the platform's name: a chat with an optional thread after a colon, a chat that may
   * contain colons, or nothing.
   */
  readonly address: "chat" | "chat:thread" | "none";
  /** Whether its target sends the files of a message. */
  readonly takesFiles?: true;
}

export const platforms = {
  log: { title: "Log", address: "none" },
  local: { title: "File in the home", address: "none" },
  webhook: { title: "Webhook", address: "none" },
  github_comment: { title: "GitHub comment", address: "none" },
  telegram: { title: "Telegram", address: "chat:thread", takesFiles: true },
  discord: { title: "Discord", address: "chat:thread", takesFiles: true },
  slack: { title: "Slack", address: "chat:thread", takesFiles: true },
  signal: { title: "Signal", address: "chat", takesFiles: true },
  sms: { title: "SMS", address: "chat" },
  email: { title: "Email", address: "chat", takesFiles: true },
  whatsapp: { title: "WhatsApp", address: "chat" },
  matrix: { title: "Matrix", address: "chat:thread", takesFiles: true },
  mattermost: { title: "Mattermost", address: "chat:thread" },
  homeassistant: { title: "Home Assistant", address: "chat" },
  dingtalk: { title: "DingTalk", address: "chat" },
  feishu: { title: "Feishu", address: "chat:thread" },
  wecom: { title: "WeCom", address: "chat" },
  weixin: { title: "WeChat", address: "chat" },
  bluebubbles: { title: "BlueBubbles", address: "chat" },
  qqbot: { title: "QQ", address: "chat" },
} as const satisfies Readonly<Record<string, PlatformTraits>>;

/**
 * Returns `text` as an E.164 phone number (+, country code and number, up to 15 digits, without separators), or
 * undefined for anything else, including a number without a country code.
 */
export function readPhoneNumber(text: string): string | undefined {
  const bare = text.replace(/[\s().\u00a0-]+/g, "");
  return /^\+[1-9]\d{6,14}$/.test(bare) ? bare : undefined;
}

/** The outcome of an attempt. `cut`: it timed out, its lease was lost, or the service stopped. */
type AttemptOutcome = SendOutcome["status"] | "throttled" | "cut";

/** The metrics of outbound messages. */
export interface DeliveryMetrics {
  /** Counts an attempt that ended in this process. */
  attempted(platform: string, outcome: AttemptOutcome): void;
  /** Records that a message arrived `seconds` after it was enqueued. */
  delivered(platform: string, seconds: number): void;
}

interface MeterOptions {
  readonly metrics: DeliveryMetrics;
  readonly clock: Pick<Clock, "now">;
}

/** Returns the same targets with every attempt counted. */
export function meterTargets(targets: Targets, options: MeterOptions): Targets {
  return new Map([...targets].map(([name, target]) => [name, meterTarget(target, options)]));
}

/** A target's properties may change while it lives, so everything but `send` is read from it. */
function meterTarget(target: Target, options: MeterOptions): Target {
  const send = measured(target, options);
  return new Proxy(target, {
    get(_, key) {
      if (key === "send") return send;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

function measured(target: Target, { metrics, clock }: MeterOptions): Target["send"] {
  return async (delivery, options) => {
    const { signal } = options;
    let isOver = false;
    const end = (outcome: AttemptOutcome) => {
      if (isOver) return;
      isOver = true;
      signal.removeEventListener("abort", onAbort);
      metrics.attempted(target.name, outcome);
      if (outcome === "delivered") {
        metrics.delivered(target.name, Math.max(0, clock.now() - delivery.createdAtMs) / 1000);
      }
    };
    // After an abort the attempt is over, whatever the target still does.
    const onAbort = () => end("cut");
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    try {
      const outcome = await target.send(delivery, options);
      const isThrottled = outcome.status === "retry" && outcome.isThrottled === true;
      end(isThrottled ? "throttled" : outcome.status);
      return outcome;
    } catch (error) {
      end("retry");
      throw error;
    }
  };
}
