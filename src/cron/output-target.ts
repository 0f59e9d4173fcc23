/** Keeps outputs as files in the home. Touches the machine. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { writePrivateFile } from "../config/home.ts";
import type { Target } from "../deliver/target.ts";

/** People cannot name it: it is no platform. */
export const OUTPUT_TARGET = "cron_output";

/** Writes `<folder>/<job>/<file>`. The same output is always the same file. */
export function createOutputTarget({ folder }: { readonly folder: string }): Target {
  return {
    name: OUTPUT_TARGET,
    isOrdered: false,
    knowsRepeats: true,
    async send({ payload }) {
      const { jobId, file, text } = payload as { jobId: string; file: string; text: string };
      const place = join(folder, jobId);
      try {
        await mkdir(place, { recursive: true, mode: 0o700 });
        await writePrivateFile(join(place, file), text);
        return { status: "delivered" };
      } catch (error) {
        return { status: "retry", error: `${join(place, file)} could not be written: ${String(error)}` };
      }
    },
  };
}
