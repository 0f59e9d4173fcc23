// Runs tests: `node scripts/test.ts [SUITE] [PATH ...]`. The options stand in HELP below.
import { spawn } from "node:child_process";
import { watch } from "node:fs";
import { glob, mkdtemp, readFile, rm, stat, statfs, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startBrowser } from "./test/browser.ts";
import { slowestFirst } from "./test/order.ts";
import { runFiles } from "./test/pool.ts";
import { createReport } from "./test/report.ts";
import { selectFiles, suites, type Suite } from "./test/suites.ts";

const HELP = `node scripts/test.ts [SUITE] [PATH ...] [OPTIONS]

Suites: main (default: all that runs in the process of the tests), process (what starts the program),
clients (the client packages in each language), scripts (what starts the tools of this repository),
crash (what kills the program), console (the pages, in Chromium),
postgres (what can differ there; needs AGENTD_DATABASE_URL), deno (what can differ there).
PATH: a folder or file below test/; only its tests run.

  --watch        run again when a source or test changes
  --workers N    processes to run files in (default: three more than there are cores)
  --minutes N    repeat the suite until N minutes have passed; a failure ends it
  --slowest N    print the N slowest files and their CPU time
  --list         print what would run, and what is left out and why
`;

const MEMORY_FOLDER = "/dev/shm";
/** Several times what a run keeps at once. */
const MIN_MEMORY_BYTES = 4 * 1024 ** 3;

const root = resolve(import.meta.dirname, "..");
process.chdir(root);
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    watch: { type: "boolean", default: false },
    workers: { type: "string" },
    minutes: { type: "string", default: "0" },
    slowest: { type: "string", default: "0" },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const named = suites.find((suite) => suite === positionals[0]);
const suite: Suite = named ?? "main";
const paths = positionals.slice(named ? 1 : 0);
const workers = Number(options.workers ?? defaultWorkers());

if (options.help) process.stdout.write(HELP);
else if (options.watch) await repeatOnChange();
else process.exitCode = (await repeatFor(Number(options.minutes) * 60_000)) ? 0 : 1;

async function repeatFor(durationMs: number): Promise<boolean> {
  const endMs = performance.now() + durationMs;
  do {
    if (!(await runSuite())) return false;
  } while (performance.now() < endMs);
  return true;
}

async function repeatOnChange(): Promise<never> {
  for (;;) {
    const change = Promise.withResolvers<void>();
    const watchers = ["src", "test", "generated"].map((folder) =>
      watch(folder, { recursive: true }, () => change.resolve()),
    );
    const stop = new AbortController();
    const run = runSuite(stop.signal);
    await change.promise;
    stop.abort();
    await run;
    // An editor writes several files for one save.
    await sleep(100);
    for (const watcher of watchers) watcher.close();
  }
}

