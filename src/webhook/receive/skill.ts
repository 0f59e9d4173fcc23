/** The skill of a route: the first of its names that there is. */
import { type LoadedSkill, loadSkill, type Skills } from "../../agent/skills/skills.ts";
import type { Log } from "../../base/observe/log.ts";

/** Never rejects. Undefined when none of the names can be loaded: the run goes on without. */
export type LoadSkill = (names: readonly string[]) => Promise<LoadedSkill | undefined>;

export function createLoadSkill({
  skills,
  cwd,
  log,
}: {
  readonly skills: Pick<Skills, "find">;
  /** Where the runs of webhooks work: its project may have skills of its own. */
  readonly cwd: string;
  readonly log: Pick<Log, "warn">;
}): LoadSkill {
  return async (names) => {
    for (const name of names) {
      try {
        const skill = await loadSkill(skills, name, cwd);
        if (skill) return skill;
        log.warn("a skill of a webhook route does not exist", { skill: name });
      } catch (error) {
        log.warn("a skill of a webhook route cannot be loaded; the run goes on without", {
          skill: name,
          error,
        });
        return undefined;
      }
    }
    return undefined;
  };
}
