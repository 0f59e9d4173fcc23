import { registerSecret } from "../../../base/observe/redact.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import type { MatrixAnswer, MatrixMessage } from "../../../../generated/delivery/client/types.gen.ts";
import { createCall, type Call, type NoAnswer, type PlatformAnswer } from "../../platform/call.ts";
import { readMessage, type Message } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import { repeatMark } from "../../text/repeat-mark.ts";
import type { Delivery, SendOptions, SendOutcome } from "../../target.ts";
import { renderParts, type Part } from "../../text/parts.ts";
import { createRooms } from "./rooms.ts";
import { isTooLarge, matrixWords, outcomeOf } from "./outcome.ts";

type Settings = PlatformSettings<"matrix">;

/** An event has up to 65536 bytes with all that servers add, and the text stands in it twice. */
const TEXT_LIMIT = 4000;
const MARK_LENGTH = 64;

/**
 * Client-Server API 1.4 and later: texts with an HTML form, in threads too; nobody is mentioned. A repeat has the same
 * transaction id, and makes no second message. Encrypted rooms are refused unless `allow_encrypted` is set.
 */
export const matrix: Platform<Settings> = {
  name: matrixWords.name,
  missing: ({ homeserver, access_token: token }) => [
    ...(homeserver === undefined ? ["homeserver (MATRIX_HOMESERVER)"] : []),
    ...(token === undefined ? ["access_token (MATRIX_ACCESS_TOKEN)"] : []),
  ],
  create({ homeserver = "", access_token: token = "", ...settings }, { clock, version }) {
    registerSecret(token.trim());
    const call = createCall({ title: matrixWords.title, baseUrl: homeserver, clock, version });
    const headers = { authorization: `Bearer ${token.trim()}` };
    const rooms = createRooms({ call, headers, clock, allowsEncrypted: settings.allow_encrypted === true });
    return {
      name: matrixWords.name,
      supportsIdempotency: true,
      ...(settings.home_channel === undefined ? {} : { home: settings.home_channel }),
      async send(delivery, options) {
        const message = readMessage(matrixWords.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const room = await rooms.find(message.chat, options);
        if (room.kind === "none") return room.outcome;
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "matrix", limit, unit: "codepoints" });
        const request: SendRequest = {
          call,
          headers,
          roomId: room.id,
          message,
          delivery,
          options,
          last: message.thread,
        };
        return sendParts(parts, request, (part, index) => sendPart(request, part, index));
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
  /** The newest event of the thread that is known. */
  last: string | undefined;
}

/** An event that is too large goes out once more without its HTML form. */
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

/** Clients that know no threads show it as a reply to the newest of its messages. */
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
    return "No room is named: set deliver_extra.chat_id, or platforms.matrix.home_channel (MATRIX_HOME_CHANNEL).";
  }
  if (!/^[!#][^\s\p{Cc}]{1,254}$/u.test(chat)) {
    return "The room must be its id, such as !abc:example.org, or an alias, such as #team:example.org.";
  }
  if (thread !== undefined && !/^\$[^\s\p{Cc}]{1,254}$/u.test(thread)) {
    return "The thread (thread_id) must be the id of the event that began it, which begins with $.";
  }
  return undefined;
}
