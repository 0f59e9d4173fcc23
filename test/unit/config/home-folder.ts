import { chmod, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A fresh home folder; `await using` removes it. */
export async function createHome(files: Readonly<Record<string, string>> = {}) {
  const home = await mkdtemp(join(tmpdir(), "agentd-home-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(home, name), text, { mode: 0o600 });
  return {
    home,
    [Symbol.asyncDispose]: async () => {
      await chmod(home, 0o700);
      await rm(home, { recursive: true, force: true });
    },
  };
}

export async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o7777).toString(8);
}