/** False: a test failed. */
async function runSuite(signal?: AbortSignal): Promise<boolean> {
  const { files, leftOut } = await selectFiles(suite, paths);
  for (const { reason, files: left } of leftOut)
    console.log(`Left out, since they ${reason}: ${left.length} files`);
  if (options.list) {
    for (const { reason, files: left } of leftOut) console.log(["", `${reason}:`, ...left].join("\n"));
    console.log(["", `${files.length} files run:`, ...files].join("\n"));
    return true;
  }
  if (suite === "postgres" && process.env["AGENTD_DATABASE_URL"] === undefined) {
    throw new Error(
      "AGENTD_DATABASE_URL is not set. `.ci/postgres start` starts a server and prints its URL.",
    );
  }
  const folder = await mkdtemp(join(await scratchParent(), "agentd-tests-"));
  try {
    if (suite === "deno") return await runOnDeno(files, environment(folder), folder);
    if (files.some((file) => /^test\/(process|clients|crash|console)\//.test(file))) await buildIfOlder();
    if (!files.some((file) => file.startsWith("test/console/")))
      return await runOnNode(files, environment(folder), signal);
    await using browser = await startBrowser();
    if (browser) return await runOnNode(files, { ...environment(folder), ...browser.env }, signal);
    console.log("Left out, since there is no Chromium: the console. Name one in CHROMIUM_PATH.");
    const others = files.filter((file) => !file.startsWith("test/console/"));
    return others.length === 0 || (await runOnNode(others, environment(folder), signal));
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function runOnNode(
  files: readonly string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const report = createReport(files.length, Number(options.slowest));
  await runFiles({
    files: slowestFirst(files),
    workers,
    env,
    onFileStart: report.fileStart,
    onResult: report.result,
    onFileEnd: report.fileEnd,
    onOutput: report.output,
    ...(signal ? { signal } : {}),
  });
  return report.end();
}

/**
 * Deno gives every file that it is named an isolate of its own, which loads all modules anew: so it gets a few files that
 * import the tests. Those with hooks for the whole file stay alone.
 */
async function runOnDeno(files: readonly string[], env: NodeJS.ProcessEnv, folder: string): Promise<boolean> {
  const sources = await Promise.all(files.map((file) => readFile(file, "utf8")));
  const isAlone = (_: string, index: number) => /^(before|after)(Each)?\(/m.test(sources[index] ?? "");
  const grouped = files.filter((file, index) => !isAlone(file, index));
  const count = Math.min(grouped.length, 2 * workers);
  const groups = Array.from({ length: count }, (_, at) =>
    grouped.filter((_file, index) => index % count === at),
  );
  const entries = await Promise.all(
    groups.map(async (group, at) => {
      const path = join(folder, `group-${at}.test.ts`);
      await writeFile(path, group.map((file) => `import ${JSON.stringify(resolve(file))};\n`).join(""));
      return path;
    }),
  );
  const words = ["test", "-A", "--no-check", "--parallel", "--config", "deno.json"];
  return runCommand("deno", [...words, ...entries, ...files.filter(isAlone)], {
    ...env,
    DENO_JOBS: String(workers),
  });
}

/** In memory where there is enough: a kill of a process loses nothing there either, and syncs take no time. */
async function scratchParent(): Promise<string> {
  if (process.env["TMPDIR"] !== undefined) return tmpdir();
  const memory = await statfs(MEMORY_FOLDER).catch(() => undefined);
  return memory && memory.bavail * memory.bsize > MIN_MEMORY_BYTES ? MEMORY_FOLDER : tmpdir();
}

/** Tests also wait: for PostgreSQL more than for anything else. */
function defaultWorkers(): number {
  const cores = availableParallelism();
  return suite === "postgres" || process.env["AGENTD_DATABASE_URL"] ? 2 * cores + 1 : cores + 3;
}

/** What starts the program tests what people get, as the sources are now. */
async function buildIfOlder(): Promise<void> {
  const built = await stat("dist/agentd.mjs").catch(() => undefined);
  for await (const file of glob([
    "src/**/*",
    "generated/**/*",
    "scripts/{build,lib/console}.ts",
    "package.json",
  ])) {
    const { mtimeMs } = await stat(file);
    if (built && mtimeMs <= built.mtimeMs) continue;
    console.log("Building dist/: the sources are newer.");
    if (!(await runCommand(process.execPath, ["scripts/build.ts"], process.env)))
      throw new Error("The build failed.");
    return;
  }
}

async function runCommand(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<boolean> {
  const child = spawn(command, args, { stdio: ["ignore", "inherit", "inherit"], env });
  return new Promise((done, fail) => {
    child.once("error", fail);
    child.once("close", (code) => done(code === 0));
  });
}

/** Nothing of the machine's own configuration may reach a test; what they write into goes with the run. */
function environment(folder: string): NodeJS.ProcessEnv {
  const {
    AGENTD_DATABASE_URL: database,
    NODE_COMPILE_CACHE: cache = "node_modules/.cache/agentd",
    ...rest
  } = process.env;
  const own = Object.entries(rest).filter(
    ([name]) => !/^(AGENTD_(?!TEST_)|API_SERVER_|FORCE_COLOR)/.test(name),
  );
  return {
    ...Object.fromEntries(own),
    ...(database === undefined ? {} : { AGENTD_DATABASE_URL: database }),
    NODE_COMPILE_CACHE: resolve(cache),
    TMPDIR: folder,
  };
}
