/**
 * `npm run breaking -- [base] [revision folder]`: fails when a client of `base` would break. Without a base: the newest
 * release, a tag such as v1.2.3. Nobody relies on what was never released.
 */
import { join } from "node:path";
import process from "node:process";
import { compareSpecs, newestRelease } from "./lib/breaking.ts";
import { SpecError } from "./lib/document.ts";
import { repository } from "./lib/redocly.ts";

const [named, revisionFolder = join(repository, "generated/specs")] = process.argv.slice(2);

try {
  const base = named ?? (await newestRelease(repository));
  if (base === undefined) {
    console.log(
      "Nothing was released yet: there is no tag such as v1.2.3, so no client can break. " +
        "To compare with another version: npm run breaking -- <folder of bundles | git revision>",
    );
    process.exit();
  }
  const comparisons = await compareSpecs({ base, revisionFolder });
  for (const { report } of comparisons.filter(({ result }) => result !== "absent"))
    console.log(`${report}\n`);
  const broken = comparisons.filter(({ result }) => result === "breaking" || result === "removed");
  if (broken.length > 0) {
    console.error(`breaking changes in ${broken.map(({ file }) => file).join(", ")}`);
    process.exitCode = 1;
  }
} catch (error) {
  if (!(error instanceof SpecError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
