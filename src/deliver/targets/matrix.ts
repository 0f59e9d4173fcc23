import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { MatrixAnswer, MatrixMessage } from "../../../generated/delivery/client/types.gen.ts";
import {
  createCall,
  type Call,
  type NoAnswer,
  type PlatformAnswer,
  type SendFailure,
  outcomeOfAnswer,
  throttled,
} from "../platform/call.ts";
import {
  readMessage,
  type Message,
  sendWithFiles,
  type LoadedFile,
  type Platform,
  repeatMark,
  type Delivery,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts, type Part } from "../text/parts.ts";
import type { Clock } from "../../base/time.ts";

type Settings = PlatformSettings<"matrix">;

const words = { title: "Matrix", name: "matrix" };
/** An event has up to 65536 bytes including what servers add, and contains the text twice. */
const TEXT_LIMIT = 4000;
const MARK_LENGTH = 64;

/**
 * Matrix Client-Server API 1.4 and later: text with an HTML form, and files, including in threads, without mentions. A
 * retry has the same transaction id, so it makes no second message. Encrypted rooms are refused unless
 * `allow_encrypted` is set.
 */
export const matrix: Platform<Settings> = {
  name: words.name,
  missing: ({ homeserver, access_token: token }) => [
    ...(homeserver === undefined ? ["homeserver (MATRIX_HOMESERVER)"] : []),
    ...(token === undefined ? ["access_token (MATRIX_ACCESS_TOKEN)"] : []),
  ],
  create({ homeserver = "", access_token: token = "", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: words.title, baseUrl: homeserver, clock, version });
    const headers = { authorization: `Bearer ${token.trim()}` };
    const rooms = createRooms({ call, headers, clock, allowsEncrypted: settings.allow_encrypted === true });
    return {
      name: words.name,
      supportsIdempotency: true,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const room = await rooms.find(message.chat, options);
        if (room.kind === "none") return room.outcome;
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const mayBeEmpty = delivery.files !== undefined;
        const parts = renderParts(message.text, { format: "matrix", limit, unit: "codepoints", mayBeEmpty });
        const request: SendRequest = {
          call,
          headers,
          roomId: room.id,
          message,
          delivery,
          options,
          last: message.thread,
        };
        return sendWithFiles(parts, request, {
          sendText: (part, index) => sendPart(request, part, index),
          sendFile: (file, index) => sendFile(request, file, index),
        });
      },
    };
  },
};

interface SendRequest {
  readonly call: Call;
  readonly headers: { readonly authorization: string };
  readonly roomId: string;
  readonly message: Message;
  readonly delivery: Delivery;
  readonly options: SendOptions;
  /** The newest known event of the thread. */
  last: string | undefined;
}

/** Sends a too large event again, once, without its HTML form. */
async function sendPart(request: SendRequest, part: Part, index: number): Promise<SendOutcome> {
  const mark = repeatMark(request.delivery, index, MARK_LENGTH);
  let answer = await put(request, mark, bodyOf(request, part, part.html));
  if (part.html !== undefined && answer.kind === "answer" && isTooLarge(answer)) {
    answer = await put(request, `${mark}.plain`, bodyOf(request, part, undefined));
  }
  if (answer.kind === "none") return answer.outcome;
  request.last = request.last === undefined ? undefined : (answer.body?.event_id ?? request.last);
  return outcomeOf(answer, "event_id");
}

