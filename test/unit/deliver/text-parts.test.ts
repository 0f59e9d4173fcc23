import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseHTML } from "linkedom";
import { visibleText } from "../../../src/deliver/text/render.ts";
import {
  lengthIn,
  renderParts,
  type Part,
  type PartsOptions,
  type TextFormat,
} from "../../../src/deliver/text/parts.ts";
import { hostileMarkdown, oneThing } from "./text-hostile.ts";

const FORMATS = [
  "plain",
  "signal",
  "whatsapp",
  "slack",
  "telegram",
  "matrix",
  "email",
  "commonmark",
] as const;
const options: fc.Arbitrary<PartsOptions> = fc.record({
  format: fc.constantFrom<TextFormat>(...FORMATS),
  limit: fc.oneof(fc.integer({ min: 16, max: 60 }), fc.integer({ min: 60, max: 900 })),
  unit: fc.constantFrom("utf16", "codepoints", "bytes"),
});

function formsOf({ text, html = "", plain }: Part, { format }: PartsOptions): readonly string[] {
  return [format === "telegram" ? visibleText(text) : text, html, plain];
}

test("every form of every part fits the limit, in the platform's own count", () => {
  fc.assert(
    fc.property(hostileMarkdown, options, (text, wanted) => {
      const parts = renderParts(text, wanted);
      assert.ok(parts.length > 0 && parts.length <= 40);
      for (const part of parts) {
        for (const form of formsOf(part, wanted)) {
          assert.ok(lengthIn(form, wanted.unit) <= wanted.limit, JSON.stringify(part));
          assert.ok(form.isWellFormed());
        }
        assert.notEqual(part.plain.trim(), "");
      }
    }),
    { numRuns: 400 },
  );
});

test("an answer of invisible characters alone is one part that says so", () => {
  const parts = renderParts("<br>\u200B", { format: "plain", limit: 60, unit: "utf16" });
  assert.deepEqual(
    parts.map(({ plain }) => plain),
    ["(The answer was empty.)"],
  );
});

test("the same answer makes the same parts, so that a later attempt can go on", () => {
  fc.assert(
    fc.property(hostileMarkdown, options, (text, wanted) => {
      assert.deepEqual(renderParts(text, wanted), renderParts(text, wanted));
    }),
    { numRuns: 60 },
  );
});

test("no word is lost, none comes twice, and their order stays", () => {
  const word = fc.stringMatching(/^[a-z]{2,8}$/);
  const glue = fc.constantFrom(
    " ",
    " ",
    " ",
    "\n",
    "\n\n",
    ". ",
    " **",
    "** ",
    "\n- ",
    "\n\n> ",
    "\n\n# ",
    "\n1. ",
    " `",
    "` ",
  );
  fc.assert(
    fc.property(
      fc.array(fc.tuple(word, glue), { minLength: 1, maxLength: 200 }),
      options,
      (pairs, wanted) => {
        const text = pairs.map(([each, gap], at) => `${each}${at}x${gap}`).join("");
        const parts = renderParts(text, { ...wanted, limit: wanted.limit + 24, maxParts: 10_000 });
        const found = parts
          .map(({ plain }) => plain)
          .join(" ")
          .match(/[a-z]+\d+x/g);
        assert.deepEqual(
          found,
          pairs.map(([each], at) => `${each}${at}x`),
        );
      },
    ),
    { numRuns: 200 },
  );
});

