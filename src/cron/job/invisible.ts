/** Characters that people do not see and models read. Pure. */

/** Scripts in which letters are joined or kept apart by a character of their own. */
const JOINING = [
  "Arabic",
  "Syriac",
  "Mongolian",
  "Nko",
  "Devanagari",
  "Bengali",
  "Gurmukhi",
  "Gujarati",
  "Oriya",
  "Tamil",
  "Telugu",
  "Kannada",
  "Malayalam",
  "Sinhala",
  "Khmer",
  "Myanmar",
]
  .map((script) => String.raw`\p{Script=${script}}`)
  .join("");
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

/** The flags of parts of countries are written in tags that only they may hold. */
const FLAG = String.raw`\u{1f3f4}[\u{e0020}-\u{e007e}]{1,8}\u{e007f}`;
const JOINERS = [
  String.raw`(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f${JOINING}])\u200d`,
  String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?!\p{Extended_Pictographic})`,
  String.raw`(?<![${JOINING}])\u200c`,
].join("|");
const ALWAYS = String.raw`[\u00ad\u115f\u1160\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e0fff}]`;
/** One may choose how the character before it looks; more only carry something. */
const SELECTORS = String.raw`(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]|(?<!\p{Script=Han})[\u{e0100}-\u{e01ef}]`;
const IDEOGRAPH = String.raw`\p{Script=Han}[\u{e0100}-\u{e01ef}]`;
const MARKS = String.raw`[\u200e\u200f]`;

const KEPT = `(?<kept>${FLAG}|${IDEOGRAPH})`;
const PLAIN = new RegExp(`${KEPT}|${ALWAYS}|${JOINERS}|${SELECTORS}|${MARKS}`, "gu");
/** Text that runs from right to left needs its marks of direction. */
const MIXED = new RegExp(`${KEPT}|${ALWAYS}|${JOINERS}|${SELECTORS}`, "gu");

/** The text without them, but for those that emoji, letters and lines are joined with. */
export function withoutInvisible(text: string): string {
  if (!MAYBE.test(text)) return text;
  const pattern = RIGHT_TO_LEFT.test(text) ? MIXED : PLAIN;
  return text.replace(pattern, (...found) => (found.at(-1) as { readonly kept?: string }).kept ?? "");
}

/** The first of them as `U+200B`; undefined when there is none. A mark at the start of a file does not count. */
export function invisibleIn(text: string): string | undefined {
  const seen = text.replace(/^\ufeff/, "");
  if (!MAYBE.test(seen)) return undefined;
  for (const found of seen.matchAll(RIGHT_TO_LEFT.test(seen) ? MIXED : PLAIN)) {
    if (found.groups?.["kept"] !== undefined) continue;
    return `U+${(found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  }
  return undefined;
}

/** Most text has nothing of the kind. */
const MAYBE = new RegExp(
  String.raw`[\u00ad\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\u{fe00}-\u{fe0f}\ufeff\uffa0\u{e0000}-\u{e0fff}]`,
  "u",
);
