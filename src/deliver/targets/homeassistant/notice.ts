/** A message as Home Assistant shows it: a text with a title. Pure. */
import { isRecord } from "../../../base/json/schema.ts";
import type { Message } from "../../message.ts";
import { cleanText } from "../../text/text.ts";
import { renderParts } from "../../text/parts.ts";

export interface Notice {
  readonly text: string;
  /** One line, without markup and templates. */
  readonly title?: string;
  /** What the notify service takes besides. */
  readonly data?: Readonly<Record<string, unknown>>;
}

const MAX_TITLE_CHARACTERS = 250;
/** A heading alone in the first line, and more below. */
const HEADING = /^\s*#{1,6} +(\S[^\n]*)\n+(?=\s*\S)/;
/** Between the signs that begin a template; nobody sees it. */
const JOINER = "\u2060";

/** The title is that of `deliver_extra`, else the heading that the Markdown begins with; `text` is the rest of it. */
export function noticeOf({ text, extra }: Message): Notice {
  const given = extra["title"];
  const data = isRecord(extra["data"]) ? { data: extra["data"] } : {};
  if (typeof given === "string") return { text, ...titled(cleanText(given)), ...data };
  const [whole = "", heading = ""] = HEADING.exec(text) ?? [];
  const title = titled(plain(heading));
  return { text: "title" in title ? text.slice(whole.length) : text, ...title, ...data };
}

/** Older versions run what stands between {{ and }} in texts as templates: nobody may run theirs through us. */
export function defused(text: string): string {
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
