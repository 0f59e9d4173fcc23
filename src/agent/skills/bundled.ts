/** Where the skills are that come with the program. Touches the machine. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** In the source; beside the bundle; beside the folder of its chunks. */
const CANDIDATES = ["./bundled/", "./skills/", "../skills/"];
/** The one that is always there: another folder of the name is not ours. */
const KNOWN = "webhook-subscriptions/SKILL.md";

/** Absolute. Undefined where the program is one file without them. */
export function bundledSkillsFolder(): string | undefined {
  return CANDIDATES.map((path) => fileURLToPath(new URL(path, import.meta.url))).find((folder) =>
    existsSync(folder + KNOWN),
  );
}
