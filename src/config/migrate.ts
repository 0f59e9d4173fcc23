/** Brings files of older versions up to date, on the YAML document so that comments survive. Pure. */
import { isMap, type Document } from "yaml";
import type { Problem } from "./issue.ts";

export interface Migration {
  /** The version that it makes. */
  readonly to: number;
  /** Must leave a document alone that is already of the new form. */
  migrate(yaml: Document): void;
}

/** One for each version after the first, in order. */
const migrations: readonly Migration[] = [];
const FIRST_VERSION = 1;

export interface Migrated {
  /** The version that the file had. */
  readonly from: number;
  readonly to: number;
  /** When the file was made by a newer agentd, and must be neither used nor written. */
  readonly problem?: Problem;
}

/** Changes `yaml` in place. A file without a version is of the first one; other nonsense is left to the schema. */
export function migrateDocument(yaml: Document, steps: readonly Migration[] = migrations): Migrated {
  const current = steps.at(-1)?.to ?? FIRST_VERSION;
  const written = isMap(yaml.contents) ? yaml.get("version") : undefined;
  const from = Number.isInteger(written) ? Number(written) : FIRST_VERSION;
  if (from > current) {
    const message = `${from} is newer than this agentd, which knows versions up to ${current}; install a newer agentd`;
    return { from, to: current, problem: { path: ["version"], message, kind: "invalid" } };
  }
  const due = from < FIRST_VERSION || !isMap(yaml.contents) ? [] : steps.filter(({ to }) => to > from);
  for (const step of due) {
    step.migrate(yaml);
    yaml.set("version", step.to);
  }
  return { from, to: current };
}
