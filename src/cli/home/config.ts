/** `agentd config`: on this machine it also reads and edits a file with mistakes. */
import process from "node:process";
import { defineCommand } from "citty";
import { formatDotPath, getAtPath } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import type { ConfigIssue } from "../../client/http.ts";
import { readKey, unknownKey } from "../../config/file.ts";
import { configPath } from "../../config/home.ts";
import { formatConfigIssue, schemaAt } from "../../config/check.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { print, printData, printJson, warn } from "../kit/output.ts";
import { jsonOption, requiredArgument, switchOption } from "../kit/options.ts";
import { readSecret, warnOfArgument } from "../kit/streams.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { configSource, type ConfigSource } from "./config-source.ts";

const key = requiredArgument("A key, such as api_server.port or model.providers.local.type");

const get = defineApiCommand({
  meta: {
    name: "get",
    description: "Print the effective configuration, or one key of it, including defaults",
  },
  args: {
    key: { ...key, required: false },
    reveal: switchOption("Print secrets instead of [redacted], on this machine only"),
    json: jsonOption,
  },
  async run({ args }) {
    const path = args.key === undefined ? [] : readKey(args.key);
    const source = await configSource();
    const { effective, issues } = await source.read({ secrets: args.reveal === true });
    const shown = getAtPath(effective, path);
    if (shown === undefined && !schemaAt(path)) throw unknownKey(path);
    warnOf(issues, source);
    if (shown === undefined) {
      throw new ServiceError("not_found", `${formatDotPath(path)} is not set and has no default.`);
    }
    if (args.json) return printJson(shown);
    printData(typeof shown === "object" && shown !== null ? await toYaml(shown) : String(shown));
  },
});

const set = defineApiCommand({
  meta: {
    name: "set",
    description:
      "Set a key in the configuration file. Comments are kept. On this machine it also repairs an invalid file",
  },
  args: {
    key,
    value: requiredArgument(
      "A YAML scalar or JSON, such as 8643, true, [terminal, files] or '{\"type\": ...}'. - reads standard input, for secrets. A server takes secrets as env:NAME only",
    ),
    json: jsonOption,
  },
  async run({ args }) {
    const path = readKey(args.key);
    if (args.value !== "-" && maskSecrets(args.value, path) !== args.value)
      warnOfArgument(args.key, args.value, "Pass `-` and pipe the value in, or pass env:NAME.");
    const value = args.value === "-" ? await readSecret(args.key) : args.value;
    const source = await configSource();
    const edited = await source.set(args.key, path, value);
    await report(source, { ...edited, key: args.key, done: "set", isJson: args.json === true });
  },
});

const unset = defineApiCommand({
  meta: {
    name: "unset",
    description: "Remove a key from the configuration file, so that its default applies",
  },
  args: { key, json: jsonOption },
  async run({ args }) {
    const source = await configSource();
    const edited = await source.unset(args.key, readKey(args.key));
    await report(source, { ...edited, key: args.key, done: "unset", isJson: args.json === true });
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

const check = defineApiCommand({
  meta: { name: "check", description: "Validate the configuration. Exits with 1 if it is invalid" },
  args: { json: jsonOption },
  async run({ args }) {
    const source = await configSource();
    const { exists, issues } = await source.read();
    const valid = !issues.some(({ severity }) => severity === "error");
    if (args.json) printJson({ path: source.path, exists, valid, issues });
    else if (valid) print(`${source.place} ${exists ? "is valid" : "does not exist. The defaults apply"}`);
    if (!args.json) warnOf(issues, source);
    if (!valid) process.exitCode = EXIT_FAILURE;
  },
});

export const configCommand = defineCommand({
  meta: { name: "config", description: "Read, change and validate the configuration" },
  subCommands: { get, set, unset, path, check },
});

interface Report {
  readonly key: string;
  readonly done: string;
  readonly changed: boolean;
  readonly needsRestart?: boolean;
  readonly isJson: boolean;
}

/** Reports the change, and issues that still prevent a start. */
async function report(
  source: ConfigSource,
  { key: name, done, changed, needsRestart, isJson }: Report,
): Promise<void> {
  const { path, place } = source;
  const where = path === null ? `on ${place}` : `in ${place}`;
  if (isJson) printJson({ key: name, path, changed });
  else print(changed ? `${done} ${name} ${where}` : `${name} needed no change ${where}`);
  if (needsRestart) warn("The change takes effect when the server restarts.");
  warnOf((await source.read()).issues, source);
}

function warnOf(issues: readonly ConfigIssue[], { place }: ConfigSource): void {
  for (const { line, column, ...issue } of issues) {
    const at = { line: line ?? undefined, column: column ?? undefined };
    warn(formatConfigIssue({ ...issue, ...at }, place));
  }
}

async function toYaml(value: object): Promise<string> {
  const { stringify } = await import("yaml");
  return stringify(value, { lineWidth: 0 });
}
