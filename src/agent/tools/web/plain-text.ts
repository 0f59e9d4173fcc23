const dropped = new Set([
  "script",
  "style",
  "noscript",
  "template",
  "svg",
  "textarea",
  "select",
  "iframe",
  "title",
]);
const inline = new Set(
  "a abbr b bdi bdo cite code em font i kbd mark q s small span strong sub sup u wbr".split(" "),
);
const entities: Readonly<Record<string, string>> = {
  amp: "&",
  apos: "'",
  gt: ">",
  hellip: "…",
  lt: "<",
  mdash: "—",
  nbsp: " ",
  ndash: "–",
  quot: '"',
};
const tag = /<(?:!--|[!?]|\/?([a-zA-Z][a-zA-Z0-9-]*))/g;

/**
 * The text of an HTML page without its layout, in time linear in its length whatever the page is: the way out when a
 * page is too large or too odd to be made into a document.
 */
export function plainText(html: string): string {
  const parts: string[] = [];
  let at = 0;
  while (at < html.length) {
    tag.lastIndex = at;
    const found = tag.exec(html);
    parts.push(html.slice(at, found?.index));
    if (!found) break;
    const name = found[1]?.toLowerCase() ?? "";
    if (name !== "" && !inline.has(name)) parts.push("\n");
    at = endOf(html, found, name);
  }
  return tidy(decodeEntities(parts.join("")));
}

/** Where the text goes on after a tag, a comment, or an element of which nothing is shown. */
function endOf(html: string, { 0: opening, index }: RegExpExecArray, name: string): number {
  if (opening === "<!--") return after(html, "-->", index);
  const end = after(html, ">", index);
  if (!dropped.has(name) || opening.startsWith("</")) return end;
  const closing = new RegExp(`</${name}[^>]{0,100}>`, "gi");
  closing.lastIndex = end;
  // Without a closing tag a browser shows nothing more either; it also keeps many openings from many searches.
  return closing.exec(html) ? closing.lastIndex : name === "title" ? end : html.length;
}

function after(html: string, what: string, from: number): number {
  const found = html.indexOf(what, from);
  return found === -1 ? html.length : found + what.length;
}

function decodeEntities(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/g,
    (whole, decimal, hex, name) => {
      if (name !== undefined) return entities[name] ?? whole;
      const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
      return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
    },
  );
}

function tidy(text: string): string {
  const lines = text.split("\n").map((line) => line.replace(/\s+/g, " ").trim());
  return lines.filter((line) => line !== "").join("\n");
}
