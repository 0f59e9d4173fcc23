import assert from "node:assert/strict";
import { realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RequestError, type ContentBlock } from "@agentclientprotocol/sdk/unstable";
import fc, { type Arbitrary } from "fast-check";
import {
  readBlocks,
  MAX_BLOCKS,
  MAX_IMAGES,
  MAX_IMAGES_BYTES,
  MAX_LINKED_BYTES,
  MAX_TEXT_CHARACTERS,
  messageOf,
} from "../../../src/acp/prompt/content.ts";
import type { LinkedFiles } from "../../../src/acp/prompt/content-file.ts";
import { jpegBytes, pngBytes } from "../agent/attachments/images.ts";
import { workspace } from "../agent/tools/call.ts";

const nasty = fc.constantFrom(
  "\u0000",
  "\ud800",
  "](x)\n# no",
  "```",
  "%",
  "[@",
  "\u2028",
  "x".repeat(5_000),
  "💥",
);
const words = fc.oneof({ weight: 3, arbitrary: fc.string({ unit: "grapheme", maxLength: 40 }) }, nasty);

const base64 = fc.oneof(
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString("base64")),
  fc.constantFrom(pngBytes(1, 1), jpegBytes(1, 1)).map((bytes) => bytes.toString("base64")),
  fc.constantFrom("", "=", "a", "****", "data:image/png;base64,AAAA"),
  words,
);

function uris(root: string): Arbitrary<string> {
  const names = fc.constantFrom(
    "a.txt",
    ".env",
    "p.png",
    "up/a.txt",
    "loop",
    "..",
    "../..",
    "%2e%2e/a.txt",
    "",
    "~",
  );
  return fc.oneof(
    names.map((name) => `file://${root}/${name}`),
    names.map((name) => join(root, name)),
    words.map((rest) => `file:///${rest}`),
    fc.webUrl(),
    fc.constantFrom(
      "file:",
      "file://host/x",
      "file:///C:/x",
      "zed:///agent/x",
      "",
      "/dev/zero",
      "/proc/self/mem",
    ),
    words,
  );
}

function blocks(root: string): Arbitrary<ContentBlock> {
  const uri = uris(root);
  return fc.oneof(
    { weight: 3, arbitrary: words.map((text): ContentBlock => ({ type: "text", text })) },
    fc.record({ type: fc.constant("image" as const), data: base64, mimeType: words }),
    fc.record({ type: fc.constant("resource_link" as const), uri, name: words }),
    fc.record({ type: fc.constant("resource" as const), resource: fc.record({ uri, text: words }) }),
    fc.record({ type: fc.constant("resource" as const), resource: fc.record({ uri, blob: base64 }) }),
    fc.record({ type: fc.constant("audio" as const), data: base64, mimeType: words }),
    words.map((type) => ({ type }) as unknown as ContentBlock),
  );
}

test("no sequence of blocks breaks the message or its limits", async (t) => {
  const root = realpathSync(workspace(t));
  writeFileSync(join(root, "a.txt"), "text");
  writeFileSync(join(root, ".env"), "SECRET");
  writeFileSync(join(root, "p.png"), pngBytes(1, 1));
  symlinkSync(root, join(root, "up"));
  symlinkSync(join(root, "loop"), join(root, "loop"));
  const unsaved = fc.option(words, { nil: undefined });
  await fc.assert(
    fc.asyncProperty(fc.array(blocks(root), { maxLength: 12 }), unsaved, async (prompt, edited) => {
      const files: LinkedFiles = {
        roots: [root],
        home: "/home/x",
        agentHome: "/home/x/.a",
        unsaved: async () => edited,
      };
      const message = await messageOf(prompt, files).catch((error: unknown) => {
        assert.ok(error instanceof RequestError, String(error));
        assert.equal(error.code, -32_602);
        assert.match(error.message, /prompt\[\d+\]/);
        return undefined;
      });
      if (!message) return;
      const { text, attachments = [] } = message;
      const written = prompt.filter(({ type }) => type === "text").length;
      const spare = (prompt.length - written) * 10_000;
      assert.ok(text.length <= MAX_TEXT_CHARACTERS + spare);
      assert.ok(attachments.length <= prompt.length);
      for (const each of attachments) {
        assert.doesNotMatch(Buffer.from(each.data, "base64").toString("latin1"), /SECRET/);
        assert.equal(Buffer.from(each.data, "base64").toString("base64"), each.data);
        assert.match(
          each.mediaType,
          each.type === "image" ? /^image\/(png|jpeg|gif|webp)$/ : /^text\/plain$/,
        );
        assert.ok((each.name ?? "").length <= 4_096);
      }
      JSON.stringify(message);
    }),
    { numRuns: 300 },
  );
});

test("many large blocks stay within every limit", async (t) => {
  const root = realpathSync(workspace(t));
  writeFileSync(join(root, "half.txt"), "x".repeat(500_000));
  const large = Buffer.concat([pngBytes(1, 1), Buffer.alloc(4_000_000)]).toString("base64");
  const kinds: readonly ContentBlock[] = [
    { type: "text", text: "x".repeat(500_000) },
    { type: "resource", resource: { uri: "mem:x", text: "x".repeat(500_000) } },
    { type: "image", data: large, mimeType: "image/png" },
    { type: "resource_link", uri: `file://${root}/half.txt`, name: "half" },
  ];
  const files: LinkedFiles = {
    roots: [root],
    home: "/home/x",
    agentHome: "/x",
    unsaved: async () => undefined,
  };
  const counts = fc.array(fc.constantFrom(...kinds), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(counts, async (prompt) => {
      const message = await messageOf(prompt, files).catch((error: unknown) => {
        assert.ok(error instanceof RequestError && error.code === -32_602, String(error));
        return undefined;
      });
      const count = (kind: ContentBlock["type"]) => prompt.filter(({ type }) => type === kind).length;
      const characters = (count("text") + count("resource")) * 500_000;
      const bytes = count("image") * Buffer.from(large, "base64").length;
      const fits =
        characters <= MAX_TEXT_CHARACTERS && bytes <= MAX_IMAGES_BYTES && count("image") <= MAX_IMAGES;
      assert.equal(message !== undefined, fits);
      const linked = (message?.attachments ?? []).filter(({ name }) => name?.endsWith("half.txt"));
      assert.ok(linked.length * 500_000 <= MAX_LINKED_BYTES);
    }),
    { numRuns: 15 },
  );
});

test("an invalid list of blocks is rejected with the path of the error", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      try {
        const read = readBlocks(value);
        assert.ok(read.length > 0);
      } catch (error) {
        assert.ok(error instanceof RequestError && error.code === -32_602, String(error));
        assert.match(error.message, /^prompt/);
      }
    }),
  );
  for (const value of [
    undefined,
    [],
    [null],
    [{ type: "text" }],
    [{ type: "resource", resource: { uri: "x" } }],
  ]) {
    assert.throws(() => readBlocks(value), RequestError);
  }
  assert.equal(
    readBlocks(Array.from({ length: MAX_BLOCKS }, () => ({ type: "text", text: "" }))).length,
    MAX_BLOCKS,
  );
});
