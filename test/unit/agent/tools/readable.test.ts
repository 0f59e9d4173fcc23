import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { plainText, readPage } from "../../../../src/agent/tools/web/page-reader.ts";
import { toReadable } from "../../../../src/agent/tools/web/readable.ts";

const url = "https://site.example/docs/page.html";
const sentence = "Some words, and more words, that make up a paragraph which counts as text. ";
const article = `<article><h1>Head</h1>${`<p>${sentence.repeat(4)}</p>`.repeat(4)}`;
const read = (html: string, timeoutMs = 200_000, signal = new AbortController().signal) =>
  readPage(html, { url, timeoutMs, signal });

test("an article is kept, its surroundings are omitted", () => {
  const page = toReadable(
    `<!doctype html><html><head><title>The  title</title><script>bad()</script></head><body>
     <nav><ul><li><a href="/home">Home sweet</a></li></ul></nav>${article}
     <h2>Second</h2><p>See <a href="../other?a=(1)">that</a>, ${sentence}</p><pre><code>a  b\n  c</code></pre></article>
     <footer>Imprint here</footer></body></html>`,
    url,
  );
  assert.equal(page.title, "The title");
  assert.match(page.markdown, /## Second/);
  assert.match(page.markdown, /\[that\]\(https:\/\/site\.example\/other\?a=%281%29\)/);
  assert.match(page.markdown, /```\na {2}b\n {2}c\n```/);
  assert.doesNotMatch(page.markdown, /Imprint|Home sweet|bad\(\)/);
});

test("a page without an article returns its whole body", () => {
  const page = toReadable("<html><body><ul><li>One<li>Two</ul><script>bad()</script></body></html>", url);
  assert.match(page.markdown, /-\s+One\n-\s+Two/);
  assert.doesNotMatch(page.markdown, /bad/);
  assert.match(toReadable("<p>Bare <b>bones</b>", url).markdown, /^Bare \*\*bones\*\*$/);
  assert.equal(toReadable("", url).markdown, "");
});

test("tables keep their rows and columns", () => {
  const rows = "<tr><th>Name</th><th>Age</th></tr><tr><td>A|b</td><td><p>1</p></td></tr>";
  const page = toReadable(`<html><body><table>${rows}</table></body></html>`, url);
  assert.equal(page.markdown, "| Name | Age |\n| --- | --- |\n| A\\|b | 1 |");
});

test("links that run scripts or carry data become their text", () => {
  const links = ["javascript:x()", "JaVaScRiPt:x()", "data:text/html,x", "http://[bad", "#top"];
  for (const href of links)
    assert.equal(
      toReadable(`<html><body><p><a href="${href}">word</a></p></body></html>`, url).markdown,
      "word",
    );
  const images =
    '<img src="data:image/png;base64,AAAA" alt="a dot"><img src="/b.png" alt="b"><img src="/c.png">';
  assert.equal(
    toReadable(`<html><body><p>${images}</p></body></html>`, url).markdown,
    "a dot![b](https://site.example/b.png)",
  );
});

test("a base element applies to links", () => {
  const html = `<html><head><base href="https://cdn.example/x/"></head><body><p><a href="y">z</a></p></body></html>`;
  assert.equal(toReadable(html, url).markdown, "[z](https://cdn.example/x/y)");
});

test("an ordinary page is converted on its thread", async () => {
  const page = await read(`<html><head><title>T</title></head><body>${article}</article></body></html>`);
  assert.equal(page.isBare, false);
  assert.equal(page.title, "T");
  assert.match(page.markdown, /which counts as text/);
});

test("hostile pages return plain text in bounded time", { timeout: 60_000 }, async () => {
  const wrap = (inside: string) => `<html><head><title>Evil &amp; odd</title></head><body>${inside}`;
  const pages = {
    nested: wrap(`${"<div>".repeat(100_000)}bottom`),
    list: wrap(`<ol>${"<li>item, is here".repeat(100_000)}</ol>bottom`),
    newlines: wrap(
      `<p>${sentence.repeat(20)}</p><pre>${"\n".repeat(400_000)}x${"\n ".repeat(400_000)}</pre>bottom`,
    ),
    brackets: wrap(`${"<".repeat(2_000_000)}<p>bottom`),
  };
  for (const [name, html] of Object.entries(pages)) {
    const page = await read(html, 200);
    assert.equal(page.isBare, true, name);
    assert.equal(page.title, "Evil & odd", name);
    assert.match(page.markdown, /bottom$/, name);
  }
});

test("a signal stops the thread", async () => {
  const stop = new AbortController();
  const reason = new Error("stopped");
  const reading = read(`<html><body>${"<div>".repeat(100_000)}`, 30_000, stop.signal);
  await nextTurn();
  stop.abort(reason);
  await assert.rejects(reading, reason);
});

test("plain text drops scripts, comments and tags, and keeps lines separate", () => {
  const html = `<head><title>t</title></head><p>One <b>t</b>wo &lt;x&gt; &#65;&#x42;<script>if (a < b) "</p>"</script ><!-- <p>no -->
    <div>a &unknown; &#0;&#1114112;</div><STYLE>x</STYLE>1 < 2<br/>end<script>open`;
  assert.equal(plainText(html), "One two <x> AB\na &unknown;\n1 < 2\nend");
});

test("plain text takes linear time", () => {
  const pages = ["<script>", "<style ", "<!--", "<", "</", "&#", " \n", "<p", "<a>", "<head>", "</script"];
  for (const piece of pages) {
    // A quadratic algorithm would need hours.
    assert.ok(plainText(piece.repeat(5_000_000 / piece.length)).length <= 5_000_000, piece);
  }
});
