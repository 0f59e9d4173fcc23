/** Which test files a suite has, and which of them a second database or runtime needs. */
import { glob, stat } from "node:fs/promises";
import { distancesFrom, readImports, type ImportGraph } from "./graph.ts";

/** Folders of the suites that run on their own. README.md of `test/` says what each proves. */
const folders = {
  main: ["test/unit", "test/contract", "test/flows", "test/compat"],
  process: ["test/process"],
  clients: ["test/clients"],
  scripts: ["test/scripts"],
  crash: ["test/crash"],
  console: ["test/console"],
} as const;

export type Suite = keyof typeof folders | "postgres" | "deno";

export const suites: readonly Suite[] = [
  "main",
  "process",
  "clients",
  "scripts",
  "crash",
  "console",
  "postgres",
  "deno",
];

export interface Selection {
  /** Sorted paths, relative to the working directory. */
  readonly files: readonly string[];
  readonly leftOut: readonly { readonly reason: string; readonly files: readonly string[] }[];
}

/** The files of a suite; only those below `paths` if there are any. A path without tests is an error. */
export async function selectFiles(suite: Suite, paths: readonly string[]): Promise<Selection> {
  if (paths.length > 0) return { files: await filesBelow(paths), leftOut: [] };
  if (suite === "postgres") return selectForPostgres();
  if (suite === "deno") return selectForDeno();
  return { files: await filesBelow(folders[suite]), leftOut: [] };
}

/**
 * The unit tests of the store, and those that import a file with SQL of their module; for each such file the nearest unit
 * tests and the nearest test through a surface; the contract tests, since surfaces have SQL of their own; and a few for
 * each way to start the program.
 */
async function selectForPostgres(): Promise<Selection> {
  const { main, others, clients, graph } = await readAll();
  const opens = (file: string) => distancesFrom(graph, file).has(DATABASE);
  const opening = main.filter(opens);
  const queries = sourcesWhere(graph, (file) => SQL.test(graph.sources.get(file) ?? ""));
  return selection([
    {
      files: main.filter((file) => !opening.includes(file)),
      chosen: [],
      reason: "open no database",
    },
    {
      files: opening,
      chosen: [
        ...opening.filter((file) => file.startsWith("test/unit/store/")),
        ...opening.filter((file) => distanceTo(graph, file, ofModule(file, queries)) <= 1),
        ...opening.filter((file) => file.startsWith("test/contract/")),
        ...nearest(graph, opening.filter(isUnit), queries, 2),
        ...nearest(graph, opening.filter(isSurface), queries, 1),
      ],
      reason: "are farther from each file with SQL than those chosen",
    },
    {
      files: others.filter((file) => !opens(file)),
      chosen: [],
      reason: "start the program without a database",
    },
    startingPart(graph, others.filter(opens)),
    { files: clients, chosen: [], reason: "test client packages, which know nothing of the database" },
  ]);
}

/**
 * The unit tests close to a file of their module that touches the runtime; for each such file the nearest unit test and
 * the nearest test through a surface; and a few for each way to start the program.
 */
async function selectForDeno(): Promise<Selection> {
  const { main, others, clients, graph } = await readAll();
  const borders = sourcesWhere(graph, (file) => graph.packages.get(file)?.some((name) => RUNTIME.test(name)));
  const touching = main.filter((file) => distanceTo(graph, file, borders) < Infinity);
  const packaged = others.filter((file) => distancesFrom(graph, file).has(PACKAGE));
  const ofHosts = clients.filter((file) => file.startsWith(HOST_CLIENT));
  return selection([
    {
      files: main.filter((file) => !touching.includes(file)),
      chosen: [],
      reason: "touch nothing that differs between runtimes",
    },
    {
      files: touching,
      chosen: [
        ...touching.filter((file) => distanceTo(graph, file, ofModule(file, borders)) <= CLOSE),
        ...nearest(graph, touching.filter(isUnit), borders, 1),
        ...nearest(graph, touching.filter(isSurface), borders, 1),
      ],
      reason: "are farther from each file that touches the runtime than those chosen",
    },
    { files: packaged, chosen: [], reason: "start a package that runs on Node" },
    startingPart(graph, [...others.filter((file) => !packaged.includes(file)), ...ofHosts], ON_EACH_RUNTIME),
    {
      files: clients.filter((file) => !ofHosts.includes(file)),
      chosen: [],
      reason: "test the other client packages",
    },
  ]);
}

async function readAll() {
  const main = await filesBelow(folders.main);
  const others = await filesBelow([...folders.process, ...folders.crash]);
  const clients = await filesBelow(folders.clients);
  return { main, others, clients, graph: await readImports([...main, ...others, ...clients]) };
}

