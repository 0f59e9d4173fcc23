/** Takes the lock at argv[2], counts in the file argv[3] as many times as argv[4] says; 0 holds it until it is killed. */
import { readFile, writeFile } from "node:fs/promises";
import process from "node:process";
import { withExclusiveLock } from "../../../src/base/system/file-lock.ts";

const [, , path = "", counter = "", rounds = "0"] = process.argv;

async function countOnce(): Promise<void> {
  const before = Number(await readFile(counter, "utf8"));
  await new Promise((resolve) => setImmediate(resolve));
  await writeFile(counter, String(before + 1));
}

if (Number(rounds) === 0) {
  await withExclusiveLock({ path, waitMs: 10_000 }, async () => {
    process.stdout.write("held\n");
    await new Promise((resolve) => setTimeout(resolve, 600_000));
  });
}
for (let round = 0; round < Number(rounds); round += 1) {
  await withExclusiveLock({ path, waitMs: 60_000 }, countOnce);
}
