/** `npm run breaking -- <base> [revision folder]`: fails when a client of `base` would break. */
import { join } from "node:path";
import process from "node:process";
import { compareSpecs } from "./lib/breaking.ts";
import { SpecError } from "./lib/document.ts";
import { repository } from "./lib/redocly.ts";

const [base, revisionFolder = join(repository, "generated/specs")] = process.argv.slice(2);

try {
  if (base === undefined)
    throw new SpecError(["usage: npm run breaking -- <folder of bundles | git revision>"]);
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
