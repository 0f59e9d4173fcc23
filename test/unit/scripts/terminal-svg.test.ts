import assert from "node:assert/strict";
import { test } from "node:test";
import { drawTerminal } from "../../../scripts/lib/terminal-svg.ts";

const options = { title: "agentd", columns: 40, description: "A <screen>" };

test("a screen is drawn in its colours and weights, at the columns where its text stands", () => {
  const picture = drawTerminal("\u001b[36m› \u001b[1;39mhello\u001b[0m  \u001b[2mfaint\n  next", options);
  const texts = [
    ...picture.matchAll(/<text(?: class="([^"]*)")? x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)<\/text>/g),
  ].map(([, name, x, y, text]) => [name, Number(x), Number(y), text]);
  assert.deepEqual(texts, [
    ["dim", 186, 23, "agentd"],
    ["cyan", 18, 62, "›"],
    ["bold", 34.8, 62, "hello"],
    ["dim", 93.6, 62, "faint"],
    ["dim", 34.8, 82, "next"],
  ]);
});

test("text of the screen cannot become markup", () => {
  const picture = drawTerminal('<script>&"', options);
  assert.match(picture, />&lt;script&gt;&amp;"</);
  assert.match(picture, /<title>A &lt;screen&gt;<\/title>/);
});

test("a picture has colours for light and dark pages, and names what it shows", () => {
  const picture = drawTerminal("hello", options);
  assert.match(picture, /^<svg [^>]*role="img">/);
  assert.match(picture, /@media\(prefers-color-scheme:dark\)/);
  assert.doesNotMatch(picture, /<script|href=|url\(/);
});
