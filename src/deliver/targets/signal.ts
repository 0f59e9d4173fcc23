import type {
  SignalRpcRequest,
  SignalRestAnswer,
  SignalRpcAnswer,
  SignalSent,
} from "../../../generated/delivery/client/types.gen.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import {
  createCall,
  type Call,
  type PlatformAnswer,
  type SendFailure,
  outcomeOfAnswer,
  summarize,
  throttled,
} from "../platform/call.ts";
import {
  readMessage,
  type Message,
  readPhoneNumber,
  sendWithFiles,
  type LoadedFile,
  type Platform,
  type SendOptions,
  type SendOutcome,
} from "../target.ts";
import { renderParts, type Part } from "../text/parts.ts";
import { isRecord } from "../../base/data.ts";

type Settings = PlatformSettings<"signal">;

/** Our own limit: Signal collapses longer texts. */
const TEXT_LIMIT = 4000;

/**
 * signal-cli's HTTP daemon, JSON-RPC method send (signal-cli-jsonrpc(5)), or signal-cli-rest-api, POST /v2/send. Styles
 * are sent beside the text. Signal does not deduplicate.
 */
export const signal: Platform<Settings> = {
  name: "signal",
  missing: ({ base_url: baseUrl, account }) => [
    ...(baseUrl === undefined ? ["base_url (SIGNAL_HTTP_URL)"] : []),
    ...(account === undefined ? ["account (SIGNAL_ACCOUNT)"] : []),
  ],
  create({ base_url: baseUrl = "", account = "", home_channel: home, ...settings }, { clock, version }) {
    const call = createCall({ title: "Signal", baseUrl, clock, version });
    const post = settings.api === "rest" ? postRest : postRpc;
    return {
      name: "signal",
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage("signal", delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const recipient = readRecipient(message);
        if (typeof recipient === "string") return { status: "permanent", error: recipient };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const mayBeEmpty = delivery.files !== undefined;
        const parts = renderParts(message.text, { format: "signal", limit, unit: "utf16", mayBeEmpty });
        const send = (part: SignalPart, index: number) =>
          post({ call, account, recipient, id: `${delivery.id}-${index + 1}` }, part, options);
        return sendWithFiles(
          parts,
          { delivery, options },
          {
            sendText: send,
            sendFile: (file, index) => send({ text: "", attachment: dataUrlOf(file) }, index),
          },
        );
      },
    };
  },
};

interface SendRequest {
  readonly call: Call;
  /** The sender. */
  readonly account: string;
  readonly recipient: SignalRecipient;
  /** Id of the request. */
  readonly id: string;
}

/** A text, or a file without one. */
interface SignalPart extends Pick<Part, "text" | "styles"> {
  /** Data URL with the name of the file. */
  readonly attachment?: string;
}

/** signal-cli, manual page, `--attachment`: "data:<MIME-TYPE>;filename=<FILENAME>;base64,<BASE64 ENCODED DATA>". */
function dataUrlOf({ name, type, bytes }: LoadedFile): string {
  return `data:${type};filename=${name.replace(/[;,\s]+/g, "_")};base64,${Buffer.from(bytes).toString("base64")}`;
}

async function postRpc(
  { call, account, recipient, id }: SendRequest,
  { text, styles = [], attachment }: SignalPart,
  options: SendOptions,
): Promise<SendOutcome> {
  const body: SignalRpcRequest = {
    jsonrpc: "2.0",
    method: "send",
    id,
    params: {
      account,
      ...rpcRecipient(recipient),
      message: text,
      ...(styles.length > 0 ? { textStyle: [...styles] } : {}),
      ...(attachment === undefined ? {} : { attachment: [attachment] }),
    },
  };
  const answer = await call("SignalRpcAnswer", (client) => client.signalRpcSend({ body }), options);
  return answer.kind === "none" ? answer.outcome : rpcOutcome(answer);
}

function rpcRecipient({
  kind,
  id,
}: SignalRecipient): Pick<SignalRpcRequest["params"], "recipient" | "groupId"> {
  if (kind === "group") return { groupId: id };
  return { recipient: [kind === "username" ? `u:${id}` : id] };
}

async function postRest(
  { call, account, recipient: { kind, id } }: SendRequest,
  part: SignalPart,
  options: SendOptions,
): Promise<SendOutcome> {
  const styled = styledText(part);
  const body = {
    message: styled ?? part.text,
    number: account,
    recipients: [kind === "group" ? restGroup(id) : id],
    text_mode: styled === undefined ? ("normal" as const) : ("styled" as const),
    ...(part.attachment === undefined ? {} : { base64_attachments: [part.attachment] }),
  };
  const answer = await call("SignalRestAnswer", (client) => client.signalRestSend({ body }), options);
  return answer.kind === "none" ? answer.outcome : restOutcome(answer);
}

