/** `agentd backup`: writes the home and its database into one file while services run. */
import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths } from "../../config/home.ts";
import { currentContext } from "../kit/context.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, optionalArgument, switchOption } from "../kit/options.ts";
import { findDatabase } from "../kit/database.ts";
import { backUp, stampOf, type BackupSource } from "../../app/backup/backup.ts";
import type { BackupFacts } from "../../app/backup/archive.ts";

export const backupCommand = defineCommand({
  meta: {
    name: "backup",
    description:
      "Write the home and its SQLite database into one file while services run. Keys are left out unless --secrets is given",
  },
  args: {
    file: optionalArgument("A new file. Default: agentd-backup-<time>.tar.gz in the current folder"),
    secrets: switchOption("Include .env and the secrets in config.yaml and in webhook subscriptions"),
    workspace: switchOption("Include the workspace if it is inside the home"),
    json: jsonOption,
  },
  async run({ args }) {
    const source = await findSource();
    const target = resolve(args.file ?? `agentd-backup-${stampOf(new Date())}.tar.gz`);
    const options = { withWorkspace: args.workspace === true, withSecrets: args.secrets === true };
    const { manifest, workspace } = await backUp(source, target, options);
    const { database, omitted } = manifest;
    const files = manifest.files.length;
    if (args.json) return printJson({ file: target, files, database, secrets: manifest.secrets, omitted });
    print(`Backed up ${source.home} to ${target}: ${files} files, ${databaseText(database)}.`);
    print(`Check it with \`agentd restore ${target} --dry-run\`.`);
    if (database === "elsewhere") warn(ELSEWHERE);
    if (omitted.length > 0)
      warn(`Secrets that it does not include: ${omitted.join(", ")}. Pass --secrets for them.`);
    if (workspace !== undefined) warn(`The backup does not include the workspace: ${workspace}`);
  },
});

const ELSEWHERE =
  'The backup does not include the database, which is on a PostgreSQL server. Copy it with `pg_dump`; see "Backup" in docs/operations.md.';

async function findSource(): Promise<BackupSource> {
  const context = currentContext();
  const home = await realpath(context.home).catch(() => {
    throw new ServiceError("not_found", `Nothing to back up: ${context.home} does not exist.`);
  });
  const loaded = await loadConfig(context);
  const { workspace } = resolvePaths({ ...context, config: requireValid(loaded), env: loaded.env });
  const database = await findDatabase();
  return { home, workspace: await realpath(workspace).catch(() => workspace), database };
}

export function databaseText(state: BackupFacts["database"]): string {
  if (state === "copied") return "with the database";
  return state === "absent" ? "without a database, which does not exist yet" : "without the database";
}
