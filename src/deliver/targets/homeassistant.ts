import type { HomeassistantAnswer } from "../../../generated/delivery/client/types.gen.ts";
import { registerSecret } from "../../base/observe.ts";
import { isRecord } from "../../base/data.ts";
import type { PlatformSettings } from "../../config/platform-settings.ts";
import {
  createCall,
  type Call,
  type NoAnswer,
  type PlatformAnswer,
  outcomeOfAnswer,
} from "../platform/call.ts";
import {
  readMessage,
  type Message,
  type MessageText,
  sendParts,
  type Platform,
  type SendOptions,
  type SendOutcome,
  cleanText,
} from "../target.ts";
import { renderParts } from "../text/parts.ts";

type Settings = PlatformSettings<"homeassistant">;

const words = { title: "Home Assistant", name: "homeassistant" };
/** Our own limits: Home Assistant has none. */
const SERVICE_LIMIT = 4000;
const PAGE_LIMIT = 65_536;
/** Our own limit: each part is a notification on a phone. */
const MAX_PARTS = 10;

/**
 * Home Assistant's REST API: the notify service that the chat names, or a persistent notification, which a retry
 * replaces.
 */
export const homeassistant: Platform<Settings> = {
  name: words.name,
  missing: ({ token }) => (token === undefined ? ["token (HASS_TOKEN)"] : []),
  create({ token = "", home_channel: home, ...settings }, { clock, version }) {
    registerSecret(token);
    const { base_url: baseUrl = "http://homeassistant.local:8123" } = settings;
    const headers = { Authorization: `Bearer ${token}` };
    const caller = { call: createCall({ title: words.title, baseUrl, clock, version }), headers };
    return {
      name: words.name,
      ...(home === undefined ? {} : { home }),
      // A retry replaces a persistent notification.
      supportsIdempotencyFor: (message) => readMessage(words.name, message)?.chat === "",
      async send(delivery, options) {
        const message = readMessage(words.name, delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const service = serviceOf(message.chat);
        if (service === undefined) return { status: "permanent", error: NO_SERVICE };
        const notice = noticeOf(message);
        const parts = renderParts(notice.text, {
          format: service === "" ? "commonmark" : "plain",
          limit: settings.text_limit ?? (service === "" ? PAGE_LIMIT : SERVICE_LIMIT),
          unit: "utf16",
          maxParts: MAX_PARTS,
        });
        return sendParts(parts, { delivery, options }, ({ text }, index) => {
          const sent = { ...notice, text: defused(text) };
          if (service !== "") return notify(caller, { service, notice: sent }, options);
          return show(caller, { id: partId(delivery.id, index), notice: sent }, options);
        });
      },
    };
  },
};

const NO_SERVICE =
  "The chat must be the name of a notify service, such as mobile_app_phone: lower-case letters, digits and _.";

/** Returns the service without `notify.`; empty when the message has no chat, undefined when the name is invalid. */
function serviceOf(chat: string): string | undefined {
  const name = chat.replace(/^notify\./, "");
  return chat === "" || /^[a-z0-9_]{1,128}$/.test(name) ? name : undefined;
}

/** The first part has the message's own id. */
function partId(id: string, index: number): string {
  return index === 0 ? id : `${id}_${index + 1}`;
}

interface Caller {
  readonly call: Call;
  readonly headers: { readonly Authorization: string };
}

async function notify(
  { call, headers }: Caller,
  { service, notice: { text, title, data } }: { readonly service: string; readonly notice: Notice },
  options: SendOptions,
): Promise<SendOutcome> {
  const body = { message: text, ...(title === undefined ? {} : { title }), ...(data ? { data } : {}) };
  const answer = await call(
    "HomeassistantAnswer",
    (client) => client.homeassistantNotify({ path: { service }, headers, body }),
    options,
  );
  const outcome = outcomeOf(answer);
  return outcome.status === "permanent" && answer.kind === "answer" && [400, 404].includes(answer.status)
    ? {
        ...outcome,
        error: `${outcome.error} Check that the action notify.${service} exists; Developer tools, Actions lists all.`,
      }
    : outcome;
}

/** A retry replaces the notification, so an uncertain outcome is retried. */
async function show(
  { call, headers }: Caller,
  { id, notice: { text, title } }: { readonly id: string; readonly notice: Notice },
  options: SendOptions,
): Promise<SendOutcome> {
  const body = { message: text, notification_id: id, ...(title === undefined ? {} : { title }) };
  const answer = await call(
    "HomeassistantAnswer",
    (client) => client.homeassistantCreateNotification({ headers, body }),
    options,
  );
  const outcome = outcomeOf(answer);
  return outcome.status === "unknown" ? { status: "retry", error: outcome.error } : outcome;
}

function outcomeOf(answer: PlatformAnswer<HomeassistantAnswer> | NoAnswer): SendOutcome {
  if (answer.kind === "none") return answer.outcome;
  const { status, body, text } = answer;
  // A long list of states is truncated; its first character is enough.
  if (status === 200 && (Array.isArray(body) || text.startsWith("["))) return { status: "delivered" };
  const reason = isRecord(body) ? String(body["message"]) : undefined;
  const failure = outcomeOfAnswer(answer, { ...words, reason });
  return status === 401 ? { ...failure, error: `${failure.error} (token, HASS_TOKEN)` } : failure;
}

interface Notice<Text = string> {
  readonly text: Text;
  /** One line, without markup and templates. */
  readonly title?: string;
  /** Further data for the notify service. */
  readonly data?: Readonly<Record<string, unknown>>;
}

const MAX_TITLE_CHARACTERS = 250;
/** A heading in the first line with text below. */
const HEADING = /^\s*#{1,6} +(\S[^\n]*)\n+(?=\s*\S)/;
/** Word joiner inside the start of a template; it is invisible. */
const JOINER = "\u2060";

/**
 * Returns the title and the text. The title is that of `deliver_extra`; default: the heading that the Markdown begins
 * with.
 */
function noticeOf({ text, extra }: Message): Notice<MessageText> {
  const given = extra["title"];
  const data = isRecord(extra["data"]) ? { data: extra["data"] } : {};
  if (typeof given === "string") return { text, ...titled(cleanText(given)), ...data };
  if (typeof text !== "string") return { text, ...data };
  const [whole = "", heading = ""] = HEADING.exec(text) ?? [];
  const title = titled(plain(heading));
  return { text: "title" in title ? text.slice(whole.length) : text, ...title, ...data };
}

/** Disarms templates: older versions evaluate {{ ... }} in texts. */
function defused(text: string): string {
  return text.replace(/\{(?=[{%#])/g, `{${JOINER}`);
}

function plain(heading: string): string {
  if (cleanText(heading) === "") return "";
  const [part] = renderParts(heading.slice(0, 2 * MAX_TITLE_CHARACTERS), {
    format: "plain",
    limit: Infinity,
    unit: "utf16",
  });
  return part?.plain ?? "";
}

function titled(text: string): { readonly title: string } | Record<never, never> {
  const line = text
    .replace(/\s+/g, " ")
    .replace(/[ #]+$/, "")
    .trim();
  const title = Array.from(line).slice(0, MAX_TITLE_CHARACTERS).join("");
  return title === "" ? {} : { title: defused(title) };
}
