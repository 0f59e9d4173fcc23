import { outward } from "./commands-beyond.ts";
import { ofGit } from "./commands-of-git.ts";
import { asking } from "./commands-that-ask.ts";
import { guarded } from "./commands-on-secrets.ts";
import { running } from "./commands-that-run.ts";
import type { Row } from "./rows.ts";

/** The whole table. */
export const rows: readonly Row[] = [...running, ...asking, ...ofGit, ...outward, ...guarded];

const commandsThat = (starts: RegExp): readonly string[] =>
  rows.filter(({ expected }) => starts.test(expected)).flatMap(({ commands }) => commands);

export const ordinary = commandsThat(/^(look|run)$/);
export const risky = commandsThat(/^ask/);
export const never = commandsThat(/^deny$/);
