/** The database of the home, for commands that run beside the service. Touches the machine. */
import { stat } from "node:fs/promises";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths } from "../../config/home.ts";
import type { Store } from "../../store/store.ts";
import { currentContext, type CliContext } from "./context.ts";

interface FoundDatabase {
  readonly url: string;
  /** A path, or the kind of server; the URL may contain a password. */
  readonly location: string;
  /** False: the file does not exist yet. Always true for a server. */
  readonly exists: boolean;
}

/** Finds the database without creating it. ServiceError `invalid_config`. */
export async function findDatabase(context: CliContext = currentContext()): Promise<FoundDatabase> {
  const { home, env, userHome } = context;
  const loaded = await loadConfig({ home, env });
  const config = requireValid(loaded);
  const { databaseUrl: url } = resolvePaths({ config, env: loaded.env, home, userHome });
  if (/^postgres(ql)?:\/\//.test(url)) return { url, location: "the PostgreSQL server", exists: true };
  const size = await stat(url).then(
    (found) => found.size,
    () => 0,
  );
  return { url, location: url, exists: size > 0 };
}

export function noDatabase(location: string): string {
  return `The database does not exist yet (${location}). \`agentd gateway\` creates it at its first start.`;
}

export async function withDatabase<T>(
  { url }: FoundDatabase,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const { openStore } = await import("../../store/open.ts");
  const store = await openStore({ url });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
