import { headOf } from "../../base/text.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Tx } from "../../store/store.ts";
import type { SessionRow } from "../../store/schema/tables.ts";

export const MAX_TITLE_CHARACTERS = 120;
const PROMPT_TITLE_CHARACTERS = 60;
/** Of a prompt, to find a title in. */
const READ_CHARACTERS = 4_000;
/** Numbers that are tried before giving up; a line of a thousand branches of one name is no accident. */
const MAX_NUMBER = 1_000;

/** A title as it is stored: one line, trimmed. ServiceError `invalid_title` when it is empty or too long. */
export function cleanTitle(title: string): string {
  const clean = oneLine(title);
  if (clean === "") throw new ServiceError("invalid_title", "title must not be empty.", { param: "title" });
  if (clean.length > MAX_TITLE_CHARACTERS) {
    throw new ServiceError(
      "invalid_title",
      `title has ${clean.length} characters; the limit is ${MAX_TITLE_CHARACTERS}.`,
      { param: "title" },
    );
  }
  return clean;
}

/** A title made from the start of a prompt; "" when it has no words. */
export function titleFromPrompt(prompt: string): string {
  const line = oneLine(prompt.slice(0, READ_CHARACTERS));
  if (line.length <= PROMPT_TITLE_CHARACTERS) return line;
  const cut = headOf(line, PROMPT_TITLE_CHARACTERS);
  const space = cut.lastIndexOf(" ");
  return `${space > PROMPT_TITLE_CHARACTERS / 2 ? cut.slice(0, space) : cut}...`;
}

/**
 * On one line, without control characters and without those that turn the direction of the text around or are not
 * seen: a title stands in lists beside others. The joiners stay, which scripts and pictures need.
 */
function oneLine(text: string): string {
  return text.replace(INVISIBLE, "").replace(BREAKS, " ").trim();
}

const INVISIBLE = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const BREAKS = /[\s\u0000-\u001f\u007f-\u009f]+/g;

/** `wanted`, or, when a session of the same line of branches has it, with the next free number: `name #2`. */
export async function freeTitle(
  tx: Tx,
  session: Pick<SessionRow, "id" | "root_id">,
  wanted: string,
): Promise<string> {
  const root = session.root_id ?? session.id;
  const rows = await tx.db
    .selectFrom("sessions")
    .select("title")
    .where((is) => is.or([is("id", "=", root), is("root_id", "=", root)]))
    .where("id", "!=", session.id)
    .where("title", "is not", null)
    .execute();
  const taken = new Set(rows.map(({ title }) => title));
  if (!taken.has(wanted)) return wanted;
  const stem = wanted.replace(/ #\d+$/, "");
  for (let number = 2; number <= MAX_NUMBER; number++) {
    const suffix = ` #${number}`;
    const next = `${headOf(stem, MAX_TITLE_CHARACTERS - suffix.length)}${suffix}`;
    if (!taken.has(next)) return next;
  }
  throw new ServiceError("invalid_title", `There are too many branches named ${JSON.stringify(stem)}.`);
}
