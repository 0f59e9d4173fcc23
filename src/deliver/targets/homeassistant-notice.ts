/** A message as Home Assistant shows it: a text with a title. Pure. */
import { isRecord } from "../../base/schema.ts";
import { cleanText } from "../text.ts";
import type { Message } from "../message.ts";

export interface Notice {
  /** Markdown before it is rendered. Nothing in it is taken for a template. */
  readonly text: string;
  readonly title?: string;
  /** What the notify service takes besides. */
  readonly data?: Readonly<Record<string, unknown>>;
}

const MAX_TITLE_CHARACTERS = 250;
/** A heading alone in the first line, and more below. */
const HEADING = /^\s*#{1,6} +(\S[^\n]*)\n+(?=\s*\S)/;
/** Between the signs that begin a template; nobody sees it. */
const JOINER = "\u2060";

/** The title is that of `deliver_extra`, else the heading that the text begins with. */
export function noticeOf({ text, extra }: Message): Notice {
  const given = extra["title"];
  const data = isRecord(extra["data"]) ? { data: extra["data"] } : {};
  const heading = typeof given === "string" ? undefined : HEADING.exec(text);
  const title = cleanText(typeof given === "string" ? given : (heading?.[1] ?? ""))
    .replace(/\s+/g, " ")
    .replace(/[ #]+$/, "")
    .trim()
    .slice(0, MAX_TITLE_CHARACTERS)
    .toWellFormed();
  const below = heading && title !== "" ? text.slice(heading[0].length) : text;
  return { text: defused(below), ...(title === "" ? {} : { title: defused(title) }), ...data };
}

/** Older versions run what stands between {{ and }} in texts as templates: nobody may run theirs through us. */
function defused(text: string): string {
  return text.replace(/\{(?=[{%#])/g, `{${JOINER}`);
}
