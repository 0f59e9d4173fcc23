import assert from "node:assert/strict";
import { test } from "node:test";
import { renderParts, type TextFormat } from "../../../src/deliver/text/parts.ts";

/** The only part of a short text, in its rich form. */
function rendered(markdown: string, format: TextFormat): string {
  const [part, ...more] = renderParts(markdown, { format, limit: 4000, unit: "utf16" });
  assert.equal(more.length, 0);
  return part?.html ?? part?.text ?? "";
}

const everything = `# Title

Some **bold**, _slanted_, ~~gone~~, \`code\` and a [link](https://a.example/x?a=1&b=2).

- one
- two
  1. deep

> quoted

\`\`\`ts
if (a < b) run();
\`\`\`

| a | b |
|---|---|
| 1 | 22 |`;

test("plain: no marks, links with their address, lists, quotes, rows and code as lines", () => {
  assert.equal(
    rendered(everything, "plain"),
    "Title\n\nSome bold, slanted, gone, code and a link (https://a.example/x?a=1&b=2).\n\n- one\n- two\n  1. deep\n\n> quoted\n\nif (a < b) run();\n\na | b\n1 | 22",
  );
});

test("whatsapp: its own signs, code between backticks, tables in columns", () => {
  assert.equal(
    rendered(everything, "whatsapp"),
    "*Title*\n\nSome *bold*, _slanted_, ~gone~, `code` and a link (https://a.example/x?a=1&b=2).\n\n• one\n• two\n  1. deep\n\n> quoted\n\n```\nif (a < b) run();\n```\n\n```\na | b\n--+---\n1 | 22\n```",
  );
});

test("slack: mrkdwn with &, < and > escaped", () => {
  assert.equal(
    rendered(everything, "slack"),
    "*Title*\n\nSome *bold*, _slanted_, ~gone~, `code` and a <https://a.example/x?a=1&amp;b=2|link>.\n\n• one\n• two\n  1. deep\n\n> quoted\n\n```\nif (a &lt; b) run();\n```\n\n```\na | b\n--+---\n1 | 22\n```",
  );
});

test("telegram: the tags of its HTML style", () => {
  assert.equal(
    rendered(everything, "telegram"),
    '<b>Title</b>\n\nSome <b>bold</b>, <i>slanted</i>, <s>gone</s>, <code>code</code> and a <a href="https://a.example/x?a=1&amp;b=2">link</a>.\n\n• one\n• two\n  1. deep\n\n<blockquote>quoted</blockquote>\n\n<pre><code class="language-ts">if (a &lt; b) run();</code></pre>\n\n<pre>a | b\n--+---\n1 | 22</pre>',
  );
});

test("matrix and email: safe HTML beside the plain text", () => {
  for (const format of ["matrix", "email"] as const) {
    assert.equal(
      rendered(everything, format),
      '<h1>Title</h1><p>Some <strong>bold</strong>, <em>slanted</em>, <del>gone</del>, <code>code</code> and a <a href="https://a.example/x?a=1&amp;b=2">link</a>.</p><ul><li>one</li><li>two<ol><li>deep</li></ol></li></ul><blockquote><p>quoted</p></blockquote><pre><code class="language-ts">if (a &lt; b) run();\n</code></pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>22</td></tr></table>',
    );
    const [part] = renderParts(everything, { format, limit: 4000, unit: "utf16" });
    assert.equal(part?.text, rendered(everything, "plain"));
  }
});

test("signal: plain text with the ranges of its styles", () => {
  const [part] = renderParts("A **bold** `x` word", { format: "signal", limit: 4000, unit: "utf16" });
  assert.deepEqual(part, {
    text: "A bold x word",
    plain: "A bold x word",
    styles: ["2:4:BOLD", "7:1:MONOSPACE"],
  });
});

test("commonmark: the Markdown as it came", () => {
  assert.equal(rendered(everything, "commonmark"), everything);
});

test("HTML in an answer is text, whatever the platform", () => {
  const text = '<b onclick="x()">hi</b> <script>alert(1)</script> <!-- c --> </pre> &lt;i&gt;';
  const escaped =
    "&lt;b onclick=&quot;x()&quot;&gt;hi&lt;/b&gt; &lt;script&gt;alert(1)&lt;/script&gt; &lt;!-- c --&gt; &lt;/pre&gt; &lt;i&gt;";
  assert.equal(rendered(text, "telegram"), escaped);
  assert.equal(rendered(text, "matrix"), `<p>${escaped}</p>`);
  assert.equal(rendered(text, "slack"), escaped.replaceAll("&quot;", '"'));
  assert.equal(rendered("a<br>b<BR />c", "plain"), "a\nb\nc");
});

