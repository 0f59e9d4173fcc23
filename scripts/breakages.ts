// node scripts/breakages.ts [NAME ...]: breaks guarantees on purpose, one at a time, and checks that a test fails.
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { allBreakages, staleness } from "./breakages/all.ts";
import type { Breakage } from "./breakages/breakage.ts";
import { runTests, type Failure } from "./breakages/run-tests.ts";

/** What came of one breakage. `problem` stands where no test could be asked. */
interface Result {
  readonly breakage: Breakage;
  readonly caughtBy?: Failure | undefined;
  readonly problem?: string;
}

const root = resolve(import.meta.dirname, "..");
const notCopied = new Set(["node_modules", ".git", "dist"]);

const results = await inCopy(async (copy) => {
  const chosen = choose(process.argv.slice(2));
  const alreadyFailing = await baseline(copy, chosen);
  const found: Result[] = [];
  for (const breakage of chosen) {
    const result = await tryOut(copy, breakage, alreadyFailing);
    print(result);
    found.push(result);
  }
  return found;
});
const caught = results.filter(({ caughtBy }) => caughtBy);
console.log(`\n${caught.length} of ${results.length} broken guarantees are caught by a test`);
process.exitCode = caught.length === results.length ? 0 : 1;

/** Those of the database at hand that were named, or all of them. */
function choose(names: readonly string[]): readonly Breakage[] {
  const unknown = names.filter((name) => !allBreakages.some((each) => each.name === name));
  if (unknown.length > 0) throw new Error(`There is no breakage ${unknown.join(", ")}.`);
  const here = process.env["AGENTD_DATABASE_URL"] ? "postgres" : "sqlite";
  const chosen = allBreakages.filter(({ name }) => names.length === 0 || names.includes(name));
  return chosen.filter(({ database = here }) => database === here);
}

/** Gives `work` a copy of the checkout, which is never written to itself. */
async function inCopy<T>(work: (copy: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-broken-"));
  const copy = join(folder, "tree");
  try {
    await mkdir(join(folder, "tmp"));
    for (const name of await readdir(root)) {
      if (!notCopied.has(name)) await cp(join(root, name), join(copy, name), { recursive: true });
    }
    await symlink(join(root, "node_modules"), join(copy, "node_modules"));
    return await work(copy);
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Tests that fail in the unbroken copy: they catch nothing. */
async function baseline(copy: string, chosen: readonly Breakage[]): Promise<ReadonlySet<string>> {
  const files = [...new Set(chosen.flatMap(({ tests }) => tests))].toSorted();
  const failing = new Set((await runTests(copy, files)).map(keyOf));
  for (const each of failing) console.log(`fails without any breakage: ${each}`);
  return failing;
}

async function tryOut(
  copy: string,
  breakage: Breakage,
  alreadyFailing: ReadonlySet<string>,
): Promise<Result> {
  const path = join(copy, "src", breakage.file);
  const source = await readFile(path, "utf8");
  const problem = staleness(breakage, source);
  if (problem !== undefined) return { breakage, problem };
  // A function, since `$` in a text would stand for something else.
  await writeFile(
    path,
    source.replace(breakage.from, () => breakage.to),
  );
  try {
    // A file that cannot be loaded says nothing about the guarantee.
    const catches = (failure: Failure) => !failure.isWholeFile && !alreadyFailing.has(keyOf(failure));
    const failures = await runTests(copy, breakage.tests, catches);
    return { breakage, caughtBy: failures.find(catches) };
  } finally {
    await writeFile(path, source);
  }
}

function isOfProcess(file: string): boolean {
  return file.startsWith("process/");
}

function keyOf({ file, title }: Failure): string {
  return `${file}: ${title}`;
}

/** A row of the table. */
function print({ breakage, caughtBy, problem }: Result): void {
  const { name, guarantee, file, tests } = breakage;
  const suite = tests.some(isOfProcess) ? "test:process" : "npm test";
  const how = caughtBy
    ? `${caughtBy.file}: ${caughtBy.title}`
    : (problem ?? `nothing in ${tests.join(", ")}`);
  console.log(`| ${name} | ${guarantee} | ${file} | ${suite} | ${how} | ${caughtBy ? "yes" : "NO"} |`);
}
