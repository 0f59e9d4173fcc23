import process from "node:process";
import { defineCommand } from "citty";
import { formatDotPath, getAtPath } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { loadConfig, type LoadedConfig } from "../../config/config.ts";
import { readKey, setConfigValue, unknownKey, unsetConfigValue, type Edited } from "../../config/file.ts";
import { configPath } from "../../config/home.ts";
import { formatConfigIssue, schemaAt } from "../../config/check.ts";
import { findUseIssues } from "../../app/config-service.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import { currentContext } from "../kit/context.ts";
import { print, printData, printJson, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { readSecret, warnOfArgument } from "../kit/streams.ts";
import { EXIT_FAILURE } from "../chat/run.ts";

const key = requiredArgument("A key, such as api_server.port or model.providers.local.type");

const get = defineCommand({
  meta: {
    name: "get",
    description: "Print the effective configuration, or one key of it, including defaults",
  },
  args: {
    key: { ...key, required: false },
    reveal: switchOption("Print secrets instead of [redacted]"),
    json: jsonOption,
  },
  async run({ args }) {
    const loaded = await load();
    const path = args.key === undefined ? [] : readKey(args.key);
    const value = getAtPath(loaded.config, path);
    if (value === undefined && !schemaAt(path)) throw unknownKey(path);
    const shown = args.reveal ? value : maskSecrets(value, path);
    for (const issue of loaded.issues) warn(formatConfigIssue(issue, loaded.path));
    if (shown === undefined) {
      throw new ServiceError("not_found", `${formatDotPath(path)} is not set and has no default.`);
    }
    if (args.json) return printJson(shown);
    printData(typeof shown === "object" && shown !== null ? await toYaml(shown) : String(shown));
  },
});

const set = defineCommand({
  meta: { name: "set", description: "Set a key in the configuration file. Comments are kept" },
  args: {
    key,
    value: requiredArgument(
      "A YAML scalar or JSON, such as 8643, true, [terminal, files] or '{\"type\": ...}'. - reads standard input, for secrets",
    ),
    json: jsonOption,
  },
  async run({ args }) {
    const path = readKey(args.key);
    if (args.value !== "-" && maskSecrets(args.value, path) !== args.value)
      warnOfArgument(args.key, args.value, "Pass `-` and pipe the value in, or pass env:NAME.");
    const value = args.value === "-" ? await readSecret(args.key) : args.value;
    const edited = await setConfigValue({ home: currentContext().home, key: args.key, value });
    await report(edited, { json: args.json, key: args.key, done: "set" });
  },
});

const unset = defineCommand({
  meta: {
    name: "unset",
    description: "Remove a key from the configuration file, so that its default applies",
  },
  args: { key, json: jsonOption },
  async run({ args }) {
    const edited = await unsetConfigValue({ home: currentContext().home, key: args.key });
    await report(edited, { json: args.json, key: args.key, done: "unset" });
  },
});

const path = defineCommand({
  meta: { name: "path", description: "Print the path of the configuration file" },
  args: { json: jsonOption },
  run({ args }) {
    const file = configPath(currentContext().home);
    if (args.json) return printJson({ path: file });
    printData(file);
  },
});

const check = defineCommand({
  meta: { name: "check", description: "Validate the configuration. Exits with 1 if it is invalid" },
  args: { json: jsonOption },
  async run({ args }) {
    const loaded = await load();
    const issues = [...loaded.issues, ...findUseIssues(loaded)];
    const valid = !issues.some(({ severity }) => severity === "error");
    if (args.json) printJson({ path: loaded.path, exists: loaded.exists, valid, issues });
    else if (valid)
      print(`${loaded.path} ${loaded.exists ? "is valid" : "does not exist. The defaults apply"}`);
    if (!args.json) for (const issue of issues) warn(formatConfigIssue(issue, loaded.path));
    if (!valid) process.exitCode = EXIT_FAILURE;
  },
});

export const configCommand = defineCommand({
  meta: { name: "config", description: "Read, change and validate the configuration" },
  subCommands: { get, set, unset, path, check },
});

function load(): Promise<LoadedConfig> {
  return loadConfig(currentContext());
}

/** Reports the change, and issues that still prevent a start. */
async function report(
  edited: Edited,
  { json: asJson, key: name, done }: { readonly json?: boolean; readonly key: string; readonly done: string },
): Promise<void> {
  if (asJson) printJson({ key: name, ...edited });
  else
    print(
      edited.changed ? `${done} ${name} in ${edited.path}` : `${name} needed no change in ${edited.path}`,
    );
  const loaded = await load();
  for (const issue of [...loaded.issues, ...findUseIssues(loaded)])
    warn(formatConfigIssue(issue, loaded.path));
}

async function toYaml(value: object): Promise<string> {
  const { stringify } = await import("yaml");
  return stringify(value, { lineWidth: 0 });
}
