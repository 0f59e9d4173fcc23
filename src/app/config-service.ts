/** The configuration of a running service: reads it, changes its file, and applies what can change while it runs. */
import type { Config } from "../../generated/config/types.gen.ts";
import { configSchema } from "../../generated/config/schema.gen.ts";
import { formatDotPath, isRecord, type DotPath } from "../base/data.ts";
import { ServiceError } from "../base/errors.ts";
import type { Log } from "../base/observe.ts";
import type { ConfigIssue } from "../config/check.ts";
import { loadConfig } from "../config/config.ts";
import { openDocument } from "../config/file.ts";
import { configPath, readPrivateFile, type Environment } from "../config/home.ts";
import { createKeyRing } from "../config/keys.ts";
import { appliesAt, differences, fileVersion, patchConfig } from "../config/patch.ts";
import { hideSecrets, maskSecrets, referredVariables, variableUses } from "../config/secret-values.ts";
import type { Variables } from "../config/variables.ts";
import type { ConfigApi, ConfigChange, ConfigState, VariableState } from "../http/deps.ts";
import { requireUsableRoutes } from "../webhook/routes/route.ts";
import { configuredProviders, createCatalog } from "./models.ts";
import { approvalSettings } from "./settings.ts";

export interface ConfigServiceDeps {
  readonly home: string;
  /** The environment of the process. */
  readonly env: Environment;
  /** What the service uses. */
  readonly config: Config;
  /** What its file and its variables said at the start, without options of the command line. */
  readonly fileConfig: Config;
  readonly log: Log;
  readonly variables: Variables;
  /** The settings of the agent, which reads them at each use. */
  readonly settings: object;
  /** Absent: the default model is fixed. */
  readonly setDefaultModel?: (model: string | undefined) => boolean;
}

export class ConfigService implements ConfigApi {
  readonly #deps: ConfigServiceDeps;
  #used: Config;
  #fileUsed: Config;

  constructor(deps: ConfigServiceDeps) {
    this.#deps = deps;
    this.#used = deps.config;
    this.#fileUsed = deps.fileConfig;
  }

