import { loadSkill } from "../../agent/skills/load-skill.ts";
import type { Claimed } from "../tick/claim.ts";
import { readContexts } from "./context.ts";
import { readLateness } from "./lateness.ts";
import { jobPrompt, type JobSkill } from "./prompt.ts";
import type { CronRoom } from "../deps.ts";
import type { ScriptOutcome } from "./script.ts";

/** The prompt of an occurrence, with what has to be read for it. */
export async function assemblePrompt(
  room: CronRoom,
  { occurrence, job }: Claimed,
  script: ScriptOutcome | undefined,
): Promise<ReturnType<typeof jobPrompt>> {
  const { definition } = job;
  const [lateness, contexts, skills] = await Promise.all([
    readLateness(room.store, occurrence),
    readContexts(room, definition.contextFrom),
    Promise.all(definition.skills.map((name) => readSkill(room, name, definition.workdir ?? room.workspace))),
  ]);
  return jobPrompt({ job: definition, nowMs: room.clock.now(), lateness, script, contexts, skills });
}

async function readSkill({ skills, log }: CronRoom, name: string, cwd: string): Promise<JobSkill> {
  try {
    return (await loadSkill(skills, name, cwd)) ?? { name, problem: "there is none of that name" };
  } catch (error) {
    log.warn("a skill of a job cannot be read; the run goes on without", { skill: name, error });
    return { name, problem: "it cannot be read" };
  }
}
