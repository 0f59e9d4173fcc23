import { LruMap } from "../../base/lru.ts";
import type { Clock } from "../../base/clock.ts";
import { skillsIntroduction, type Skills } from "../skills/skills.ts";
import { contextFiles, contextText } from "./context-files.ts";

/** So long a directory's texts are taken as they were: turns that follow each other closely look at the disk once. */
const FRESH_MS = 2_000;
const MAX_DIRECTORIES = 100;

interface Briefed {
  readonly atMs: number;
  readonly texts: Promise<readonly string[]>;
}

/** What a turn in a directory is told of it and of the skills there are: texts for its instructions. */
export function createBriefing(options: {
  readonly skills: Skills;
  /** Names of context files, such as AGENTS.md. */
  readonly names: readonly string[];
  readonly clock: Clock;
}): (cwd: string) => Promise<readonly string[]> {
  const known = new LruMap<string, Briefed>(MAX_DIRECTORIES);
  return (cwd) => {
    const nowMs = options.clock.now();
    const last = known.get(cwd);
    if (last && nowMs - last.atMs < FRESH_MS) return last.texts;
    const texts = brief(cwd, options);
    known.set(cwd, { atMs: nowMs, texts });
    return texts;
  };
}

async function brief(
  cwd: string,
  { skills, names }: { readonly skills: Skills; readonly names: readonly string[] },
): Promise<readonly string[]> {
  const [files, found] = await Promise.all([contextFiles(cwd, names), skills.list(cwd)]);
  return [contextText(files), skillsIntroduction(found.skills)].filter((text) => text !== "");
}