/** Stores the file on the homeserver; the event that names it is sent once, like a text. */
async function sendFile(request: SendRequest, file: LoadedFile, index: number): Promise<SendOutcome> {
  const { call, headers, message, options } = request;
  const { name, type, sizeBytes } = file;
  const stored = await call(
    "MatrixAnswer",
    (client) =>
      client.matrixUpload({
        query: { filename: name },
        body: new Blob([file.bytes], { type }),
        headers: { ...headers, "Content-Type": type },
      }),
    options,
  );
  const url = stored.kind === "answer" && stored.status < 300 ? stored.body?.content_uri : undefined;
  if (url === undefined) return lookupFailure(stored);
  const { thread } = message;
  const answer = await put(request, repeatMark(request.delivery, index, MARK_LENGTH), {
    msgtype: type.startsWith("image/") ? "m.image" : "m.file",
    body: name,
    filename: name,
    url,
    info: { mimetype: type, size: sizeBytes },
    "m.mentions": {},
    ...(thread === undefined ? {} : { "m.relates_to": relationTo(thread, request.last ?? thread) }),
  });
  if (answer.kind === "none") return answer.outcome;
  request.last = request.last === undefined ? undefined : (answer.body?.event_id ?? request.last);
  return outcomeOf(answer, "event_id");
}

function put(
  { call, headers, roomId, options }: SendRequest,
  txnId: string,
  body: MatrixMessage,
): Promise<PlatformAnswer<MatrixAnswer> | NoAnswer> {
  const path = { roomId, txnId };
  return call("MatrixAnswer", (client) => client.matrixSendMessage({ path, body, headers }), options);
}

function bodyOf({ message, last }: SendRequest, part: Part, html: string | undefined): MatrixMessage {
  const { thread, extra } = message;
  return {
    msgtype: extra["notice"] === true ? "m.notice" : "m.text",
    body: html === undefined ? part.plain : part.text,
    ...(html === undefined ? {} : { format: "org.matrix.custom.html", formatted_body: html }),
    "m.mentions": {},
    ...(thread === undefined ? {} : { "m.relates_to": relationTo(thread, last ?? thread) }),
  };
}

/** Clients without threads show a reply to the newest message of the thread. */
function relationTo(thread: string, last: string): NonNullable<MatrixMessage["m.relates_to"]> {
  return {
    rel_type: "m.thread",
    event_id: thread,
    is_falling_back: true,
    "m.in_reply_to": { event_id: last },
  };
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "The message has no room: set deliver_extra.chat_id, or platforms.matrix.home_channel (MATRIX_HOME_CHANNEL).";
  }
  if (!/^[!#][^\s\p{Cc}]{1,254}$/u.test(chat)) {
    return "The room must be its id, such as !abc:example.org, or an alias, such as #team:example.org.";
  }
  if (thread !== undefined && !/^\$[^\s\p{Cc}]{1,254}$/u.test(thread)) {
    return "The thread (thread_id) must be the id of its first event, which begins with $.";
  }
  return undefined;
}

interface RoomsOptions {
  readonly call: Call;
  readonly headers: { readonly authorization: string };
  readonly clock: Clock;
  /** Whether to skip the check for encryption. */
  readonly allowsEncrypted: boolean;
}

type FoundRoom = { readonly kind: "room"; readonly id: string } | NoAnswer;

interface Rooms {
  /** Finds a room by its id or alias and checks that plain text may be sent there. Results are cached. */
  find(chat: string, options: SendOptions): Promise<FoundRoom>;
}

/** Lifetime of a cached room: aliases may move, and rooms may become encrypted. */
const KNOWN_MS = 600_000;
const MAX_KNOWN = 1000;

