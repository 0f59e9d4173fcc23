/** Every block of README.md and docs/ runs, and prints what the page shows. */
import assert from "node:assert/strict";
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { anchorsOf, blocksOf, linksOf, outputPattern, plain, RUN, type Block } from "./blocks.ts";
import { openSession, pythonIsMissing, type Session } from "./session.ts";

const root = join(import.meta.dirname, "../../..");
const MAX_README_BYTES = 6_000;
/** Blocks that need something a test does not have. A new one must replace another, or find a way to run. */
const MAX_NOT_RUN = 20;
/** The tests of these clients run their pages. */
const PAGES_OF_CLIENTS = new Set(["docs/go-client.md", "docs/python-client.md"]);
const pages = ["README.md", ...(await namesOf("docs/*.md")), "examples/README.md"];
const read = (file: string) => readFile(join(root, file), "utf8");

for (const page of pages.filter((name) => !PAGES_OF_CLIENTS.has(name))) {
  const blocks = blocksOf(await read(page));
  if (blocks.length === 0) continue;
  test(`the commands of ${page} run and print what it shows`, async () => {
    const startsGateway = blocks.some(
      ({ code, language }) => language === "sh" && /^agentd gateway$/m.test(code),
    );
    const needsGateway = blocks.some(({ language, notRun }) => RUN.has(language) && notRun === undefined);
    await using session = await openSession({
      program: agentdCommand(),
      environment: programEnvironment(),
      withGateway: needsGateway && !startsGateway,
    });
    let printed: Printed;
    for (const block of blocks) printed = await runBlock(session, block, printed);
  });
}

test("few blocks of the pages cannot run, and each says why", async (t) => {
  const found = await Promise.all(
    pages
      .filter((page) => !PAGES_OF_CLIENTS.has(page))
      .map(async (page) =>
        blocksOf(await read(page)).flatMap(({ line, notRun }) =>
          notRun ? [`${page}:${line}: ${notRun}`] : [],
        ),
      ),
  );
  const notRun = found.flat();
  for (const each of notRun) t.diagnostic(`not run: ${each}`);
  if (pythonIsMissing) t.diagnostic(`not run: blocks in Python: ${pythonIsMissing}`);
  assert.ok(notRun.length <= MAX_NOT_RUN, `${notRun.length} blocks are not run, ${MAX_NOT_RUN} may be`);
});

test("each page begins with what it is for and a first block, and the README is short", async () => {
  for (const page of pages) {
    const text = await read(page);
    assert.match(text, /^# .+\n\n\S/, `${page} begins with a title and a sentence`);
    if (page === "README.md")
      assert.ok(Buffer.byteLength(text) <= MAX_README_BYTES, "the README is too long");
    else assert.match(text.split(/^## /m)[0] ?? "", /^```/m, `${page} has no block before its first section`);
  }
});

test("every link between the pages leads to a file and a heading that exist", async () => {
  const others = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "test/README.md"];
  const broken: string[] = [];
  for (const page of [...pages, ...others]) {
    for (const { file, anchor } of linksOf(page, await read(page))) {
      const text = await read(file).catch((error: { code?: string }) =>
        error.code === "EISDIR" ? "" : undefined,
      );
      if (text === undefined) broken.push(`${page}: ${file} does not exist`);
      else if (anchor !== "" && !anchorsOf(text).has(anchor))
        broken.push(`${page}: ${file} has no #${anchor}`);
    }
  }
  assert.deepEqual(broken, []);
});

test("the README leads to every page", async () => {
  const linked = new Set(linksOf("README.md", await read("README.md")).map(({ file }) => file));
  assert.deepEqual(
    pages.filter((page) => page !== "README.md" && !linked.has(page)),
    [],
  );
});

test("the README names the command that runs the tests in a new clone", async () => {
  assert.ok((await read("README.md")).includes("\nnpm ci && npm test "));
});

/** What the block before printed; undefined when it prints nothing. */
type Printed = string | "(not run)" | undefined;

/** Runs a block or compares it with what the block before it printed; returns what this one printed. */
async function runBlock(session: Session, block: Block, printed: Printed): Promise<Printed> {
  const { language, code, line, notRun } = block;
  if (language === "text") {
    assert.ok(printed !== undefined, `line ${line}: no block before this output prints something`);
    const isShown = printed === "(not run)" || outputPattern(code).test(plain(printed));
    assert.ok(isShown, `line ${line}: the page shows\n${code}\nand the block printed\n${printed}`);
    return undefined;
  }
  if (notRun !== undefined || (language === "python" && pythonIsMissing)) return "(not run)";
  if (language === "json") JSON.parse(code);
  return RUN.has(language) || language === "yaml" ? session.run(block) : undefined;
}

async function namesOf(pattern: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const name of glob(pattern, { cwd: root })) names.push(name);
  return names.toSorted();
}
