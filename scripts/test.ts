// node scripts/test.ts [SUITE] [PATH ...] [--watch] [--slowest N] [--workers N]: runs tests in a few processes.
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { runFiles } from "./test/pool.ts";
import { createReport } from "./test/report.ts";
import { filesOf, isSuite, type Suite } from "./test/suites.ts";

const root = resolve(import.meta.dirname, "..");
process.chdir(root);
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    watch: { type: "boolean", default: false },
    slowest: { type: "string", default: "0" },
    workers: { type: "string", default: String(availableParallelism()) },
  },
});
const [first = "main"] = positionals;
const suite: Suite = isSuite(first) ? first : "main";
const paths = positionals.filter((each) => each !== suite);
const isGreen = await run();
process.exitCode = isGreen ? 0 : 1;

async function run(): Promise<boolean> {
  const files = await filesOf(suite, paths);
  const folder = await mkdtemp(join(tmpdir(), "agentd-tests-"));
  const report = createReport(files.length, Number(values.slowest));
  try {
    await runFiles({
      files,
      workers: Number(values.workers),
      env: environment(folder),
      onFileStart: report.fileStart,
      onResult: report.result,
      onFileEnd: report.fileEnd,
      onOutput: report.output,
    });
    return report.end();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Nothing of the machine's own configuration may reach a test; what they write into goes with the run. */
function environment(folder: string): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(AGENTD_(?!TEST_)|API_SERVER_|FORCE_COLOR)/.test(name),
  );
  const database = process.env["AGENTD_DATABASE_URL"];
  return {
    ...Object.fromEntries(own),
    ...(database === undefined ? {} : { AGENTD_DATABASE_URL: database }),
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? join(root, "node_modules/.cache/agentd"),
    TMPDIR: folder,
  };
}