type SignalRecipient =
  /** A phone number or a UUID. */
  | { readonly kind: "person"; readonly id: string }
  /** A user name with its number, such as `maria.42`. */
  | { readonly kind: "username"; readonly id: string }
  /** The id as signal-cli shows it, base64. */
  | { readonly kind: "group"; readonly id: string };

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const USERNAME = /^(?:u:)?([a-z_][a-z0-9_]{2,31}\.\d{2,20})$/i;
const GROUP = /^[A-Za-z0-9+/_-]{22,86}={0,2}$/;

/**
 * Parses a chat: a phone number, a UUID, a user name, `group:` and the id of a group, or `group.` and that id in base64
 * again, as signal-cli-rest-api writes it. `group_id` in `deliver_extra` takes precedence. Returns a string when the
 * chat is invalid: what is wrong.
 */
function readRecipient({ chat, extra }: Message): SignalRecipient | string {
  const group = extra["group_id"] ?? extra["groupId"];
  if (group !== undefined) return groupOf(typeof group === "string" ? group : "");
  if (chat === "") {
    return "The message has no chat: set deliver_extra.chat_id, or platforms.signal.home_channel (SIGNAL_HOME_CHANNEL).";
  }
  if (/^group[:.]/.test(chat)) return groupOf(chat);
  const id = readPhoneNumber(chat) ?? (UUID.test(chat) ? chat : undefined);
  if (id !== undefined) return { kind: "person", id };
  const username = USERNAME.exec(chat)?.[1];
  if (username !== undefined) return { kind: "username", id: username };
  return "The chat must be a phone number with + and country code (quoted in deliver_extra, or YAML drops the +), a UUID, a user name such as maria.42, or group: and the id of a group.";
}

/** Returns a group id in the form of signal-cli-rest-api. */
function restGroup(id: string): string {
  return `group.${btoa(id)}`;
}

function groupOf(text: string): SignalRecipient | string {
  const id = text.startsWith("group.") ? decoded(text.slice("group.".length)) : text.replace(/^group:/, "");
  return GROUP.test(id)
    ? { kind: "group", id }
    : "The group must be its id in base64, as `signal-cli listGroups` shows it.";
}

function decoded(text: string): string {
  try {
    return atob(text);
  } catch {
    return "";
  }
}

const marks: Readonly<Record<string, string>> = {
  BOLD: "**",
  ITALIC: "*",
  STRIKETHROUGH: "~",
  SPOILER: "||",
  MONOSPACE: "`",
};

interface Span {
  readonly start: number;
  readonly end: number;
  readonly mark: string;
}

/**
 * Returns a part with its styles as marks, for `text_mode: styled` of signal-cli-rest-api. Returns undefined when
 * nothing is styled, the text contains mark characters, or spans overlap; then the text is sent plain.
 */
