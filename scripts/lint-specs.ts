/** `npm run lint:specs [folder]`: redocly over the API specs that exist, and the configuration schema's own checks. */
import { join } from "node:path";
import process from "node:process";
import { lintSpecs } from "./lib/lint.ts";
import { repository } from "./lib/redocly.ts";

const [folder = join(repository, "specs")] = process.argv.slice(2);
const { ok, reports } = await lintSpecs(folder);
for (const report of reports) console.log(report);
if (!ok) process.exitCode = 1;
