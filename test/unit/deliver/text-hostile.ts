/** Texts that parsers and cutters stumble over, for tests. */
import fc, { type Arbitrary } from "fast-check";

const scraps = [
  "**",
  "*",
  "_",
  "__",
  "~~",
  "`",
  "```",
  "```ts\n",
  "\n```\n",
  "~~~\n",
  "> ",
  "> > ",
  "- ",
  "1. ",
  "   - ",
  "# ",
  "\n",
  "\n\n",
  "    ",
  "|a|b|\n|-|-|\n|1|2|\n",
  " | ",
  "[",
  "](",
  ")",
  "[x](https://a.example/b?c=1&d=2)",
  "![i](http://i.example/p.png)",
  "[x](javascript:alert(1))",
  "<b>",
  "</pre>",
  "<script>",
  "&lt;",
  "&#1;",
  "&amp;",
  "<br>",
  "<https://u.example/>",
  "\\",
  "\u0000",
  "\ud800",
  "\udc00",
  "\r\n",
  "\u202e",
  "\u200b",
  "👩‍👩‍👧‍👦",
  "🇩🇪",
  "e\u0301",
  "漢字。",
  "@everyone",
  "<!channel>",
  "---\n",
  "https://long.example/" + "p".repeat(60),
  "w".repeat(70),
  "$&",
  "{{x}}",
];
const words = fc.stringMatching(/^[a-z]{1,9}[0-9]{1,3}[.,!?]?$/);

/** Markdown of which every second piece is a trap. */
export const hostileMarkdown: Arbitrary<string> = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: words.map((word) => `${word} `) },
      { weight: 2, arbitrary: fc.constantFrom(...scraps) },
      { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 12 }) },
    ),
    { maxLength: 120 },
  )
  .map((pieces) => pieces.join(""));

/** Many kilobytes of one thing. */
export function oneThing(length: number): Readonly<Record<string, string>> {
  const fill = (text: string) => text.repeat(Math.ceil(length / text.length)).slice(0, length);
  return {
    stars: fill("*"),
    brackets: fill("["),
    images: fill("!["),
    quotes: ">".repeat(10_000),
    lists: fill("- "),
    "nested lists": Array.from({ length: 400 }, (_, depth) => `${" ".repeat(depth * 2)}- a`).join("\n"),
    "half marks": fill("*a_ "),
    word: fill("x"),
    "joined emoji": fill("👩\u200d"),
    flags: fill("🇩🇪"),
    accents: `a${fill("\u0301")}`,
    rows: `|a|b|\n|-|-|\n${fill("|a|b|\n")}`,
    fences: fill("```\na\n"),
    blank: fill("\u200b"),
    spaces: fill(`x${" ".repeat(5000)}`),
    rubbish: fill("\u0000\ud800\ufffdab\u0007"),
    secrets: fill(`sk-${"a".repeat(20)} `),
  };
}