  async read(): Promise<ConfigState> {
    const { home, env } = this.#deps;
    const [loaded, text] = await Promise.all([loadConfig({ home, env }), readPrivateFile(configPath(home))]);
    hideSecrets(loaded);
    return {
      version: fileVersion(text),
      effective: maskSecrets(this.#used) as ConfigState["effective"],
      file: text === undefined ? null : fileContent(text, loaded.path),
      issues: [...loaded.issues, ...findUseIssues(loaded)],
      pendingRestart: differences(this.#fileUsed, loaded.config).map(formatDotPath),
    };
  }

  schema(): Readonly<Record<string, unknown>> {
    return withApplies(configSchema) as Readonly<Record<string, unknown>>;
  }

  async update(
    patch: Readonly<Record<string, unknown>>,
    options: { readonly dryRun: boolean; readonly check: (version: string) => void },
  ): Promise<ConfigChange> {
    const { home, env } = this.#deps;
    const { env: variables } = await loadConfig({ home, env });
    const findMoreIssues = (config: Config) => findUseIssues({ config, env: variables, issues: [] });
    const { changed, version } = await patchConfig(patch, {
      home,
      env: variables,
      findMoreIssues,
      ...options,
    });
    const applied = options.dryRun
      ? changed.filter((path) => appliesAt(path) === "live")
      : await this.#apply(changed);
    return {
      version,
      changed: changed.map(formatDotPath),
      applied: applied.map(formatDotPath),
      restartRequired: changed.filter((path) => !applied.includes(path)).map(formatDotPath),
    };
  }

  async reload(): Promise<Pick<ConfigChange, "applied" | "restartRequired">> {
    const { home, env } = this.#deps;
    const loaded = await loadConfig({ home, env });
    hideSecrets(loaded);
    const errors = loaded.issues.filter(({ severity }) => severity === "error");
    const issues = [...errors, ...findUseIssues(loaded)];
    if (issues.length > 0) {
      const list = issues.map(({ path, message }) => `${path} ${message}`.trim()).join(". ");
      const what = `The configuration is not valid: ${list}. Nothing was changed.`;
      throw new ServiceError("invalid_config", what, { details: { issues } });
    }
    const applied = await this.#apply(differences(this.#fileUsed, loaded.config));
    const restartRequired = differences(this.#fileUsed, loaded.config).map(formatDotPath);
    return { applied: applied.map(formatDotPath), restartRequired };
  }

  async variables(): Promise<readonly VariableState[]> {
    const { home, env, variables } = this.#deps;
    const [{ config }, stored] = await Promise.all([loadConfig({ home, env }), variables.stored()]);
    const uses = variableUses(config);
    const names = new Set([...Object.keys(stored), ...uses.keys()]);
    const all = [...names].map((name) => {
      return { name, source: variables.sourceOf(name, stored), usedBy: uses.get(name) ?? [] };
    });
    const isReferred = (name: string) => referredVariables(config).has(name);
    // Most variables that could supply a setting are not set.
    return all
      .filter(({ name, source }) => source !== undefined || isReferred(name))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  async setVariable(name: string, value: string | undefined): Promise<void> {
    const { variables } = this.#deps;
    const stored = await variables.stored();
    const source = variables.sourceOf(name, stored);
    if (source === "process") {
      const what = `${name} is set in the environment of the server, which overrides the file. Change it there, and restart.`;
      throw new ServiceError("variable_is_static", what, { param: "name" });
    }
    if (value !== undefined) return variables.set(name, value);
    if (await variables.remove(name)) return;
    throw new ServiceError("variable_not_found", `The variable ${name} is not set in the file.`);
  }

  /** Applies the keys that may change while the service runs. Returns those that it applied. */
  async #apply(changed: readonly DotPath[]): Promise<readonly DotPath[]> {
    const live = changed.filter((path) => appliesAt(path) === "live");
    if (live.length === 0) return [];
    const { home, env, log, settings, setDefaultModel } = this.#deps;
    const { config } = await loadConfig({ home, env });
    const hasModel = live.some(([section]) => section === "model");
    const isModelSet = hasModel && (setDefaultModel?.(config.model.default) ?? false);
    log.setLevel?.(config.log.level);
    // The agent reads its settings at each use.
    Object.assign(settings, approvalSettings(config));
    const change = (from: Config): Config => {
      const { default: kept, ...model } = from.model;
      const chosen = isModelSet ? config.model.default : kept;
      return {
        ...from,
        approvals: config.approvals,
        log: { ...from.log, level: config.log.level },
        model: chosen === undefined ? model : { ...model, default: chosen },
      };
    };
    this.#used = change(this.#used);
    this.#fileUsed = change(this.#fileUsed);
    return live.filter(([section]) => section !== "model" || isModelSet);
  }
}

/** Returns mistakes that only use reveals, such as a reference to an unset variable or an invalid filter. */
export function findUseIssues({
  config,
  env,
  issues,
}: {
  readonly config: Config;
  readonly env: Environment;
  readonly issues: readonly ConfigIssue[];
}): readonly ConfigIssue[] {
  if (issues.some(({ severity }) => severity === "error")) return [];
  const hasKey = config.api_server.key !== undefined || config.api_server.keys.length > 0;
  const uses = [
    // A model that a server of this machine serves needs no provider, so a start decides on the same catalog.
    () => createCatalog(config, configuredProviders(config, env)),
    ...(hasKey ? [() => createKeyRing(config, { env })] : []),
    () => requireUsableRoutes(config, { env }),
  ];
  return uses.flatMap((use) => {
    try {
      use();
      return [];
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const place = { line: undefined, column: undefined };
      // These messages already start with the key.
      return [{ path: "", message: `is not usable: ${error.message}`, ...place, severity: "error" as const }];
    }
  });
}

function fileContent(text: string, path: string): ConfigState["file"] {
  try {
    const { before } = openDocument(text, path);
    return maskSecrets(before ?? {}) as ConfigState["file"];
  } catch (error) {
    if (error instanceof ServiceError) return null;
    throw error;
  }
}

/** Says for each key when a change takes effect. */
function withApplies(schema: unknown, parent = "restart"): unknown {
  if (Array.isArray(schema)) return schema.map((each) => withApplies(each, parent));
  if (!isRecord(schema)) return schema;
  const { properties, $defs, ...others } = schema;
  const keys = (value: unknown) =>
    isRecord(value)
      ? Object.fromEntries(
          Object.entries(value).map(([name, each]) => {
            const own = isRecord(each) ? each["x-applies"] : undefined;
            const applies = typeof own === "string" ? own : parent;
            return [name, { ...(withApplies(each, applies) as object), "x-applies": applies }];
          }),
        )
      : value;
  return {
    ...others,
    ...(properties === undefined ? {} : { properties: keys(properties) }),
    ...($defs === undefined ? {} : { $defs: definitions($defs) }),
  };
}

function definitions(value: unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name,
      withApplies(each, name === "McpConfig" ? "reload" : "restart"),
    ]),
  );
}