export function styledText({ text, styles = [] }: Pick<Part, "text" | "styles">): string | undefined {
  if (styles.length === 0 || /[*~|`\\]/.test(text)) return undefined;
  const spans = styles.map(readSpan).toSorted((a, b) => a.start - b.start);
  let styled = "";
  let at = 0;
  for (const { start, end, mark } of spans) {
    if (start < at || mark === "") return undefined;
    styled += `${text.slice(at, start)}${mark}${text.slice(start, end)}${mark}`;
    at = end;
  }
  return styled + text.slice(at);
}

function readSpan(style: string): Span {
  const [start = "0", length = "0", name = ""] = style.split(":");
  return { start: Number(start), end: Number(start) + Number(length), mark: marks[name] ?? "" };
}

type RpcError = NonNullable<SignalRpcAnswer["error"]>;
type Result = NonNullable<SignalSent["results"]>[number];

const words = { title: "Signal", name: "signal" };

const UNTRUSTED =
  "The recipient's safety number has changed. Compare it, run `trust` in signal-cli, and retry the message.";
const UNREGISTERED = "The recipient is not registered with Signal. Check the chat.";
const CAPTCHA =
  "If Signal asks for a captcha, submit its solution with signal-cli's submitRateLimitChallenge (rest: POST /v1/accounts/{number}/rate-limit-challenge).";

/** signal-cli, SignalJsonRpcCommandHandler. */
const USER_ERROR = -1;
const UNTRUSTED_KEY = -4;
const RATE_LIMIT = -5;
/** JSON-RPC 2.0. */
const INVALID_REQUEST = -32_600;
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/**
 * Returns the outcome of a JSON-RPC response. Errors also come with HTTP 200 or 201. With several recipients, one
 * success is enough.
 */
function rpcOutcome(answer: PlatformAnswer<SignalRpcAnswer>): SendOutcome {
  const { body } = answer;
  if (body?.error) return errorOutcome(answer, body.error);
  if (!body?.result) return outcomeOfAnswer(answer, words);
  const { results = [] } = body.result;
  return resultsOutcome(results) ?? { status: "delivered" };
}

function errorOutcome(answer: PlatformAnswer<SignalRpcAnswer>, error: RpcError): SendFailure {
  const reason = error.message ?? undefined;
  const results = resultsIn(error);
  const summary = summarize(answer, { ...words, reason: `${reason ?? "an error"} (${error.code})` });
  switch (error.code) {
    case RATE_LIMIT:
      return throttled(`${summary} ${CAPTCHA}`, waitOf(results) ?? waitIn(reason));
    case UNTRUSTED_KEY:
      return { status: "permanent", error: UNTRUSTED };
    case USER_ERROR:
      return resultsOutcome(results) ?? userError(summary, reason);
    case INVALID_PARAMS:
      return {
        status: "permanent",
        error: `${summary} Check that signal-cli has the account platforms.signal.account (SIGNAL_ACCOUNT).`,
      };
    case INVALID_REQUEST:
    case METHOD_NOT_FOUND:
      return { status: "permanent", error: `${summary} Update signal-cli.` };
    default:
      return { status: "retry", error: summary };
  }
}

/** Returns the valid results in `data`, whose form differs between versions. */
function resultsIn({ data }: RpcError): readonly Result[] {
  const response = isRecord(data) ? data["response"] : undefined;
  const results = isRecord(response) ? response["results"] : undefined;
  return Array.isArray(results) ? results.filter(isResult) : [];
}

function isResult(value: unknown): value is Result {
  if (!isRecord(value)) return false;
  const { type, retryAfterSeconds: seconds } = value;
  return typeof type === "string" && (seconds === undefined || Number.isSafeInteger(seconds));
}

function userError(summary: string, reason = ""): SendFailure {
  if (isThrottling(reason)) return throttled(`${summary} ${CAPTCHA}`, waitIn(reason));
  if (/not registered|unregistered/i.test(reason)) return { status: "permanent", error: UNREGISTERED };
  return { status: "permanent", error: `${summary} Check the chat.` };
}

/**
 * Returns the failure of all recipients, or undefined when one succeeded or none is listed. Temporary failures take
 * precedence over permanent ones.
 */
function resultsOutcome(results: readonly Result[]): SendFailure | undefined {
  const types = new Set(results.map(({ type }) => type));
  if (types.size === 0 || types.has("SUCCESS")) return undefined;
  if (types.has("RATE_LIMIT_FAILURE")) {
    return throttled(`Signal limits the rate. ${CAPTCHA}`, waitOf(results));
  }
  if (types.has("IDENTITY_FAILURE")) return { status: "permanent", error: UNTRUSTED };
  if (types.has("UNREGISTERED_FAILURE") && types.size === 1)
    return { status: "permanent", error: UNREGISTERED };
  return { status: "retry", error: `signal-cli could not send the message (${[...types].join(", ")}).` };
}

function waitOf(results: readonly Result[]): number | undefined {
  const seconds = Math.max(...results.map(({ retryAfterSeconds = 0 }) => retryAfterSeconds), 0);
  return seconds > 0 ? seconds * 1000 : undefined;
}

function waitIn(reason = ""): number | undefined {
  const seconds = /\bretry[ -]?after:?\s{0,3}(\d{1,7})\b/i.exec(reason)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

function isThrottling(reason: string): boolean {
  return /rate.?limit|captcha|challenge/i.test(reason);
}

/**
 * Returns the outcome of signal-cli-rest-api: 201 with a timestamp, else 400 with the error of signal-cli, or 429 with
 * challenge tokens.
 */
function restOutcome(answer: PlatformAnswer<SignalRestAnswer>): SendOutcome {
  const { status, body, retryAfterMs } = answer;
  if (status < 300 && body?.timestamp !== undefined) return { status: "delivered" };
  const reason = body?.error;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  if (reason === undefined) return failure;
  if (status === 429 || body?.challenge_tokens?.length || isThrottling(reason)) {
    return throttled(`${failure.error} ${CAPTCHA}`, retryAfterMs ?? waitIn(reason));
  }
  if (status !== 400) return failure;
  if (/untrusted/i.test(reason)) return { status: "permanent", error: UNTRUSTED };
  if (/network failure|time-?d? ?out|connection|unavailable/i.test(reason)) {
    return { status: "retry", error: failure.error };
  }
  if (/not registered|unregistered/i.test(reason)) {
    return {
      status: "permanent",
      error: `${failure.error} Check the chat, and platforms.signal.account (SIGNAL_ACCOUNT).`,
    };
  }
  return failure;
}