function sourcesWhere(graph: ImportGraph, fits: (file: string) => boolean | undefined): string[] {
  return [...graph.imports.keys()].filter((file) => file.startsWith("src/") && fits(file));
}

function startingPart(graph: ImportGraph, files: readonly string[], also: readonly string[] = []): Part {
  return {
    files,
    chosen: [...nearest(graph, files, starters(graph), TESTS_PER_STARTER), ...also],
    reason: "start the program as others do that were chosen",
  };
}

const isUnit = (file: string) => file.startsWith("test/unit/");
const isSurface = (file: string) => !isUnit(file);

/** Those of the module that a unit test is about; none for other tests. */
function ofModule(file: string, sources: readonly string[]): string[] {
  const [, module = "?"] = /^test\/unit\/(\w+)\//.exec(file) ?? [];
  return sources.filter((source) => source.startsWith(`src/${module}/`));
}

/** Of the shortest way to one of the targets. */
function distanceTo(graph: ImportGraph, file: string, targets: readonly string[]): number {
  const distances = distancesFrom(graph, file);
  return Math.min(...targets.map((target) => distances.get(target) ?? Infinity));
}

/** Through here tests get a database. */
const DATABASE = "test/harness/store.ts";
/** How queries begin. */
const SQL = /\b(selectFrom|insertInto|updateTable|deleteFrom)\(|\bsql`|\btx\.(insert|update|delete)\(/;
/** Through here tests start the program, or a child of their own. */
const PROGRAM = "test/harness/program.ts";
/** Through here tests run the commands of the packed and installed package, and of the single executable. */
const PACKAGE = "test/process/package/smoke.ts";
/** Tests of the client that hosts of the gateway import, on Node or on Deno. */
const HOST_CLIENT = "test/clients/gateway/";
/** Modules that each runtime has in its own make, and the servers and drivers that stand on them. */
const RUNTIME =
  /^node:(child_process|crypto|dns|fs|http|https|net|os|process|sqlite|stream|worker_threads|zlib)\b|^(h3|srvx|crossws|postgres|nodemailer|write-file-atomic)\b/;
/** Imports between a test and a file that touches the runtime: the test names it, or what stands on it. */
const CLOSE = 2;
const TESTS_PER_STARTER = 1;
/** What agentd promises of each runtime as a whole. */
const ON_EACH_RUNTIME = ["test/process/conformance/conformance.test.ts"];

/** Test helpers that start the program. */
function starters(graph: ImportGraph): string[] {
  return [...graph.imports]
    .filter(([file, imports]) => !file.endsWith(".test.ts") && imports.includes(PROGRAM))
    .map(([file]) => file);
}

/** For each target the `count` files with the shortest way to it; of equals, those that are near to more targets. */
function nearest(
  graph: ImportGraph,
  files: readonly string[],
  targets: readonly string[],
  count: number,
): string[] {
  const distances = new Map(files.map((file) => [file, distancesFrom(graph, file)]));
  const reach = new Map(
    [...distances].map(([file, found]) => [file, targets.filter((target) => found.has(target)).length]),
  );
  const chosen = targets.flatMap((target) =>
    files
      .filter((file) => distances.get(file)?.has(target))
      .toSorted((a, b) => {
        const nearer = (distances.get(a)?.get(target) ?? 0) - (distances.get(b)?.get(target) ?? 0);
        return nearer || (reach.get(b) ?? 0) - (reach.get(a) ?? 0);
      })
      .slice(0, count),
  );
  return [...new Set(chosen)];
}

interface Part {
  readonly files: readonly string[];
  readonly chosen: readonly string[];
  readonly reason: string;
}

function selection(parts: readonly Part[]): Selection {
  return {
    files: [...new Set(parts.flatMap(({ chosen }) => chosen))].toSorted(),
    leftOut: parts.map(({ files, chosen, reason }) => ({
      reason,
      files: files.filter((file) => !chosen.includes(file)),
    })),
  };
}

async function filesBelow(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map(filesAt));
  return [...new Set(found.flat())].toSorted();
}

async function filesAt(path: string): Promise<string[]> {
  const about = await stat(path).catch(() => undefined);
  if (about?.isFile()) return [path];
  const files: string[] = [];
  for await (const file of glob(`${path.replace(/\/$/, "")}/**/*.test.ts`)) files.push(file);
  if (files.length === 0) throw new Error(`No tests below ${path}. Name a folder or a file of test/.`);
  return files;
}
