// node scripts/build-binary.ts [--out FILE]: dist/ and the Node that runs this script as one executable file for this platform.
// `npm run build:binary` makes dist/ first. docs/install.md says what macOS needs on top.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";
import process from "node:process";
import { parseArgs, promisify } from "node:util";
import packageFile from "../package.json" with { type: "json" };
import { build } from "esbuild";

/** Node looks for this mark in itself; the other half says whether a program is attached. */
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
const RESOURCE = "NODE_SEA_BLOB";

interface Injector {
  inject(file: string, resource: string, data: Buffer, options: object): Promise<void>;
}

const runProgram = promisify(execFile);
const root = resolve(import.meta.dirname, "..");
const dist = join(root, "dist");
const { values: options } = parseArgs({
  options: { out: { type: "string", default: join(root, "dist-binary/agentd") } },
});
const out = resolve(options.out);
const work = await mkdtemp(join(tmpdir(), "agentd-binary-"));
try {
  const blob = await prepareBlob(await programFiles());
  await writeExecutable(blob);
  const { size } = await stat(out);
  console.log(
    `${out}: agentd ${packageFile.version}, Node ${process.versions.node}, ${Math.round(size / 1e6)} MB`,
  );
} finally {
  await rm(work, { recursive: true, force: true });
}

/** Returns the files of dist/ that the program reads, by their relative paths: not what only those who import agentd need. */
async function programFiles(): Promise<readonly string[]> {
  const entries = await readdir(dist, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(dist, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((path) => !path.startsWith("types/") && !/^(?:agentd|client|gateway|index)\.mjs$/.test(path))
    .toSorted();
}

async function prepareBlob(files: readonly string[]): Promise<Buffer> {
  const hash = createHash("sha256");
  for (const path of files) {
    const content = await readFile(join(dist, path));
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  const manifest = join(work, "manifest.json");
  await writeFile(
    manifest,
    JSON.stringify({ version: packageFile.version, digest: hash.digest("hex"), files }),
  );
  const main = join(work, "start.cjs");
  await build({
    absWorkingDir: root,
    entryPoints: ["scripts/binary/start.ts"],
    outfile: main,
    bundle: true,
    minify: true,
    platform: "node",
    format: "cjs",
    target: "node24",
    logLevel: "warning",
  });
  const output = join(work, "program.blob");
  const assets = Object.fromEntries(files.map((path) => [path, join(dist, path)]));
  const config = {
    main,
    output,
    disableExperimentalSEAWarning: true,
    // A snapshot or cached code of the main script would not allow it to import anything.
    useSnapshot: false,
    useCodeCache: false,
    assets: { ...assets, manifest },
  };
  await writeFile(join(work, "sea.json"), JSON.stringify(config));
  await runProgram(process.execPath, ["--experimental-sea-config", join(work, "sea.json")]);
  return readFile(output);
}

/** Beside its place, and moved there when it is whole: an executable that runs cannot be written. */
async function writeExecutable(blob: Buffer): Promise<void> {
  await mkdir(dirname(out), { recursive: true });
  const fresh = `${out}.${process.pid}.tmp`;
  try {
    await copyFile(process.execPath, fresh);
    await chmod(fresh, 0o755);
    // macOS starts no file whose signature does not fit, and on Apple silicon none without one.
    if (process.platform === "darwin") await runProgram("codesign", ["--remove-signature", fresh]);
    const { inject } = createRequire(import.meta.url)("postject") as Injector;
    const segment = process.platform === "darwin" ? { machoSegmentName: "NODE_SEA" } : {};
    await inject(fresh, RESOURCE, blob, { sentinelFuse: FUSE, ...segment });
    if (process.platform === "darwin") await runProgram("codesign", ["--sign", "-", fresh]);
    await rename(fresh, out);
  } finally {
    await rm(fresh, { force: true });
  }
}
