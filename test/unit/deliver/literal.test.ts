import assert from "node:assert/strict";
import { test } from "node:test";
import MarkdownIt from "markdown-it";
import {
  messagePayload,
  readMessage,
  type MessageText,
  type TextPiece,
} from "../../../src/deliver/target.ts";
import { renderParts, type PartsOptions, type TextFormat } from "../../../src/deliver/text/parts.ts";

const FORMATS: readonly TextFormat[] = [
  "plain",
  "signal",
  "whatsapp",
  "slack",
  "telegram",
  "matrix",
  "email",
  "commonmark",
];

function render(text: MessageText, format: TextFormat, options: Partial<PartsOptions> = {}) {
  const [part] = renderParts(text, { format, limit: 4_000, unit: "utf16", ...options });
  assert.ok(part);
  return part;
}

const whole = (literal: string): readonly TextPiece[] => [{ literal }];
/** Removes the invisible characters that keep platforms without escapes from seeing marks. */
const visible = (text: string) => text.replaceAll("\u2060", "").replaceAll("\u00a0", " ");

const HOSTILE = [
  "changed __init__.py, rm /var/*/log/*.gz, 2*3*4",
  "[safe](https://evil.example)",
  "![x](https://evil.example/x.png) <https://evil.example> <b>bold</b> <!-- gone -->",
  "# no heading",
  "1) no list\n2. nor here\n- nor here\n+ nor here\n> no quote",
  "a line\n===\nanother\n---",
  '{\n  "a": {\n    "b": "*c*"\n  }\n}',
  "    four spaces are no code",
  "```\nno code\n```",
  "`a` ``b`` ~~c~~ ||d|| ***e***",
  "| a | b |\n|---|---|\n| c | d |",
  "&lt;b&gt; &amp; &#64;all &copy;",
  "back\\slash \\* \\[x](y)",
  "[ref]: https://evil.example\n\n[ref]",
  "two  spaces at the end  \nof a line\\\nand more",
  "https://a.example/_x_/*y*/~z~?q=[1]",
];

test("a value from outside reads the same on plain platforms, with its indents, asterisks and underscores", () => {
  for (const value of HOSTILE)
    for (const format of ["plain", "signal"] as const) assert.equal(render(whole(value), format).text, value);
});

test("a value from outside makes no mark, link, quote, list or code on any platform", () => {
  for (const value of HOSTILE) {
    assert.equal(visible(render(whole(value), "whatsapp").text), value);
    const telegram = render(whole(value), "telegram").text;
    assert.doesNotMatch(telegram, /<(?!br)/, value);
    assert.equal(
      telegram
        .replace(/&lt;/g, "<")
        .replace(/&gt;/g, ">")
        .replace(/&quot;/g, '"')
        .replace(/&amp;/g, "&"),
      value,
    );
    const { html = "" } = render(whole(value), "matrix");
    assert.deepEqual(
      [...new Set(html.match(/<\/?\w+/g))].filter((tag) => !["<p", "</p", "<br"].includes(tag)),
      [],
      value,
    );
    assert.equal(render(whole(value), "email").text, value);
    const slack = render(whole(value), "slack").text;
    assert.doesNotMatch(
      slack,
      /<|(?<!\u2060)[*_~`](?![\p{L}\p{N}])|(?<![\p{L}\p{N}])[*_~`](?!\u2060)/u,
      value,
    );
  }
});

test("a CommonMark parser reads a value from outside as the text that it is", () => {
  const parser = new MarkdownIt("default", { html: true, breaks: true });
  for (const value of HOSTILE) {
    const source = render(whole(value), "commonmark", { dialect: "github" }).text;
    const tokens = parser.parse(source, {});
    const inline = tokens.flatMap(({ children }) => children ?? []);
    // An address that shows itself hides nothing.
    const others = [...tokens, ...inline].filter(({ info }) => info !== "auto");
    const kinds = new Set(others.map(({ type }) => type));
    for (const kind of [
      "paragraph_open",
      "paragraph_close",
      "inline",
      "text",
      "text_special",
      "softbreak",
      "hardbreak",
    ])
      kinds.delete(kind);
    assert.deepEqual([...kinds], [], value);
    const lines = inline.map(({ type, content }) => (type.endsWith("break") ? "\n" : content)).join("");
    assert.equal(visible(lines).replace(/\s+/g, ""), value.replace(/\s+/g, ""));
    assert.equal(/^ {4}/m.test(value), /^\u00a0{4}/m.test(lines), "indents stay");
  }
});

