/** `agentd backup`: writes a home and its database into one file while services run, also that of a server. */
import { open, realpath, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths } from "../../config/home.ts";
import { withApi } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { currentTarget } from "../kit/target.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { jsonOption, optionalArgument, switchOption } from "../kit/options.ts";
import { findDatabase } from "../kit/database.ts";
import { backUp, stampOf, type BackupOptions, type BackupSource } from "../../app/backup/backup.ts";
import type { BackupFacts, Manifest } from "../../app/backup/archive.ts";
import { checkBackup } from "../../app/backup/restore.ts";

export const backupCommand = defineApiCommand({
  meta: {
    name: "backup",
    description:
      "Write the home and its SQLite database into one file while services run. Keys are left out unless --secrets is given",
  },
  args: {
    file: optionalArgument("A new file. Default: agentd-backup-<time>.tar.gz in the current folder"),
    secrets: switchOption("Include .env and the secrets in config.yaml and in webhook subscriptions"),
    workspace: switchOption("Include the workspace if it is inside the home, on this machine only"),
    json: jsonOption,
  },
  async run({ args }) {
    const target = resolve(args.file ?? `agentd-backup-${stampOf(new Date())}.tar.gz`);
    const options = { withWorkspace: args.workspace === true, withSecrets: args.secrets === true };
    const server = await currentTarget();
    const { manifest, workspace, of } = server
      ? { of: server.url, workspace: undefined, manifest: await download(target, options) }
      : await backUpHome(target, options);
    const { database, omitted } = manifest;
    const files = manifest.files.length;
    if (args.json) return printJson({ file: target, files, database, secrets: manifest.secrets, omitted });
    print(`Backed up ${of} to ${target}: ${files} files, ${databaseText(database)}.`);
    print(`Check it with \`agentd restore ${target} --dry-run\`.`);
    if (database === "elsewhere") warn(ELSEWHERE);
    if (omitted.length > 0)
      warn(`Secrets that it does not include: ${omitted.join(", ")}. Pass --secrets for them.`);
    if (workspace !== undefined) warn(`The backup does not include the workspace: ${workspace}`);
  },
});

const ELSEWHERE =
  'The backup does not include the database, which is on a PostgreSQL server. Copy it with `pg_dump`; see "Backup" in docs/operations.md.';

async function backUpHome(target: string, options: BackupOptions) {
  const source = await findSource();
  return { of: source.home, workspace: undefined, ...(await backUp(source, target, options)) };
}

/** Writes the backup that the server makes to a new file, and checks that it came whole. */
async function download(
  target: string,
  { withSecrets: secrets, withWorkspace }: BackupOptions,
): Promise<Manifest> {
  if (withWorkspace)
    throw new UsageError("A server leaves its workspace out of backups. Run the command on its machine.");
  const file = await open(target, "wx", 0o600).catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === "EEXIST" ? "It exists already. Name another file." : cause.message;
    throw new ServiceError("invalid_request", `Cannot write ${target}. ${why}`, { cause });
  });
  try {
    await withApi(async ({ client }) => {
      const { data } = await client.createBackup({ body: { secrets }, parseAs: "stream" });
      const parts = data as unknown as ReadableStream<Uint8Array>;
      await parts.pipeTo(new WritableStream({ write: async (part) => void (await file.writeFile(part)) }));
    });
    await file.close();
    return await checkBackup(target);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(target, { force: true });
    throw error;
  }
}

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
