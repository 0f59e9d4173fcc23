import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { readAttachment } from "../../../../src/agent/attachments/attachment.ts";
import { ServiceError } from "../../../../src/base/errors.ts";
import { workspace } from "../tools/call.ts";
import { gifBytes, jpegBytes, pngBytes, webpBytes } from "./images.ts";

const dataUrl = (bytes: Uint8Array, type = "image/png") =>
  `data:${type};base64,${Buffer.from(bytes).toString("base64")}`;

function refused(run: Promise<unknown>, message: RegExp): Promise<void> {
  return assert.rejects(
    run,
    (error) =>
      error instanceof ServiceError && error.code === "invalid_content_part" && message.test(error.message),
  );
}

const nowhere = { cwd: "/", roots: [] };

for (const [type, bytes] of [
  ["image/png", pngBytes(3, 2)],
  ["image/gif", gifBytes(3, 2)],
  ["image/jpeg", jpegBytes(3, 2)],
  ["image/webp", webpBytes(3, 2)],
] as const) {
  test(`${type} is recognised by its bytes, whatever type is declared`, async () => {
    const read = await readAttachment(dataUrl(bytes, "image/bmp"), nowhere);
    assert.deepEqual(
      [read.attachment.type, read.attachment.mediaType, read.width, read.height, read.sizeBytes],
      ["image", type, 3, 2, bytes.length],
    );
    assert.equal(read.attachment.data, Buffer.from(bytes).toString("base64"));
  });
}

test("a local file is read only inside the roots, with links resolved", async (t) => {
  const [root, other] = [workspace(t), workspace(t)];
  writeFileSync(join(root, "a.png"), pngBytes(1, 1));
  writeFileSync(join(other, "b.png"), pngBytes(1, 1));
  symlinkSync(join(other, "b.png"), join(root, "link.png"));
  const options = { cwd: root, roots: [root] };
  assert.equal((await readAttachment("a.png", options)).attachment.name, "a.png");
  assert.equal((await readAttachment(pathToFileURL(join(root, "a.png")).href, options)).width, 1);
  for (const path of [join(other, "b.png"), "link.png", "../b.png"]) {
    await refused(readAttachment(path, options), /outside the folders|no such file/);
  }
  await refused(readAttachment("absent.png", options), /no such file/);
  await refused(readAttachment(".", options), /not a file/);
  await refused(readAttachment("a\0.png", options), /NUL/);
  await refused(readAttachment("file://elsewhere/a.png", options), /not a file URL of this machine/);
});

test("a text file is attached as text", async (t) => {
  const root = workspace(t);
  writeFileSync(join(root, "notes.svg"), "<svg>ä</svg>");
  const { attachment } = await readAttachment("notes.svg", { cwd: root, roots: [root] });
  assert.deepEqual(
    [attachment.type, attachment.mediaType, attachment.name],
    ["file", "text/plain", "notes.svg"],
  );
});

const pdf = new TextEncoder().encode("%PDF-1.7\n1 0 obj");

test("a PDF is a file of its type, whatever the URL says", async () => {
  const { attachment } = await readAttachment(dataUrl(pdf), nowhere);
  assert.deepEqual([attachment.type, attachment.mediaType], ["file", "application/pdf"]);
});

const big = new Uint8Array(2_000).fill(65);
const cases: readonly (readonly [string, string, object, RegExp])[] = [
  [
    "a file that is neither image nor text",
    dataUrl(new Uint8Array([1, 0, 2])),
    {},
    /is not text, a PDF, or a PNG/,
  ],
  ["a truncated image", dataUrl(pngBytes(3, 2).subarray(0, 20)), {}, /broken image/],
  ["nothing", "data:image/png;base64,", {}, /is empty/],
  ["invalid base64", "data:image/png;base64,@@@@", {}, /not base64/],
  ["a data URL that is not base64", "data:text/plain,hello", {}, /must have the form/],
  ["an image above the limit", dataUrl(pngBytes(3, 2)), { maxImageBytes: 10 }, /limit/],
  ["a PDF above the limit", dataUrl(pdf), { maxImageBytes: 4 }, /limit/],
  ["a text above the limit", dataUrl(big), { maxFileBytes: 1_000 }, /limit for text is 1000/],
  ["an image that claims a huge size", dataUrl(pngBytes(60_000, 60_000)), {}, /pixels/],
  ["a web address", "https://example.com/a.png", {}, /a web address/],
];
for (const [what, source, options, message] of cases) {
  test(`${what} is refused with a message that names the problem`, () =>
    refused(readAttachment(source, { ...nowhere, ...options }), message));
}