test("random values between template words survive a round trip through a Markdown parser", () => {
  const parser = new MarkdownIt("default", { html: true, breaks: true });
  const alphabet = "ab1 .\n*_~`[]()<>#-+=|!\\&{}:>\"'é\u3042";
  for (let seed = 1; seed <= 1_500; seed += 1) {
    const value = randomText(alphabet, seed);
    const source = render(
      [{ markdown: "**" }, { literal: `x${value}x` }, { markdown: "** by *me*" }],
      "commonmark",
    ).text;
    const children = parser.parse(source, {}).flatMap((token) => token.children ?? []);
    const kinds = new Set(
      children.map(({ type }) => type).filter((type) => !/^(text|strong|em|softbreak|hardbreak)/.test(type)),
    );
    assert.deepEqual([...kinds], [], `${seed}: ${JSON.stringify(value)} ${source}`);
    assert.equal(
      children.filter(({ type }) => type === "strong_open").length <= value.split("\n").length,
      true,
      source,
    );
    assert.equal(children.filter(({ type }) => type === "em_open").length <= 1, true, source);
    const shown = children.map(({ type, content }) => (type.endsWith("break") ? "\n" : content)).join("");
    const plain = render([{ literal: `x${value}x` }, { markdown: " by me" }], "plain").text;
    const squeeze = (text: string) => visible(text).replace(/\s+/g, " ");
    assert.equal(squeeze(plain), squeeze(`x${value}x by me`));
    if (!/^\s*$/m.test(value)) assert.equal(squeeze(shown), squeeze(`x${value}x by me`), source);
  }
});

function randomText(alphabet: string, seed: number): string {
  let state = seed * 2_654_435_761;
  const next = () => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) / 2 ** 32;
  const characters = Array.from(alphabet);
  return Array.from(
    { length: 1 + Math.floor(next() * 24) },
    () => characters[Math.floor(next() * characters.length)],
  ).join("");
}

test("a value inside a list, a quote or a table of the template begins nothing of its own", () => {
  const parser = new MarkdownIt("default", { html: true, breaks: true });
  const frames = {
    "- ": ["bullet_list_open", "list_item_open"],
    "1. ": ["ordered_list_open", "list_item_open"],
    "> ": ["blockquote_open"],
    "> - ": ["blockquote_open", "bullet_list_open", "list_item_open"],
  };
  for (const [before, opens] of Object.entries(frames))
    for (const value of ["# x", "- x", "a\n# b\n- c\n2. d\n> e\n===\n---", "1. x", "+ y\n\n    code"]) {
      const source = render([{ markdown: before }, { literal: value }], "commonmark").text;
      const found = parser
        .parse(source, {})
        .filter(({ type }) => type.endsWith("_open") || type === "hr" || type === "code_block");
      const kinds = found.map(({ type }) => type).filter((type) => type !== "paragraph_open");
      assert.deepEqual(kinds, opens, source);
    }
});

test("the words of the template are Markdown around the values", () => {
  const text = [
    { markdown: "## New: " },
    { literal: "a *b*\nc" },
    { markdown: "\n\n**By** [" },
    { literal: "[x](y)" },
    { markdown: "](" },
    { literal: "https://a.example/1?x=(2)" },
    { markdown: ") in `" },
    { literal: "main`x" },
    { markdown: "`\n\n```\n" },
    { literal: "log\n```\n# x" },
    { markdown: "\n```" },
  ];
  assert.equal(
    render(text, "telegram").text,
    '<b>New: a *b*</b>\n<b>c</b>\n\n<b>By</b> <a href="https://a.example/1?x=(2)">[x](y)</a> in <code>main`x</code>\n\n<pre>log\n```\n# x</pre>',
  );
  assert.equal(
    render(text, "commonmark").text,
    "## New: a \\*b\\* c\n\n**By** [\\[x\\](y)](https://a.example/1?x=%282%29) in ``main`x``\n\n````\nlog\n```\n# x\n````",
  );
});

