import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "../../..");
const DOCUMENTS = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "test/README.md", "examples/README.md"];
const MODULES = readdirSync(join(root, "src"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const PATH = /^(?:\.ci|docs|examples|generated|scripts|specs|src|test)\/[\w./-]+$/;
/** Names what lies in `src` without it. */
const FLOWS = "docs/develop.md";
const FOLDER_OF_MODULE = new RegExp(`^(?:${MODULES.join("|")})/[\\w/-]+$`);
/** A name, perhaps with others, and the file that has it: "`PRESETS` in `src/webhook/receive/schemes.ts`". */
const NAME_IN_FILE =
  /`([A-Za-z_]\w+)`(?:(?:,| and|, and) (?:to )?`([A-Za-z_]\w+)`)? (?:in|of|from) `((?:scripts|specs|src|test)\/[\w./-]+\.\w+)`/g;

interface Mention {
  readonly document: string;
  readonly named: string;
}

const missing = ({ document, named }: Mention) => `${document} names ${named}`;

async function* documents(): AsyncGenerator<readonly [document: string, text: string]> {
  const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
  for (const document of [...DOCUMENTS, ...pages.map((name) => `docs/${name}`)])
    yield [document, await readFile(join(root, document), "utf8")];
}

/** The code spans of a document, without its blocks, on one line each. */
function spansOf(text: string): readonly string[] {
  return [...text.replaceAll(/^```[\s\S]*?^```/gm, "").matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span);
}

test("every file and folder that the documents name exists", async () => {
  const gone: Mention[] = [];
  let found = 0;
  for await (const [document, text] of documents()) {
    for (const named of spansOf(text)) {
      const paths = PATH.test(named)
        ? [named]
        : document === FLOWS && FOLDER_OF_MODULE.test(named)
          ? [`src/${named}`, `src/${named}.ts`]
          : undefined;
      if (paths === undefined) continue;
      found++;
      if (paths.some((path) => existsSync(join(root, path)))) continue;
      gone.push({ document, named });
    }
  }
  assert.ok(found > 60, `${found} files are named: the documents are not read as they are written`);
  assert.deepEqual(gone.map(missing), []);
});

test("every name that the documents place in a file is in it", async () => {
  const gone: Mention[] = [];
  let found = 0;
  for await (const [document, text] of documents()) {
    for (const [, first = "", second, file = ""] of text.replaceAll(/\s+/g, " ").matchAll(NAME_IN_FILE)) {
      const source = existsSync(join(root, file)) ? await readFile(join(root, file), "utf8") : "";
      for (const name of second === undefined ? [first] : [first, second]) {
        found++;
        if (!new RegExp(`\\b${name}\\b`).test(source)) gone.push({ document, named: `${name} in ${file}` });
      }
    }
  }
  assert.ok(found > 8, `${found} names are placed in files: the documents are not read as they are written`);
  assert.deepEqual(gone.map(missing), []);
});
