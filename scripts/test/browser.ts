/** The Chromium that the tests of the console share. Touches the machine. */
import { access } from "node:fs/promises";
import process from "node:process";
import { chromium } from "playwright-core";

export interface TestBrowser extends AsyncDisposable {
  /** Where the tests find it. */
  readonly env: Readonly<Record<string, string>>;
}

const SYSTEM_CHROMIUM = "/usr/bin/chromium";

/** Starts the browser of CHROMIUM_PATH, or that of the system. Undefined when the system has none. */
export async function startBrowser(): Promise<TestBrowser | undefined> {
  const { CHROMIUM_PATH: named } = process.env;
  const executablePath = named ?? SYSTEM_CHROMIUM;
  const isThere = await access(executablePath).then(
    () => true,
    () => false,
  );
  if (!isThere) {
    if (named !== undefined) throw new Error(`CHROMIUM_PATH names ${named}, which does not exist.`);
    return undefined;
  }
  // Root, as in a container of CI, cannot use the sandbox of Chromium.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const server = await chromium.launchServer({ executablePath, args });
  return {
    env: { AGENTD_TEST_BROWSER: server.wsEndpoint() },
    [Symbol.asyncDispose]: () => server.close(),
  };
}
