/** Between the sign and the word: no platform takes the two for a mention then, and nobody sees it. */
const JOINER = "\u2060";

/**
 * `text` in which none of `mentions`, such as `@everyone`, addresses anybody, in whatever case it is written. For
 * platforms that have no parameter to switch them off.
 */
export function defuseMentions(text: string, mentions: readonly string[]): string {
  if (mentions.length === 0) return text;
  const any = new RegExp(mentions.map((mention) => RegExp.escape(mention)).join("|"), "gi");
  return text.replace(any, (mention) => {
    const at = mention.search(/[\p{L}\p{N}]/u);
    return at < 1 ? `${JOINER}${mention}` : `${mention.slice(0, at)}${JOINER}${mention.slice(at)}`;
  });
}
