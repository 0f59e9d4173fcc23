/** `agentd restore`: replaces the content of the home with that of a backup. */
import { join, resolve } from "node:path";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig } from "../../config/config.ts";
import { resolvePaths } from "../../config/home.ts";
import { undoRestore } from "../../config/restore.ts";
import { isSqliteInUse } from "../../store/backup.ts";
import { currentContext, type CliContext } from "../kit/context.ts";
import { isAgentd, occupantOf, urlOf } from "../kit/local-gateway.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { print, printJson, warn } from "../kit/output.ts";
import type { Manifest } from "../../app/backup/archive.ts";
import { checkBackup, entriesOf, restoreHome } from "../../app/backup/restore.ts";
import { databaseText } from "./backup.ts";

export const restoreCommand = defineCommand({
  meta: {
    name: "restore",
    description:
      "Replace the content of the home with that of a backup, on this machine only: nothing may use the home meanwhile. The old content moves to a folder in the home",
  },
  args: {
    file: requiredArgument("A file that `agentd backup` wrote"),
    force: switchOption("Replace an existing home"),
    "dry-run": switchOption("Check the backup completely and change nothing"),
    json: jsonOption,
  },
  async run({ args }) {
    const file = resolve(args.file);
    const context = currentContext();
    if (args["dry-run"]) return report(await checkBackup(file), file, args.json);
    const names = await entriesOf(context.home);
    await undoRestore(context.home);
    if (names.length > 0 && !args.force) throw homeExists(context.home);
    await refuseRunning(context);
    const { manifest, replaced } = await restoreHome(file, context);
    if (args.json)
      return printJson({ ...summaryOf(manifest), home: context.home, replaced: replaced ?? null });
    print(`Restored ${context.home} from ${file}: ${contentText(manifest)}.`);
    if (replaced !== undefined)
      print(`What it replaced is in ${replaced}. Delete that folder when you do not need it.`);
    await warnOf(manifest, context);
  },
});

function report(manifest: Manifest, file: string, asJson: boolean | undefined): void {
  if (asJson) return printJson(summaryOf(manifest));
  print(
    `${file} is intact: ${contentText(manifest)}, made by agentd ${manifest.version} on ${manifest.created_at}.`,
  );
  if (manifest.omitted.length > 0) warn(missingText(manifest));
}

function summaryOf({ files, version, created_at, database, secrets, omitted }: Manifest) {
  return { files: files.length, version, created_at, database, secrets, omitted };
}

function contentText({ files, database }: Manifest): string {
  return `${files.length} files, ${databaseText(database)}`;
}

function missingText({ omitted }: Manifest): string {
  return `The backup does not include these secrets: ${omitted.join(", ")}.`;
}

function homeExists(home: string): ServiceError {
  const hint =
    "Pass --force to replace its content, which is kept in a folder, or choose another home with AGENTD_HOME.";
  return new ServiceError("invalid_request", `${home} already exists. ${hint}`);
}

/** A process that works in the home would continue with files that are no longer there. */
async function refuseRunning(context: CliContext): Promise<void> {
  const { config, env, issues } = await loadConfig(context).catch(() => ({
    config: undefined,
    env: {},
    issues: [],
  }));
  // A broken configuration starts nothing, and may be the reason for the restore.
  if (!config || issues.some(({ severity }) => severity === "error"))
    return refuseUsed(join(context.home, "state.db"));
  const { databaseUrl } = resolvePaths({ ...context, config, env });
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) return refuseUsed(databaseUrl);
  const url = urlOf(config.api_server);
  if (isAgentd(await occupantOf(url))) throw running(`A gateway listens at ${url}.`);
}

async function refuseUsed(path: string): Promise<void> {
  const { existsSync } = await import("node:fs");
  if (existsSync(path) && isSqliteInUse(path)) throw running(`A process of agentd uses ${path}.`);
}

function running(what: string): ServiceError {
  const hint = "Stop the gateway, chats and editors of this home first; `agentd status` shows the gateway.";
  return new ServiceError("invalid_request", `${what} ${hint}`);
}

async function warnOf(manifest: Manifest, context: CliContext): Promise<void> {
  if (manifest.omitted.length > 0) warn(`${missingText(manifest)} Set those that are missing in this home.`);
  if (manifest.database === "elsewhere") {
    warn(
      'The database is on a PostgreSQL server. Restore it with `pg_restore`; see "Backup" in docs/operations.md.',
    );
  }
  const { config } = await loadConfig(context);
  const { url } = config.database;
  const at = manifest.database_path === undefined ? undefined : join(context.home, manifest.database_path);
  if (at !== undefined && url !== undefined && resolve(url) !== at)
    warn(
      `The configuration names another database than the restored ${at}. Move it there, or change database.url.`,
    );
}
