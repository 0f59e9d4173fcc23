/** What the agent is asked when a job fires. Pure. */
import type { JobDefinition } from "./job.ts";

export function jobPrompt({ prompt }: JobDefinition): string {
  return [GUARD, prompt].join("\n\n");
}

const GUARD =
  "This is a scheduled run: nobody is there to answer. Your final answer is delivered for you; do not send it yourself.";
