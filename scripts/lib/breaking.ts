/** Finds changes between two sets of bundles that break a client. Touches the machine. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { decideChanges, type DiffChange, type Decision } from "./compatible-changes.ts";
import { SpecError, type BundledDocument } from "./document.ts";
import { exists, isMissing, readJson, removeFolder, writeJson } from "./files.ts";
import { repository, runRedocly } from "./redocly.ts";
import { projectRpc } from "./rpc-projection.ts";
import { apiSpecs, type SpecFile } from "./specs.ts";

export interface Comparison {
  /** Name of the bundle. */
  readonly file: string;
  readonly result: "new" | "absent" | "removed" | "compatible" | "announced" | "breaking";
  /** What to show. */
  readonly report: string;
}

export interface CompareOptions {
  /** A folder of bundles, or a git revision whose generated/specs/ is meant. */
  readonly base: string;
  /** A folder of bundles. */
  readonly revisionFolder: string;
}

const run = promisify(execFile);

/** One comparison for every API. Throws SpecError when `base` is neither a folder nor a revision. */
export async function compareSpecs({ base, revisionFolder }: CompareOptions): Promise<readonly Comparison[]> {
  const work = await mkdtemp(join(tmpdir(), "breaking-"));
  try {
    const baseFolder = (await isFolder(base)) ? base : await checkOut(base, join(work, "base"));
    return await Promise.all(
      apiSpecs.map((spec) => compareSpec(spec, { base, baseFolder, revisionFolder, work })),
    );
  } finally {
    await removeFolder(work);
  }
}

interface Places {
  readonly base: string;
  readonly baseFolder: string;
  readonly revisionFolder: string;
  readonly work: string;
}

async function compareSpec({ bundle }: SpecFile, places: Places): Promise<Comparison> {
  const [older, newer] = [join(places.baseFolder, bundle), join(places.revisionFolder, bundle)];
  const [inBase, inRevision] = await Promise.all([exists(older), exists(newer)]);
  if (!inBase && !inRevision) return { file: bundle, result: "absent", report: `${bundle}: on neither side` };
  if (!inBase) {
    return {
      file: bundle,
      result: "new",
      report: `${bundle}: ${places.base} has none yet, nothing to compare with`,
    };
  }
  if (!inRevision)
    return { file: bundle, result: "removed", report: `${bundle}: it is gone; every client breaks` };
  const [a, b] = bundle.endsWith(".openrpc.json")
    ? await Promise.all([
        project(older, join(places.work, `base-${bundle}`)),
        project(newer, join(places.work, bundle)),
      ])
    : [older, newer];
  const { status, output } = await runRedocly(["diff", a, b, "--fail-on=major"]);
  const said = `${bundle}:\n${output}`;
  if (status === 0) return { file: bundle, result: "compatible", report: said };
  const { breaking, compatible } = await decide(a, b, join(places.work, `changes-${bundle}`));
  const report = [said, ...compatible.map((each) => `Breaks no client: ${each}`)].join("\n");
  if (breaking === 0) return { file: bundle, result: "compatible", report };
  const [before, now] = await Promise.all([versionOf(older), versionOf(newer)]);
  if (!announcesBreaking(before, now)) return { file: bundle, result: "breaking", report };
  return {
    file: bundle,
    result: "announced",
    report: `${report}\nThe version says so: ${before} -> ${now}.`,
  };
}

/** The differ rates changes by their form alone. */
async function decide(base: string, revision: string, file: string): Promise<Decision> {
  await runRedocly(["diff", base, revision, "--format=json", `--output=${file}`]);
  const { changes } = (await readJson(file)) as { readonly changes: readonly DiffChange[] };
  return decideChanges(changes, { base: await readJson(base), revision: await readJson(revision) });
}

async function versionOf(file: string): Promise<string> {
  return ((await readJson(file)) as BundledDocument).info.version;
}

/** Returns the tag of the newest release before the current commit of a repository. */
export async function newestRelease(folder: string): Promise<string | undefined> {
  const words = ["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"];
  const { stdout } = await run("git", words, { cwd: folder }).catch(() => ({ stdout: "" }));
  return stdout.trim() || undefined;
}

/** Whether clients of `before` cannot expect `now` to be compatible (Semantic Versioning 2.0.0, 4 and 8). */
export function announcesBreaking(before: string, now: string): boolean {
  const [oldMajor = 0, oldMinor = 0] = before.split(".").map(Number);
  const [newMajor = 0, newMinor = 0] = now.split(".").map(Number);
  return newMajor > oldMajor || (newMajor === 0 && oldMajor === 0 && newMinor > oldMinor);
}

/** The differ has no rules for OpenRPC, so it is shown the same contract as OpenAPI. */
async function project(source: string, target: string): Promise<string> {
  const document = (await readJson(source)) as BundledDocument;
  await writeJson(target, projectRpc(document, source.endsWith("host.openrpc.json") ? "host" : "gateway"));
  return target;
}

async function checkOut(revision: string, folder: string): Promise<string> {
  const git = (...args: string[]) => run("git", args, { cwd: repository, maxBuffer: 64 * 2 ** 20 });
  await git("rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`).catch(() => {
    throw new SpecError([`${revision} is neither a folder nor a git revision`]);
  });
  await mkdir(folder, { recursive: true });
  const files = (await git("ls-tree", "--name-only", revision, "generated/specs/")).stdout.split("\n");
  const wanted = apiSpecs.filter(({ bundle }) => files.includes(`generated/specs/${bundle}`));
  await Promise.all(
    wanted.map(async ({ bundle }) => {
      const { stdout } = await git("show", `${revision}:generated/specs/${bundle}`);
      await writeFile(join(folder, bundle), stdout);
    }),
  );
  return folder;
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    (error: unknown) => {
      if (isMissing(error)) return false;
      throw error;
    },
  );
}