test("Telegram, Matrix and mail get HTML that closes what it opens, of known tags alone", () => {
  const known: Record<string, readonly string[]> = {
    telegram: ["b", "i", "s", "code", "pre", "a", "blockquote"],
    matrix: [
      "h1",
      "h2",
      "h3",
      "h4",
      "h5",
      "h6",
      "p",
      "br",
      "hr",
      "strong",
      "em",
      "del",
      "code",
      "pre",
      "a",
      "blockquote",
      "ul",
      "ol",
      "li",
      "table",
      "tr",
      "th",
      "td",
    ],
  };
  fc.assert(
    fc.property(
      hostileMarkdown,
      fc.constantFrom("telegram", "matrix", "email" as const),
      fc.integer({ min: 16, max: 600 }),
      (text, format, limit) => {
        const tags = known[format] ?? known["matrix"];
        for (const part of renderParts(text, { format: format as TextFormat, limit, unit: "utf16" })) {
          const html = part.html ?? part.text;
          assertBalanced(html);
          const { document } = parseHTML(`<main>${html}</main>`);
          for (const element of document.querySelectorAll("main *")) {
            const tag = element.tagName.toLowerCase();
            assert.ok(tags?.includes(tag), `${tag} in ${html}`);
            for (const { name, value } of element.attributes) {
              const ok =
                (tag === "a" && name === "href" && /^(?:https?:\/\/|mailto:)/i.test(value)) ||
                (tag === "code" && name === "class" && /^language-[\w+#.-]+$/.test(value)) ||
                (tag === "ol" && name === "start" && /^\d+$/.test(value));
              assert.ok(ok, `${tag} ${name}=${value}`);
            }
          }
        }
      },
    ),
    { numRuns: 400 },
  );
});

function assertBalanced(html: string): void {
  const open: string[] = [];
  for (const [, slash, tag = ""] of html.matchAll(/<(\/?)([a-z0-9]+)[^<>]*>/g)) {
    if (tag === "br" || tag === "hr") continue;
    if (slash === "") open.push(tag);
    else assert.equal(open.pop(), tag, html);
  }
  assert.deepEqual(open, [], html);
  assert.doesNotMatch(html.replace(/<\/?[a-z][^<>]*>/g, ""), /[<>]/);
}

test("a fence that is cut is closed, and opened again with its language", () => {
  const code = Array.from({ length: 100 }, (_, at) => `  line(${at});`).join("\n");
  const text = `Before\n\n\`\`\`ts\n${code}\n\`\`\`\n\nAfter`;
  const source = renderParts(text, { format: "commonmark", limit: 200, unit: "utf16" });
  assert.ok(source.length > 4);
  for (const part of source) assert.equal((part.text.match(/^```/gm) ?? []).length % 2, 0, part.text);
  for (const part of source.slice(1, -1)) assert.match(part.text, /^```ts\n {2}line[^]*;\n```$/);
  assert.match(source.at(-1)?.text ?? "", /After$/);
  for (const part of renderParts(text, { format: "telegram", limit: 200, unit: "utf16" }).slice(1, -1)) {
    assert.match(part.text, /^<pre><code class="language-ts"> {2}line[^]*;<\/code><\/pre>$/);
  }
  for (const format of ["slack", "whatsapp"] as const) {
    for (const part of renderParts(text, { format, limit: 200, unit: "utf16" }).slice(1, -1))
      assert.match(part.text, /^```\n {2}line[^]*;\n```$/);
  }
});

test("fences balance in every part of Markdown that a platform renders itself", () => {
  const line = fc.constantFrom(
    "```js",
    "```",
    "text",
    "- ```",
    "> quote",
    "",
    "~~~",
    "words and words and words",
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 60 }), fc.integer({ min: 40, max: 200 }), (lines, limit) => {
      for (const { text } of renderParts(lines.join("\n"), {
        format: "commonmark",
        limit,
        unit: "utf16",
        maxParts: 1000,
      })) {
        let open: string | undefined;
        for (const each of text.split("\n")) {
          const sign = /^[> \t]*(?:- )?(```|~~~)(.*)$/.exec(each);
          if (open === undefined) open = sign?.[1];
          else if (sign?.[1] === open && sign[2] === "" && !each.trimStart().startsWith("-"))
            open = undefined;
        }
        assert.equal(open, undefined, JSON.stringify(text));
      }
    }),
    { numRuns: 200 },
  );
});

test("marks that are cut in Markdown are closed and opened again", () => {
  const text = `So **${"bold words ".repeat(30).trim()}** and \`${"code words ".repeat(30).trim()}\` end`;
  const parts = renderParts(text, { format: "commonmark", limit: 80, unit: "utf16" });
  assert.ok(parts.length > 2);
  for (const part of parts) {
    assert.equal((part.text.match(/\*\*/g) ?? []).length % 2, 0, part.text);
    assert.equal((part.text.match(/`/g) ?? []).length % 2, 0, part.text);
  }
  assert.ok(parts.some((part) => part.text.startsWith("**") && part.text.endsWith("**")));
});

test("cuts fall between paragraphs, else lines, else sentences, else words", () => {
  const cut = (text: string) =>
    renderParts(text, { format: "plain", limit: 40, unit: "utf16" }).map((part) => part.text);
  assert.deepEqual(cut(`${"a".repeat(25)}\n\n${"b ".repeat(12)}`), ["a".repeat(25), "b ".repeat(12).trim()]);
  assert.deepEqual(cut(`${"a".repeat(25)}\n${"b ".repeat(12)}`), ["a".repeat(25), "b ".repeat(12).trim()]);
  assert.deepEqual(cut("This is the first sentence. And here is the second."), [
    "This is the first sentence.",
    "And here is the second.",
  ]);
  assert.deepEqual(cut("word ".repeat(12)), ["word ".repeat(8).trim(), "word ".repeat(4).trim()]);
  const url = `https://a.example/${"p".repeat(18)}`;
  assert.deepEqual(cut(`Look up ${url} there`), ["Look up", url, "there"]);
});

test("a text of exactly the limit is one part, one more makes it two, however the platform counts", () => {
  for (const [unit, sign, size] of [
    ["utf16", "x", 1],
    ["codepoints", "😀", 1],
    ["bytes", "é", 2],
  ] as const) {
    const count = (signs: number) =>
      renderParts(sign.repeat(signs), { format: "plain", limit: 40 * size, unit }).length;
    assert.deepEqual([count(39), count(40), count(41)], [1, 1, 2], unit);
  }
});

test("a grapheme is never cut while it fits", () => {
  const family = "👩‍👩‍👧‍👦";
  for (const format of ["plain", "telegram", "commonmark"] as const) {
    const families = renderParts(family.repeat(50), { format, limit: 50, unit: "utf16" });
    const flags = renderParts("🇩🇪".repeat(200), { format, limit: 49, unit: "codepoints" });
    assert.ok(families.length > 1 && flags.length > 1);
    for (const part of families) assert.equal(part.plain.length % family.length, 0);
    for (const part of flags) assert.equal(part.plain.length % 4, 0);
  }
});

test("what exceeds the number of parts is left out, and the last part says how much and where the whole is", () => {
  const text = Array.from({ length: 500 }, (_, at) => `Sentence ${at} is here.`).join(" ");
  for (const format of FORMATS) {
    const parts = renderParts(text, {
      format,
      limit: 200,
      unit: "utf16",
      maxParts: 3,
      wholeIn: "the transcript of run run_1",
    });
    assert.equal(parts.length, 3);
    assert.match(
      parts[2]?.plain ?? "",
      /\n\n\(\d+ more characters are omitted\. The whole text is in the transcript of run run_1\.\)$/,
    );
    assert.ok((parts[2]?.plain.length ?? 0) <= 200);
    assert.doesNotMatch(parts[1]?.plain ?? "", /left out/);
  }
  assert.equal(
    renderParts("word ".repeat(30), { format: "plain", limit: 150, unit: "utf16", maxParts: 1 }).length,
    1,
  );
});

test("one long message is made where nothing limits it", () => {
  const text = "A **line**.\n\n".repeat(5000);
  const parts = renderParts(text, { format: "email", limit: Infinity, unit: "bytes" });
  assert.equal(parts.length, 1);
  assert.equal(parts[0]?.html?.match(/<strong>line<\/strong>/g)?.length, 5000);
});

test("a limit under which nothing fits is misuse", () => {
  for (const limit of [0, 15, Number.NaN, -1]) {
    assert.throws(() => renderParts("x", { format: "plain", limit, unit: "utf16" }), RangeError);
  }
});

test("a megabyte of one thing makes bounded parts", () => {
  const wanted = { limit: 4096, unit: "utf16" } as const;
  const check = (text: string, name: string, format: TextFormat) => {
    const parts = renderParts(text, { ...wanted, format });
    assert.ok(parts.length > 0 && parts.length <= 40, name);
    for (const part of parts)
      for (const form of formsOf(part, { ...wanted, format })) assert.ok(form.length <= 4096, name);
  };
  for (const [name, text] of Object.entries(oneThing(1_000_000))) check(text, name, "telegram");
  // Short enough to be read as Markdown.
  for (const [name, text] of Object.entries(oneThing(20_000))) {
    for (const format of ["slack", "matrix", "commonmark"] as const) check(text, name, format);
  }
});