function createRooms({ call, headers, clock, allowsEncrypted }: RoomsOptions): Rooms {
  const known = new Map<string, { readonly id: string; readonly untilMs: number }>();
  return {
    async find(chat, options) {
      const entry = known.get(chat);
      if (entry !== undefined && entry.untilMs > clock.now()) return { kind: "room", id: entry.id };
      const room = chat.startsWith("#")
        ? await resolve(chat, options)
        : ({ kind: "room", id: chat } as const);
      if (room.kind === "none") return room;
      const refusal = allowsEncrypted ? undefined : await refusalOf(room.id, options);
      if (refusal !== undefined) return { kind: "none", outcome: refusal };
      known.delete(chat);
      known.set(chat, { id: room.id, untilMs: clock.now() + KNOWN_MS });
      const [oldest] = known.keys();
      if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
      return room;
    },
  };

  async function resolve(roomAlias: string, options: SendOptions): Promise<FoundRoom> {
    const path = { roomAlias };
    const answer = await call("MatrixAnswer", (client) => client.matrixFindRoom({ path, headers }), options);
    if (answer.kind === "answer" && answer.status === 200 && answer.body?.room_id !== undefined) {
      return { kind: "room", id: answer.body.room_id };
    }
    return { kind: "none", outcome: lookupFailure(answer) };
  }

  /** Returns undefined for a room that accepts plain text. */
  async function refusalOf(roomId: string, options: SendOptions): Promise<SendFailure | undefined> {
    const path = { roomId };
    const answer = await call(
      "MatrixAnswer",
      (client) => client.matrixEncryption({ path, headers }),
      options,
    );
    if (isUnencrypted(answer)) return undefined;
    if (answer.kind === "none" || answer.status !== 200 || answer.body === undefined)
      return lookupFailure(answer);
    return {
      status: "permanent",
      error:
        "The room is encrypted, and agentd does not encrypt. Use another room, or set platforms.matrix.allow_encrypted to send plain text there.",
    };
  }
}

function isUnencrypted(answer: PlatformAnswer<MatrixAnswer> | NoAnswer): boolean {
  return answer.kind === "answer" && answer.status === 404 && answer.body?.errcode === "M_NOT_FOUND";
}

type Answer = PlatformAnswer<MatrixAnswer>;

const join = "Invite the user to the room and join it: agentd does not join rooms.";
/** What to do about errors, by `errcode`. */
const hints: ReadonlyMap<string, string> = new Map([
  ["M_UNKNOWN_TOKEN", "Sign in again, and set platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_MISSING_TOKEN", "Set platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_USER_DEACTIVATED", "Send as another user: platforms.matrix.access_token (MATRIX_ACCESS_TOKEN)."],
  ["M_USER_LOCKED", "Ask the operator of the homeserver to unlock the user."],
  ["M_FORBIDDEN", join],
  ["M_GUEST_ACCESS_FORBIDDEN", join],
  ["M_NOT_FOUND", "Check that the room exists."],
  ["M_TOO_LARGE", "Lower platforms.matrix.text_limit."],
  ["M_CONSENT_NOT_GIVEN", "Sign in as that user once and accept the terms of the homeserver."],
  ["M_RESOURCE_LIMIT_EXCEEDED", "The homeserver has reached its limit. Ask its operator."],
  ["M_UNRECOGNIZED", "Check that platforms.matrix.homeserver is the URL of a homeserver."],
]);

/** Returns the outcome of a request whose successful response has `field`. */
function outcomeOf(answer: Answer, field: "event_id"): SendOutcome {
  const { status, body } = answer;
  if (status < 300 && body?.[field] !== undefined) return { status: "delivered" };
  return failureOf(answer);
}

/** Returns the failure of a lookup, which sends no message. */
function lookupFailure(answer: Answer | NoAnswer): SendFailure {
  const failure = answer.kind === "none" ? answer.outcome : failureOf(answer);
  if (failure.status !== "unknown") return failure;
  return { status: "retry", error: `${failure.baseError ?? failure.error} No message was sent.` };
}

function isTooLarge({ status, body }: Answer): boolean {
  return status === 413 || body?.errcode === "M_TOO_LARGE";
}

function failureOf(answer: Answer): SendFailure {
  const { status, body, retryAfterMs } = answer;
  const errcode = body?.errcode;
  const reason = errcode === undefined ? undefined : `${errcode} ${body?.error ?? ""}`;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (status === 429 || errcode === "M_LIMIT_EXCEEDED") {
    return throttled(failure.error, retryAfterMs ?? body?.retry_after_ms);
  }
  const hint = hints.get(errcode ?? (status === 413 ? "M_TOO_LARGE" : ""));
  return hint === undefined || failure.status !== "permanent"
    ? failure
    : { ...failure, error: `${failure.error} ${hint}` };
}
