/** The database of the home, for commands that work beside the service. Touches the machine. */
import { stat } from "node:fs/promises";
import { loadConfig, requireValid } from "../../config/config.ts";
import { resolvePaths } from "../../config/paths.ts";
import type { Store } from "../../store/store.ts";
import { currentContext } from "./context.ts";

export interface FoundDatabase {
  readonly url: string;
  /** For people: a path, or what kind of server it is. Its URL may hold a password. */
  readonly place: string;
  /** False: there is no file yet. Of a server this is not known before it is asked. */
  readonly exists: boolean;
}

/** Makes nothing. ServiceError `invalid_config`. */
export async function findDatabase(): Promise<FoundDatabase> {
  const { home, env, userHome } = currentContext();
  const loaded = await loadConfig({ home, env });
  const config = requireValid(loaded);
  const { databaseUrl: url } = resolvePaths({ config, env: loaded.env, home, userHome });
  if (/^postgres(ql)?:\/\//.test(url)) return { url, place: "the PostgreSQL server", exists: true };
  const size = await stat(url).then(
    (found) => found.size,
    () => 0,
  );
  return { url, place: url, exists: size > 0 };
}

export function noDatabase(place: string): string {
  return `There is no database yet (${place}): \`agentd gateway\` makes it when it first starts.`;
}

export async function withDatabase(
  { url }: FoundDatabase,
  work: (store: Store) => Promise<void>,
): Promise<void> {
  const { openStore } = await import("../../store/open.ts");
  const store = await openStore({ url });
  try {
    await work(store);
  } finally {
    await store.close();
  }
}