test("only http, https and mailto become links; other targets are shown as text", () => {
  for (const href of [
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "src/a.ts",
    "tg://user?id=1",
    "//x.example",
  ]) {
    for (const format of ["telegram", "matrix", "slack"] as const) {
      const text = rendered(`[here](${href})`, format);
      assert.doesNotMatch(text, /<a |<https?:|\|/);
      assert.ok(text.includes(`here (${href}`), text);
    }
  }
  assert.match(rendered("[m](mailto:a@b.example)", "telegram"), /<a href="mailto:a@b\.example">m<\/a>/);
  assert.equal(
    rendered("![a picture](https://a.example/p.png)", "plain"),
    "a picture (https://a.example/p.png)",
  );
  assert.equal(rendered("<https://a.example>", "plain"), "https://a.example");
  assert.equal(
    rendered('[x](https://a.example/"><b>|y)', "slack"),
    "<https://a.example/%22%3E%3Cb%3E%7Cy|x>",
  );
});

test("a mention of everybody in Slack cannot come from a text", () => {
  assert.equal(
    rendered("<!channel> <@U123> &lt;!here&gt;", "slack"),
    "&lt;!channel&gt; &lt;@U123&gt; &lt;!here&gt;",
  );
});

test("asterisks and underscores inside words stay where a platform has no marks inside words", () => {
  const code = "changed __init__.py, rm /var/*/log/*.gz, 2*3*4, 2**10 and 3**2, a.**b**.c";
  for (const format of ["plain", "signal", "whatsapp", "slack"] as const)
    assert.equal(rendered(code, format), code, format);
  assert.equal(
    rendered("**Note:** _all_ of *it*, (**x**), **重要**な点", "plain"),
    "Note: all of it, (x), 重要な点",
  );
  assert.equal(rendered("un**frigging**believable", "whatsapp"), "un**frigging**believable");
  assert.equal(rendered("_a\\_b c_ and ** c **", "whatsapp"), "a_b c and ** c **");
  assert.equal(rendered("**two\nlines**", "slack"), "*two*\n*lines*");
  assert.equal(rendered("un**frigging**believable", "telegram"), "un<b>frigging</b>believable");
});

test("backticks in code do not end it", () => {
  const text = "````\na ``` b\n````";
  for (const format of ["slack", "whatsapp"] as const)
    assert.equal(rendered(text, format).match(/```/g)?.length, 2);
});

test("wide tables become lines, and rows keep their links", () => {
  const wide = `| what | where |\n|--|--|\n| ${"word ".repeat(12)} | [x](https://a.example) |`;
  assert.equal(rendered(wide, "telegram").split("\n")[0], "what | where");
  assert.match(rendered(wide, "telegram"), /<a href="https:\/\/a\.example">x<\/a>$/);
});

test("lists continue with their numbers in the next part", () => {
  const text = Array.from({ length: 30 }, (_, at) => `${at + 1}. item number ${at + 1}`).join("\n");
  const parts = renderParts(text, { format: "matrix", limit: 300, unit: "utf16" });
  assert.ok(parts.length > 2);
  for (const { html = "", plain } of parts) {
    const number = /^(\d+)\. item number \1/.exec(plain)?.[1];
    assert.ok(number !== undefined);
    assert.ok(html.startsWith(number === "1" ? "<ol><li>" : `<ol start="${number}"><li>`), html);
  }
});

test("a text that is nested too deeply, or very long, is taken word for word", () => {
  const deep = `${"> ".repeat(60)}**words**`;
  assert.equal(rendered(deep, "plain"), deep);
  const long = `**bold** ${"word ".repeat(20_000)}`;
  const [part] = renderParts(long, { format: "telegram", limit: 4000, unit: "utf16" });
  assert.match(part?.text ?? "", /^\*\*bold\*\* word/);
});

test("a link that is too long for a message becomes words that can be cut", () => {
  const parts = renderParts(`[x](https://a.example/${"p".repeat(900)})`, {
    format: "slack",
    limit: 200,
    unit: "utf16",
  });
  assert.equal(
    parts
      .map(({ text }) => text)
      .join("")
      .replaceAll(" ", ""),
    `x(https://a.example/${"p".repeat(900)})`.replaceAll(" ", ""),
  );
});
