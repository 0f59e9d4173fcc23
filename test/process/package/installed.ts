/** The package as people have it: packed, installed into a folder of its own, started from elsewhere. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { tmpdir } from "node:os";
import { promisify } from "node:util";
import packageFile from "../../../package.json" with { type: "json" };
import { builtProgram, programEnvironment } from "../../harness/program.ts";

const run = promisify(execFile);
/** Node, also where Deno runs the tests: the package starts by `#!/usr/bin/env node`. */
const runtimes = join(import.meta.dirname, "../../../node_modules/.bin");

export interface Installed extends AsyncDisposable {
  /** What a shell finds as `agentd`. */
  readonly program: string;
  /** An empty folder to work in, outside of the repository. */
  readonly elsewhere: string;
  /** Returns the environment of a process whose user has an empty home, or `env`'s. */
  environment(env?: Readonly<Record<string, string>>): Record<string, string>;
}

/**
 * Packs what is built, and unpacks it where `npm install --global --prefix` puts it. Nothing lies beside it, not even its
 * dependencies: the program is bundled, and whatever it would load from a package that is not in the bundle fails here.
 */
export async function installPackage(): Promise<Installed> {
  const base = await mkdtemp(join(tmpdir(), "agentd-installed-"));
  const [elsewhere, home] = [join(base, "elsewhere"), join(base, "home")];
  await Promise.all([mkdir(elsewhere), mkdir(home)]);
  return {
    program: await unpack(await pack(base), base),
    elsewhere,
    environment: (env = {}) => {
      // Of its own: no later run finds anything by the path of this one.
      const cache = { NODE_COMPILE_CACHE: join(base, "compiled") };
      const { PATH = "", ...own } = programEnvironment({ HOME: home, ...cache });
      return { ...own, PATH: `${runtimes}${delimiter}${PATH}`, ...env };
    },
    [Symbol.asyncDispose]: () => rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
  };
}

/** Returns the path of the archive. */
async function pack(folder: string): Promise<string> {
  const words = ["pack", dirname(dirname(builtProgram())), "--ignore-scripts", "--pack-destination", folder];
  const env = programEnvironment({ HOME: folder, npm_config_cache: join(folder, "npm") });
  const { stdout } = await run("npm", [...words, "--json"], { cwd: folder, env });
  const [archive] = JSON.parse(stdout) as readonly { readonly filename: string }[];
  assert.ok(archive, stdout);
  return join(folder, archive.filename);
}

/** Returns the path of the command. */
async function unpack(archive: string, folder: string): Promise<string> {
  const [modules, bin] = [join(folder, "lib/node_modules", packageFile.name), join(folder, "bin")];
  await Promise.all([mkdir(modules, { recursive: true }), mkdir(bin)]);
  await run("tar", ["-xzf", archive, "-C", modules, "--strip-components=1"]);
  const file = join(modules, "dist/agentd.mjs");
  await chmod(file, 0o755);
  await symlink(file, join(bin, "agentd"));
  return join(bin, "agentd");
}
