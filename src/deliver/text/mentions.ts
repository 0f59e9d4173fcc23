/** Between the sign and the word: no platform takes the two for a mention then, and nobody sees it. */
const JOINER = "\u2060";

/**
 * `text` in which none of `mentions`, such as `@everyone`, addresses anybody, in whatever case it is written; longer
 * words and addresses of mail, such as `@allan` and `bob@all.example`, stay. For platforms that have no parameter to
 * switch mentions off. Only in what goes out: reading may make one of a text that had none.
 */
export function defuseMentions(text: string, mentions: readonly string[]): string {
  if (mentions.length === 0) return text;
  const any = mentions.map(patternOf).join("|");
  return text.replace(new RegExp(any, "gi"), (mention) => {
    const name = mention.search(/[\p{L}\p{N}]/u);
    // A tag may begin with signs alone, such as `<@`: it is broken behind the first.
    const at = name < 0 && mention.length > 1 ? 1 : Math.max(name, 0);
    return `${mention.slice(0, at)}${JOINER}${mention.slice(at)}`;
  });
}

/** Platforms see a name behind and before letters that are not ASCII, and a tag behind everything. */
function patternOf(mention: string): string {
  const name = RegExp.escape(mention);
  return mention.startsWith("@") ? `(?<![a-z0-9])${name}(?![a-z0-9])` : name;
}
