/** The configuration where a command works: the file of this machine, which may be broken, or that of a server. */
import type { DotPath } from "../../base/data.ts";
import { ServiceError } from "../../base/errors.ts";
import { findUseIssues } from "../../app/config-service.ts";
import type { ConfigChange, ConfigIssue } from "../../client/http.ts";
import { schemaAt } from "../../config/check.ts";
import { loadConfig } from "../../config/config.ts";
import { parseEditValue, setConfigValue, unknownKey, unsetConfigValue } from "../../config/file.ts";
import { configPath } from "../../config/home.ts";
import { maskSecrets } from "../../config/secret-values.ts";
import { withApi } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { currentTarget, type RemoteTarget } from "../kit/target.ts";

export interface ConfigState {
  readonly effective: unknown;
  /** Whether there is a file. */
  readonly exists: boolean;
  /** Mistakes in the file and its variables. */
  readonly issues: readonly ConfigIssue[];
}

export interface ConfigSource {
  /** The file, or the server with it. */
  readonly place: string;
  /** Null: on a server. */
  readonly path: string | null;
  /** Reads it with secrets as `[redacted]`, or as they are. UsageError for secrets of a server. */
  read(options?: { readonly secrets: boolean }): Promise<ConfigState>;
  /** Sets a key to a value as it is typed. ServiceError `invalid_config`, `secret_not_allowed`. */
  set(key: string, path: DotPath, text: string): Promise<Changed>;
  /** Removes a key, so that its default applies. ServiceError `invalid_config`. */
  unset(key: string, path: DotPath): Promise<Changed>;
}

interface Changed {
  readonly changed: boolean;
  /** Whether it needs a restart of the server. Not known on this machine. */
  readonly needsRestart?: boolean;
}

/** Returns the configuration of the current target. */
export async function configSource(): Promise<ConfigSource> {
  const target = await currentTarget();
  return target ? serverSource(target) : homeSource();
}

function homeSource(): ConfigSource {
  const context = currentContext();
  const { home } = context;
  const path = configPath(home);
  return {
    place: path,
    path,
    async read({ secrets } = { secrets: false }) {
      const loaded = await loadConfig(context);
      const issues = [...loaded.issues, ...findUseIssues(loaded)].map((issue) => ({
        ...issue,
        line: issue.line ?? null,
        column: issue.column ?? null,
      }));
      const { config, exists } = loaded;
      return { effective: secrets ? config : maskSecrets(config), exists, issues };
    },
    set: (key, _, value) => setConfigValue({ home, key, value }),
    unset: (key) => unsetConfigValue({ home, key }),
  };
}

function serverSource({ url }: RemoteTarget): ConfigSource {
  return {
    place: `the server at ${url}`,
    path: null,
    async read({ secrets } = { secrets: false }) {
      if (secrets) throw new UsageError("A server never shows its secrets. Run the command on its machine.");
      const { effective, file, issues } = await withApi(
        async ({ client }) => (await client.getConfig()).data,
      );
      return { effective, exists: file !== null, issues };
    },
    async set(key, path, text) {
      const schema = schemaAt(path);
      if (!schema) throw unknownKey(path);
      return patch(path, parseEditValue(text, schema, key));
    },
    unset: (_, path) => patch(path, null),
  };
}

/** Changes one key of a server's file, unless it changes at the same time. */
async function patch(path: DotPath, value: unknown): Promise<Changed> {
  if (path.some((part) => typeof part === "number"))
    throw new ServiceError("invalid_request", "A list on a server changes as a whole: name its own key.");
  const body = path.reduceRight<unknown>((inner, part) => ({ [part]: inner }), value);
  const change: ConfigChange = await withApi(async ({ client }) => {
    const { response } = await client.getConfig();
    const headers = { "If-Match": response.headers.get("etag") ?? "*" };
    return (await client.updateConfig({ headers, body: body as Record<string, unknown> })).data;
  });
  return { changed: change.changed.length > 0, needsRestart: change.restart_required.length > 0 };
}
