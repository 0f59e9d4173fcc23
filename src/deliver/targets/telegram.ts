import { registerSecret } from "../../base/observe.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import type { TelegramAnswer, TelegramMessage } from "../../../generated/delivery/client/types.gen.ts";
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
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts, type Part } from "../text/parts.ts";

type Settings = PlatformSettings<"telegram">;

const words = { title: "Telegram", name: "telegram" };
/** Bot API, sendMessage: 4096 characters after entities are parsed. */
const TEXT_LIMIT = 4096;
/** The general topic of a forum is not sent: the API does not accept its number. */
const GENERAL_TOPIC = 1;

/** Telegram Bot API 10.1, sendMessage: HTML text and files, including in topics. The API does not deduplicate. */
export const telegram: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (TELEGRAM_BOT_TOKEN)"] : []),
  create({ token = "", base_url: baseUrl = "https://api.telegram.org", ...settings }, { clock, version }) {
    registerSecret(token);
    const call = createCall({ title: words.title, baseUrl, clock, version });
    return {
      name: words.name,
      ...homeOf(settings),
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const problem = findProblem(message);
        if (problem !== undefined) return { status: "permanent", error: problem };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const mayBeEmpty = delivery.files !== undefined;
        const parts = renderParts(message.text, { format: "telegram", limit, unit: "utf16", mayBeEmpty });
        const chat = { call, token, message, id: message.chat };
        return sendWithFiles(
          parts,
          { delivery, options },
          {
            sendText: (part) => sendPart(chat, part, options),
            sendFile: (file) => sendFile(chat, file, options),
          },
        );
      },
    };
  },
};

interface Chat {
  readonly call: Call;
  readonly token: string;
  readonly message: Message;
  /** Changes when the group becomes a supergroup. */
  id: string;
}

/** Sends the plain text when the API rejects the HTML, and follows a group that moved, each once. */
async function sendPart(chat: Chat, part: Part, options: SendOptions): Promise<SendOutcome> {
  let answer = await following(chat, () => post(chat, { text: part.text, isHtml: true }, options));
  if (answer.kind === "answer" && cannotParse(answer)) {
    answer = await post(chat, { text: part.plain, isHtml: false }, options);
  }
  return answer.kind === "none" ? answer.outcome : outcomeOf(answer);
}

/** Makes the request again, once, in the group that replaced a group. */
async function following(chat: Chat, request: () => Promise<Answer>): Promise<Answer> {
  const answer = await request();
  const moved = answer.kind === "answer" ? answer.body?.parameters?.migrate_to_chat_id : undefined;
  if (moved === undefined) return answer;
  chat.id = String(moved);
  return request();
}

type Answer = PlatformAnswer<TelegramAnswer> | NoAnswer;

/** sendPhoto: types that Telegram shows. It refuses images that are too wide or too high. */
const PHOTOS = new Set(["image/png", "image/jpeg", "image/webp"]);

/** Sends an image as a photo, and as a document when the API refuses the photo. */
async function sendFile(chat: Chat, file: LoadedFile, options: SendOptions): Promise<SendOutcome> {
  let answer = await following(chat, () => postFile(chat, file, { isPhoto: PHOTOS.has(file.type), options }));
  const isRefused =
    answer.kind === "answer" && answer.status === 400 && /photo|image/i.test(answer.body?.description ?? "");
  if (PHOTOS.has(file.type) && isRefused) answer = await postFile(chat, file, { isPhoto: false, options });
  return answer.kind === "none" ? answer.outcome : outcomeOf(answer);
}

function postFile(
  { call, token, message, id }: Chat,
  { bytes, name, type }: LoadedFile,
  { isPhoto, options }: { readonly isPhoto: boolean; readonly options: SendOptions },
): Promise<Answer> {
  const file = new File([bytes], name, { type });
  const place = { chat_id: id, ...placeOf(message) };
  const path = { token };
  return call(
    "TelegramAnswer",
    (client) =>
      isPhoto
        ? client.telegramSendPhoto({ path, body: { ...place, photo: file } })
        : client.telegramSendDocument({ path, body: { ...place, document: file } }),
    options,
  );
}

/** Returns the topic of a message, and whether it makes a sound. */
function placeOf({
  thread,
  extra,
}: Message): Pick<TelegramMessage, "message_thread_id" | "disable_notification"> {
  const topic = thread === undefined ? undefined : Number(thread);
  return {
    ...(topic === undefined || topic === GENERAL_TOPIC ? {} : { message_thread_id: topic }),
    ...(extra["disable_notification"] === true ? { disable_notification: true } : {}),
  };
}

function post(
  { call, token, message, id }: Chat,
  { text, isHtml }: { readonly text: string; readonly isHtml: boolean },
  options: SendOptions,
): Promise<Answer> {
  const body: TelegramMessage = {
    chat_id: id,
    text,
    ...(isHtml ? { parse_mode: "HTML" } : {}),
    ...placeOf(message),
    ...(message.extra["disable_web_page_preview"] === true
      ? { link_preview_options: { is_disabled: true } }
      : {}),
  };
  return call("TelegramAnswer", (client) => client.telegramSendMessage({ path: { token }, body }), options);
}

function outcomeOf(answer: PlatformAnswer<TelegramAnswer>): SendOutcome {
  const { body } = answer;
  if (body?.ok === true) return { status: "delivered" };
  const failure = outcomeOfAnswer(answer, { ...words, reason: body?.description });
  const seconds = body?.parameters?.retry_after;
  if (failure.status === "retry" && seconds !== undefined) return throttled(failure.error, seconds * 1000);
  return failure.status === "permanent" ? { ...failure, error: withHint(failure, body) } : failure;
}

function withHint({ error }: SendFailure, body: TelegramAnswer | undefined): string {
  const description = body?.description ?? "";
  if (/chat not found/i.test(description)) return `${error} Add the bot to the chat, or write to it first.`;
  if (/thread not found/i.test(description)) return `${error} Check that the topic exists.`;
  return error;
}

function cannotParse({ status, body }: PlatformAnswer<TelegramAnswer>): boolean {
  return status === 400 && /can't parse entities/i.test(body?.description ?? "");
}

function findProblem({ chat, thread }: Message): string | undefined {
  if (chat === "") {
    return "The message has no chat: set deliver_extra.chat_id, or platforms.telegram.home_channel (TELEGRAM_HOME_CHANNEL).";
  }
  if (!/^(-?\d{1,20}|@\w{1,64})$/.test(chat))
    return "The chat must be a number, or the @name of a public channel.";
  if (thread !== undefined && !/^\d{1,10}$/.test(thread)) return "The topic (thread_id) must be a number.";
  return undefined;
}

function homeOf({ home_channel: chat, home_thread: thread }: Settings): { readonly home?: string } {
  if (chat === undefined) return {};
  return { home: thread === undefined ? chat : `${chat}:${thread}` };
}
