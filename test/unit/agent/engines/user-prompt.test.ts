import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attachment } from "../../../../src/agent/engine.ts";
import { saying, strict } from "../../../harness/openai-server.ts";
import { startLocalEngine } from "./local-engine.ts";
import { probe } from "./turn-probe.ts";

const PNG = "iVBORw0KGgo=";
const base64 = (text: string) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

/** The user's message as the server receives it. */
async function sent(attachments: readonly Attachment[], more: { text?: string; name?: string } = {}) {
  await using local = await startLocalEngine(strict([saying("ok")]));
  const { end } = await probe(local.engine, {
    turn: { messages: [{ role: "user", text: "look", ...more, attachments }] },
  });
  assert.equal(end.text, "ok", end.error?.message);
  return local.server.requests[0]?.body.messages.at(-1)?.["content"] as
    | string
    | { type: string; text?: string; image_url?: { url: string }; file?: { filename: string } }[];
}

test("an image is sent after the text", async () => {
  const content = await sent([{ type: "image", mediaType: "image/png", data: PNG, name: "a.png" }]);
  assert.deepEqual(content, [
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
  ]);
});

test("an image without a text is sent alone, because providers refuse an empty text", async () => {
  const content = await sent([{ type: "image", mediaType: "image/png", data: PNG }], { text: "" });
  assert.deepEqual(typeof content === "string" ? [] : content.map(({ type }) => type), ["image_url"]);
});

test("a PDF is sent as a file with its name", async () => {
  const content = await sent([
    { type: "file", mediaType: "application/pdf", data: base64("%PDF-1.7"), name: "paper.pdf" },
  ]);
  assert.ok(typeof content !== "string");
  assert.equal(content[1]?.type, "file");
  assert.equal(content[1]?.file?.filename, "paper.pdf");
});

for (const mediaType of [
  "text/plain",
  "text/markdown; charset=utf-8",
  "application/json",
  "application/ld+json",
]) {
  test(`a file of ${mediaType} is part of the text with its name, in a code fence that it cannot close`, async () => {
    const data = base64("ö\n```\nout?\n````\n");
    const content = JSON.stringify(await sent([{ type: "file", mediaType, data, name: "notes.md" }]));
    assert.match(content, /notes\.md/);
    assert.match(content, /`{5}\\nö\\n```\\nout\?\\n````\\n`{5}/);
  });
}

test("a file that no provider accepts is only mentioned", async () => {
  const content = JSON.stringify(
    await sent([{ type: "file", mediaType: "application/zip", data: base64("PK"), name: "a.zip" }]),
  );
  assert.match(content, /a\.zip.*application\/zip.*cannot be shown/);
});

test("a text file with invalid base64 is mentioned and breaks nothing", async () => {
  const content = JSON.stringify(await sent([{ type: "file", mediaType: "text/plain", data: "%%%" }]));
  assert.match(content, /could not be decoded/);
});

test("an unsupported part is reported as such, not as an unreachable provider", async () => {
  await using local = await startLocalEngine([saying("never")]);
  const film: Attachment = { type: "file", mediaType: "audio/flac", data: base64("sound") };
  const { end, events } = await probe(local.engine, {
    turn: { messages: [{ role: "user", text: "hear", attachments: [film] }] },
  });
  assert.match(end.error?.message ?? "", /attachment/);
  assert.deepEqual(events, [], "nobody tries again");
  assert.equal(local.server.requests.length, 0);
});

test("a user's name precedes the text, on one line", async () => {
  assert.equal(await sent([], { name: "Ada\nL" }), "Ada L: look");
});
