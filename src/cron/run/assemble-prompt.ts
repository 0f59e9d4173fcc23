import { loadSkill } from "../../agent/skills/skills.ts";
import type { Claimed } from "../tick/claim.ts";
import { readContexts } from "./context.ts";
import { readLateness } from "./lateness.ts";
import { jobPrompt, type JobSkill } from "./prompt.ts";
import type { CronDeps } from "../deps.ts";
import type { ScriptOutcome } from "./script.ts";

/** The prompt of an occurrence, with what has to be read for it. */
export async function assemblePrompt(
  deps: CronDeps,
  { occurrence, job }: Claimed,
  script: ScriptOutcome | undefined,
): Promise<ReturnType<typeof jobPrompt>> {
  const { definition } = job;
  const [lateness, contexts, skills] = await Promise.all([
    readLateness(deps.store, occurrence),
    readContexts(deps, definition.contextFrom),
    Promise.all(definition.skills.map((name) => readSkill(deps, name, definition.workdir ?? deps.workspace))),
  ]);
  return jobPrompt({ job: definition, nowMs: deps.clock.now(), lateness, script, contexts, skills });
}

async function readSkill({ skills, log }: CronDeps, name: string, cwd: string): Promise<JobSkill> {
  try {
    return (await loadSkill(skills, name, cwd)) ?? { name, problem: "there is none of that name" };
  } catch (error) {
    log.warn("a skill of a job cannot be read; the run goes on without", { skill: name, error });
    return { name, problem: "it cannot be read" };
  }
}