test("an address from outside in a link of the template is http, https or mailto, and cannot leave the link", () => {
  const link = (url: string) => [{ markdown: "[open](" }, { literal: url }, { markdown: ")" }];
  assert.equal(
    render(link('https://a.example/"><script>'), "telegram").text,
    '<a href="https://a.example/%22%3E%3Cscript%3E">open</a>',
  );
  for (const url of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd"])
    assert.doesNotMatch(render(link(url), "telegram").text, /<a /, url);
});

test("reserved characters in a template or a value stand for no other value", () => {
  const text = [
    { markdown: "a \ufdd0\ufdd1\ufddb " },
    { literal: "\ufdd0\ufdd2\ufddb" },
    { literal: "secret" },
  ];
  assert.equal(render(text, "plain").text, "a  secret");
});

test("a secret that spans a template and a value is redacted on every platform", () => {
  const text = [
    { markdown: "**Authorization:** Bearer ey" },
    { literal: "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N" },
  ];
  for (const format of FORMATS)
    assert.doesNotMatch(JSON.stringify(render(text, format)), /dozjgNryP4J3/, format);
});

test("a long value is split like any text, and each part is literal", () => {
  const value = Array.from(
    { length: 400 },
    (_, at) => `  line ${at} of *all* [x](https://evil.example)`,
  ).join("\n");
  for (const format of FORMATS) {
    const parts = renderParts(whole(value), { format, limit: 1_000, unit: "utf16", maxParts: 100 });
    assert.ok(parts.length > 10, format);
    const text = parts.map((part) => part.plain).join("\n");
    assert.deepEqual(
      text
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean),
      value.split("\n").map((line) => line.trim()),
      format,
    );
    if (format === "telegram") assert.ok(parts.every((part) => !part.text.includes("<")));
  }
});

test("an empty message that is not an answer does not mention an answer", () => {
  assert.equal(render(whole(" "), "plain").text, "(The message was empty.)");
  assert.equal(render("", "plain").text, "(The answer was empty.)");
});

test("the outbox keeps which ranges are literal, and broken ranges make the whole text literal", () => {
  const pieces = [{ markdown: "**" }, { literal: "*x*" }, { markdown: "**" }];
  const payload = messagePayload(pieces, { chat_id: "1" });
  assert.deepEqual(payload, { text: "***x***", literals: [[2, 5]], extra: { chat_id: "1" } });
  const read = (value: unknown) => readMessage("telegram", { address: "1", payload: value })?.text;
  assert.deepEqual(read(JSON.parse(JSON.stringify(payload))), pieces);
  assert.equal(read({ text: "**x**" }), "**x**");
  for (const literals of [
    "x",
    [[0]],
    [[3, 1]],
    [[0, 99]],
    [
      [2, 3],
      [1, 2],
    ],
    [["0", 1]],
    [null],
  ])
    assert.deepEqual(read({ text: "**x**", literals }), [{ literal: "**x**" }], JSON.stringify(literals));
});

test("where Markdown has no escapes, a value makes no link, no bold and no code", () => {
  const parser = new MarkdownIt("default", { breaks: true });
  const value = "[safe](https://evil.example) **x** `y` ~~z~~ # no";
  const source = render(whole(value), "commonmark", { dialect: "without escapes" }).text;
  const kinds = parser
    .parse(source, {})
    .flatMap(({ children }) => children ?? [])
    .map(({ type }) => type);
  for (const kind of ["link_open", "strong_open", "code_inline", "s_open"])
    assert.ok(!kinds.includes(kind), kind);
  assert.equal(visible(source).replaceAll("\u02cb", "`"), value);
});
