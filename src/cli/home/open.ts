/** `agentd open`: opens a page of the running gateway in the browser. */
import { spawn } from "node:child_process";
import process from "node:process";
import { defineCommand } from "citty";
import { systemClock, waitAtMost } from "../../base/time.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { gatewayPortOption, withGateway } from "../kit/local-gateway.ts";
import { optionalArgument, switchOption } from "../kit/options.ts";
import { printData, warn } from "../kit/output.ts";

/** Paths by page. */
const PAGES: ReadonlyMap<string, string> = new Map([
  ["start", "/"],
  ["docs", "/docs"],
  ["openapi", "/openapi.json"],
]);

export const openCommand = defineCommand({
  meta: {
    name: "open",
    description: "Open a page of the running gateway in the browser: the API reference",
  },
  args: {
    page: optionalArgument(
      `One of ${[...PAGES.keys()].join(", ")}. Default: start, which leads to the reference`,
    ),
    print: switchOption("Print the address instead of opening it"),
    port: gatewayPortOption,
  },
  async run({ args }) {
    const path = pathOf(args.page ?? "start");
    const url = await withGateway(args.port, async (_client, { baseUrl }) => baseUrl + path);
    printData(url);
    if (args.print) return;
    const problem = await openInBrowser(url);
    if (problem === undefined) return;
    warn(`No browser was opened: ${problem}. Open the address above yourself.`);
    process.exitCode = EXIT_FAILURE;
  },
});

function pathOf(page: string): string {
  const path = PAGES.get(page);
  if (path !== undefined) return path;
  throw new UsageError(`<page> must be one of ${[...PAGES.keys()].join(", ")}, not ${JSON.stringify(page)}.`);
}

/** An opener that still runs after this time has become the browser. */
const OPENER_MS = 3_000;

/** Returns why the opener of the platform failed; undefined when it did not. */
async function openInBrowser(url: string): Promise<string | undefined> {
  const opener = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(opener, [url], { stdio: "ignore", detached: true });
  const ended = new Promise<string | undefined>((resolve) => {
    child.once("error", ({ message }) => resolve(`${opener} cannot be started (${message})`));
    child.once("exit", (code) => resolve(code === 0 ? undefined : `${opener} ended with ${String(code)}`));
  });
  const problem = await waitAtMost(systemClock, OPENER_MS, ended);
  child.unref();
  return problem;
}
