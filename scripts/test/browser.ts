/** The Chromium that the tests of the console share. Touches the machine. */
import { existsSync } from "node:fs";
import process from "node:process";
import { chromium } from "playwright-core";

export interface TestBrowser extends AsyncDisposable {
  /** Where the tests find it. */
  readonly env: Readonly<Record<string, string>>;
}

/** Debian's, the lighter first: the same engine without the windows of a browser, which takes half the CPU. */
const SYSTEM_CHROMIUM = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

/** Starts the browser of CHROMIUM_PATH, or that of the system. Undefined when the system has none. */
export async function startBrowser(): Promise<TestBrowser | undefined> {
  const { CHROMIUM_PATH: named } = process.env;
  const executablePath = (named === undefined ? SYSTEM_CHROMIUM : [named]).find((path) => existsSync(path));
  if (executablePath === undefined) {
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
