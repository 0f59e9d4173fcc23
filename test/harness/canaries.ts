/** Secrets that are planted in a home, and everything that was written, to be searched for them. */
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Store } from "../../src/store/store.ts";
import type { Tables } from "../../src/store/schema/tables.ts";

const HEX = "3f9a8c7d6e5b4a392817f6e5d4c3b2a1";
const PEM_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

/** Secrets of a home, by where they come from. */
export const planted = {
  process: "canary-process-11aa",
  dotEnvName: "canary-name-22bb",
  dotEnvShape: HEX,
  dotEnvUrl: "canary-url-33cc",
  dotEnvHook: "https://hooks.slack.com/services/T00000000/B00000000/Xy7Kq2mN5pQ8sT1vW4yZ7cF0",
  dotEnvLine: PEM_LINE,
  reference: "canary-referred-44dd",
  configHeader: "canary-header-55ee",
  configRoute: "canary-route-66ff",
  mcpEnvironment: "canary-mcp-env-77aa",
  mcpArgument: "canary-mcp-arg-88bb",
  addedLater: "canary-added-later-99cc",
} as const;
export const plantedValues = Object.values(planted);
export const plantedAtStart = plantedValues.filter((each) => each !== planted.addedLater);
/** Values of settings and words, beside the secrets in the same files. */
export const ordinary = ["Europe/Berlin", "demo:demo", "production"];

const dotEnv = [
  `AGENT_TIMEZONE=Europe/Berlin`,
  `AGENTD_MODEL=demo:demo`,
  `MY_FLAG=production`,
  `MY_SERVICE_PASS=${planted.dotEnvName}`,
  `SOMETHING=${planted.dotEnvShape}`,
  `REDIS_URL=redis://me:${planted.dotEnvUrl}@cache:6379`,
  `SLACK_WEBHOOK_URL=${planted.dotEnvHook}`,
  `IDENTITY="-----BEGIN PRIVATE KEY-----\n${PEM_LINE}\n-----END PRIVATE KEY-----"`,
  `COLOUR=${planted.reference}`,
  "",
].join("\n");

const homeConfig = {
  model: {
    providers: { p: { type: "openai", api_key: "env:COLOUR", headers: { "x-way": planted.configHeader } } },
  },
  platforms: { webhook: { routes: { r: { secret: planted.configRoute } } } },
  mcp: {
    servers: {
      m: {
        enabled: false,
        command: "true",
        args: ["--token", planted.mcpArgument],
        env: { MCP_AUTH_TOKEN: planted.mcpEnvironment },
      },
    },
  },
};

interface Traces {
  readonly store: Store;
  readonly databaseUrl: string;
  /** Folders of which every file is read. */
  readonly folders: readonly string[];
  readonly logLines: readonly string[];
}

/** Returns everything that was kept or said, as text by where it stands: rows, bytes of the database, files, the log. */
export async function everything(traces: Traces): Promise<ReadonlyMap<string, string>> {
  const { store, databaseUrl, folders, logLines } = traces;
  const found = new Map<string, string>([["log", logLines.join("\n")]]);
  for (const table of await tablesOf(traces)) {
    found.set(table, JSON.stringify(await store.read.selectFrom(table).selectAll().execute()));
  }
  const isFile = !databaseUrl.startsWith("postgres");
  for (const folder of [...folders, ...(isFile ? [dirname(databaseUrl)] : [])]) {
    for (const name of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!name.isFile()) continue;
      const path = join(name.parentPath, name.name);
      found.set(path, (await readFile(path)).toString("latin1"));
    }
  }
  return found;
}

/** Every table that the database has, whatever the schema says by now. */
async function tablesOf({ store, databaseUrl }: Traces): Promise<readonly (keyof Tables)[]> {
  const schema = new URLSearchParams(databaseUrl.split("?")[1]).get("schema") ?? undefined;
  const tables = await store.read.introspection.getTables();
  const own = tables.filter((table) => schema === undefined || table.schema === schema);
  assert.ok(own.length > 0);
  return own.map(({ name }) => name as keyof Tables);
}

/** Fails when a canary stands where it is not known to stand. */
export function assertAbsent(
  canaries: readonly string[],
  places: ReadonlyMap<string, string>,
  isKnown: (where: string, canary: string) => boolean,
): void {
  for (const [where, text] of places) {
    for (const canary of canaries.filter((each) => !isKnown(where, each))) {
      const at = text.indexOf(canary);
      assert.ok(at < 0, `${canary} stands in ${where}: ${text.slice(Math.max(0, at - 200), at + 60)}`);
    }
  }
}

/** Writes the configuration and the `.env` with the planted secrets. `more` is added to the configuration. */
export async function plantHome(home: string, more: object = {}): Promise<void> {
  await writeFile(join(home, ".env"), dotEnv, { mode: 0o600 });
  await writeFile(join(home, "config.yaml"), JSON.stringify({ ...homeConfig, ...more }), { mode: 0o600 });
}
