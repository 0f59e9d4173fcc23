/** `agentd service`: lets the service manager of the user run the gateway. */
import { readFile, rm } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { defineCommand } from "citty";
import { ownProgram } from "../../base/system/machine.ts";
import { ServiceError } from "../../base/errors.ts";
import { prepareHome, writePrivateFile } from "../../config/home.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { currentContext, type CliContext } from "../kit/context.ts";
import { jsonOption, switchOption } from "../kit/options.ts";
import { print, printData, printJson, warn } from "../kit/output.ts";
import { createManager, MANAGERS, platformManager, type Manager, type ManagerName } from "./manager.ts";
import { MARK } from "./unit.ts";

const managerOption = {
  type: "enum" as const,
  options: [...MANAGERS],
  description: "The service manager. Default: that of this platform",
};

const install = defineCommand({
  meta: {
    name: "install",
    description: "Install the gateway of this home as a service of your user, and start it",
  },
  args: {
    print: switchOption("Print the file and install nothing"),
    start: {
      type: "boolean",
      default: true,
      description: "Start the service; --no-start only writes the file",
    },
    force: switchOption("Replace a file that agentd did not write"),
    manager: managerOption,
  },
  async run({ args }) {
    const context = currentContext();
    const manager = managerOf(args.manager, context);
    const text = manager.define(definitionOf(context));
    if (args.print) return printData(text);
    if (!args.force) await refuseForeign(manager);
    await prepareHome(context.home);
    await writePrivateFile(manager.file, text);
    print(`Wrote ${manager.file}.`);
    warnOfShell(context);
    if (!args.start) return print(`Start it with: ${manager.startHint}`);
    const problem = await manager.start();
    if (problem === undefined) return reportStart(manager);
    warn(
      `The service was not started: ${problem}.\nStart it when ${manager.name} runs for your user: ${manager.startHint}`,
    );
    process.exitCode = EXIT_FAILURE;
  },
});

const uninstall = defineCommand({
  meta: { name: "uninstall", description: "Stop the service and remove it. The home stays" },
  args: { force: switchOption("Remove a file that agentd did not write"), manager: managerOption },
  async run({ args }) {
    const manager = managerOf(args.manager, currentContext());
    if ((await readIfThere(manager.file)) === undefined) {
      return print(`Nothing to remove: ${manager.file} does not exist.`);
    }
    if (!args.force) await refuseForeign(manager);
    const problem = await manager.stop();
    await rm(manager.file);
    await manager.forget();
    print(`Removed ${manager.file}.`);
    if (problem === undefined) return;
    warn(`The service could not be stopped: ${problem}. If it runs, \`agentd status\` shows its process.`);
  },
});

const status = defineCommand({
  meta: {
    name: "status",
    description: "Show whether the service is installed and running. Exits with 1 if it does not run",
  },
  args: { manager: managerOption, json: jsonOption },
  async run({ args }) {
    const context = currentContext();
    const manager = managerOf(args.manager, context);
    const text = await readIfThere(manager.file);
    const state = text === undefined ? undefined : await manager.read();
    const isCurrent = text === manager.define(definitionOf(context));
    if (args.json) {
      printJson({
        manager: manager.name,
        file: manager.file,
        installed: text !== undefined,
        current: isCurrent,
        active: state?.active ?? false,
        state: state?.state ?? null,
        pid: state?.pid ?? null,
      });
    } else printStatus(manager, { isInstalled: text !== undefined, isCurrent, state });
    if (state?.active !== true) process.exitCode = EXIT_FAILURE;
  },
});

export const serviceCommand = defineCommand({
  meta: { name: "service", description: "Run the gateway as a service of your user" },
  subCommands: { install, uninstall, status },
});

function managerOf(given: string | undefined, context: CliContext): Manager {
  const name = MANAGERS.find((each) => each === given) ?? platformManager();
  if (name !== undefined) return createManager(name satisfies ManagerName, context);
  throw new ServiceError(
    "invalid_config",
    `No service manager is known for ${process.platform}. Start \`agentd gateway\` at login yourself.`,
  );
}

function definitionOf({ home, env }: CliContext) {
  const command = [...ownProgram(), "gateway", "--log-format", "json"];
  return {
    command,
    home,
    environmentFile: join(home, "service.env"),
    searchPath: searchPathOf(command[0] ?? "", env["PATH"] ?? ""),
  };
}

/** Returns the folder of the runtime and those of this shell, without folders that npm adds for its scripts. */
function searchPathOf(runtime: string, path: string): string {
  const folders = path
    .split(delimiter)
    .filter((folder) => folder.startsWith("/") && !/\/node_modules\//.test(`${folder}/`));
  return [...new Set([dirname(runtime), ...folders])].join(delimiter);
}

/** Variables that configure agentd in this shell only. */
const SETTING = /^(?:AGENTD_(?!HOME$|PROFILE$)|API_SERVER_|.*_API_KEY$)/;

function warnOfShell({ env, home }: CliContext): void {
  const names = Object.keys(env).filter((name) => SETTING.test(name));
  if (names.length === 0) return;
  warn(
    `The service does not get these variables of this shell: ${names.join(", ")}. Put those that it needs into ${join(home, ".env")}.`,
  );
}

async function refuseForeign({ file }: Manager): Promise<void> {
  const text = await readIfThere(file);
  if (text === undefined || text.includes(MARK)) return;
  throw new ServiceError(
    "invalid_config",
    `${file} was not written by \`agentd service install\`. Pass --force to replace or remove it.`,
  );
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function reportStart(manager: Manager): Promise<void> {
  const state = await manager.read();
  print(`The service ${manager.service} is ${state?.state ?? "started"}.`);
  const hint = manager.bootHint();
  if (hint !== undefined) print(hint);
  warn("Look at it with `agentd service status`, `agentd status` and `agentd logs`.");
}

interface Found {
  readonly isInstalled: boolean;
  readonly isCurrent: boolean;
  readonly state: Awaited<ReturnType<Manager["read"]>>;
}

function printStatus(manager: Manager, { isInstalled, isCurrent, state }: Found): void {
  if (!isInstalled) {
    warn(`Not installed: ${manager.file} does not exist. Install it with \`agentd service install\`.`);
    return;
  }
  const pid = state?.pid === undefined ? "" : `, pid ${state.pid}`;
  print(
    `${manager.service}: ${state ? `${state.state}${pid}` : `unknown, ${manager.name} does not run for this user`}`,
  );
  print(`Defined in ${manager.file}.`);
  if (!isCurrent)
    warn("It differs from what `agentd service install` would write now. Run it to update the service.");
}
