import type { LastStatus } from "./job.ts";
import type { OccurrenceStatus } from "./occurrence.ts";

/** What an occurrence came to. */
export interface Ending {
  readonly status: Extract<OccurrenceStatus, "ok" | "failed" | "unknown">;
  /** The answer; of what failed, why. Without what is secret. */
  readonly text: string;
  /** Where it is another than the status says. */
  readonly lastStatus?: LastStatus;
  /** True: nobody is told, be it well or ill. */
  readonly isQuiet?: boolean;
}
