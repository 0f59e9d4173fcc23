/** Reads the configuration, tolerantly: one wrong line never hides the rest. */
import type { Config } from "../../generated/config/types.gen.ts";
import { configSchema } from "../../generated/config/schema.gen.ts";
import { formatDotPath } from "../base/data.ts";
import { ServiceError } from "../base/errors.ts";
import { applyDefaults } from "../base/schema.ts";
import { checkConfig, formatConfigIssue, type ConfigIssue, type Problem, checkMeaning } from "./check.ts";
import { findNewerVersion, locate, parseConfig, toPlain, type ConfigDocument } from "./file.ts";
import { readEnvFile, configPath, envPath, readPrivateFile, type Environment } from "./home.ts";
import { applyEnvironment, environmentAt, environmentProblem, secretSettings } from "./environment.ts";
import { undoRestore } from "./restore.ts";
import { platformProblems } from "./platform-settings.ts";
import { secretReferences, exposureOf } from "./secret-values.ts";

export interface LoadedConfig {
  /** Complete and frozen, with defaults where the file has nothing or something wrong. */
  readonly config: Config;
  readonly home: string;
  /** Path of the file, whether it exists or not. */
  readonly path: string;
  readonly exists: boolean;
  /** The variables of `<home>/.env`, overridden by the process's environment. */
  readonly env: Environment;
  /** Variables that hold secrets, independent of their names. */
  readonly secretNames: ReadonlySet<string>;
  readonly issues: readonly ConfigIssue[];
}

/**
 * Loads the configuration of `home` (absolute): the file, overridden by `<home>/.env`, overridden by `env`, the
 * process's environment. Undoes an interrupted restore first. Problems become issues. Only a file that cannot be read is a ServiceError `invalid_config`.
 */
export async function loadConfig(from: {
  readonly home: string;
  readonly env: Environment;
}): Promise<LoadedConfig> {
  const path = configPath(from.home);
  await undoRestore(from.home);
  const [text, dotenv] = await Promise.all([readPrivateFile(path), readEnvFile(envPath(from.home))]);
  const env = mergeEnvironment(dotenv.variables, from.env);
  const read = readConfig(text ?? "", env);
  const secretNames = secretReferences(read.config).union(dotenv.secretNames);
  const issues = [...read.issues, ...exposedIn(Object.keys(dotenv.variables), env, secretNames)];
  return { ...read, issues, home: from.home, path, exists: text !== undefined, env, secretNames };
}

/** Returns the configuration when it is valid; else throws a ServiceError `invalid_config` that lists every error. */
export function requireValid(loaded: LoadedConfig): Config {
  const errors = loaded.issues.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return loaded.config;
  const list = errors.map((issue) => `  ${formatConfigIssue(issue, loaded.path)}`).join("\n");
  throw new ServiceError(
    "invalid_config",
    `The configuration is not valid:\n${list}\nCorrect it, then run \`agentd config check\`.`,
    { details: { issues: errors } },
  );
}

/** Returns the configuration that `text` and `env` define. Pure. */
export function readConfig(text: string, env: Environment = {}): Pick<LoadedConfig, "config" | "issues"> {
  const document = parseConfig(text);
  const file = readDocument(document);
  const { value, problems } = checkConfig(applyEnvironment(file.value, env));
  const config = applyDefaults(configSchema, value) as Config;
  const issues = [
    ...file.issues,
    ...file.problems.map((problem) => locate(problem, document)),
    ...[...problems, ...checkMeaning(config)].map((problem) => blame(problem, document, env)),
    ...platformProblems(config, env).map(({ variable, problem }) => variableIssue(variable, problem)),
  ];
  return { config: freeze(config), issues };
}

/** Warns about secrets that cannot be redacted, because that would redact other text too. */
function exposedIn(
  inFile: readonly string[],
  env: Environment,
  secretNames: ReadonlySet<string>,
): readonly ConfigIssue[] {
  const names = new Set([...inFile, ...secretNames, ...secretSettings()]);
  return [...names].flatMap((name) => {
    const reason = exposureOf(name, env[name] ?? "", { isSecret: secretNames.has(name) });
    if (reason === undefined) return [];
    const message = `${reason}, so it cannot be hidden in logs and answers. Choose a longer, random value`;
    return [{ path: name, message, line: undefined, column: undefined, severity: "warning" as const }];
  });
}

interface FileContent {
  /** The valid part of the file. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  readonly issues: readonly ConfigIssue[];
}

function readDocument(document: ConfigDocument): FileContent {
  if (document.issues.some(({ severity }) => severity === "error")) {
    return { value: {}, problems: [], issues: document.issues };
  }
  const problem = findNewerVersion(document);
  if (problem) return { value: {}, problems: [problem], issues: document.issues };
  const plain = toPlain(document);
  if ("issue" in plain) return { value: {}, problems: [], issues: [...document.issues, plain.issue] };
  return { ...checkConfig(plain.value), issues: document.issues };
}

/** Reports a problem that a variable causes under the variable's name. */
function blame(problem: Problem, document: ConfigDocument, env: Environment): ConfigIssue {
  const variable = environmentAt(formatDotPath(problem.path), env);
  if (variable === undefined) return locate(problem, document);
  return variableIssue(variable, environmentProblem(variable, env) ?? problem.message);
}

function variableIssue(path: string, message: string): ConfigIssue {
  return { path, message, line: undefined, column: undefined, severity: "error" };
}

/** An empty variable counts as unset, like a line `NAME=` in a unit file. */
function mergeEnvironment(dotenv: Environment, env: Environment): Environment {
  const set = Object.entries(env).filter(([, value]) => value !== undefined && value !== "");
  return Object.freeze({ ...dotenv, ...Object.fromEntries(set) });
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(value).forEach(freeze);
  return Object.freeze(value);
}
