/** `agentd open`: signs the browser in to the console of the running gateway and opens a page of it. */
import { spawn } from "node:child_process";
import process from "node:process";
import { defineCommand } from "citty";
import { systemClock, waitAtMost } from "../../base/time.ts";
import { AgentApiError, type AgentClient } from "../../client/http.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { gatewayPortOption, withGateway } from "../kit/local-gateway.ts";
import { optionalArgument, switchOption, textOption } from "../kit/options.ts";
import { print, printData, warn } from "../kit/output.ts";

/** Pages that need no session. */
const PUBLIC: ReadonlyMap<string, string> = new Map([
  ["docs", "/docs"],
  ["openapi", "/openapi.json"],
]);
/** Pages of the console. What follows a slash is part of the page: `runs/run_x`. */
const PAGES =
  "start chat sessions runs approvals webhooks schedule outbox platforms models usage logs settings keys".split(
    " ",
  );

export const openCommand = defineCommand({
  meta: {
    name: "open",
    description: "Open the console of the running gateway in the browser, signed in with the key of the home",
  },
  args: {
    page: optionalArgument(
      `One of ${[...PAGES, ...PUBLIC.keys()].join(", ")}; also one of their pages such as runs/<id>. Default: start`,
    ),
    print: switchOption("Print the address instead of opening it. Its code works once and for 60 seconds"),
    code: switchOption("Print a short code to type on the sign-in page of a phone, valid for two minutes"),
    url: textOption("url", "Address at which the browser reaches the gateway, such as that of a tunnel"),
    key: textOption("name", "Sign in with this key instead. Requires the scope admin"),
    port: gatewayPortOption,
  },
  async run({ args }) {
    const path = pathOf(args.page ?? "start");
    const base = args.url === undefined ? undefined : baseOf(args.url);
    const keyOption = args.key === undefined ? {} : { key: args.key };
    const { baseUrl, code } = await withGateway(args.port, async (client, gateway) => {
      const isPublic = [...PUBLIC.values()].includes(path) && !args.code;
      const kind = args.code ? "phone" : "link";
      return {
        baseUrl: base ?? gateway.baseUrl,
        code: isPublic ? undefined : await createCode(client, { kind, ...keyOption }),
      };
    });
    if (args.code) return printCode(code, baseUrl);
    const url = baseUrl + (code === undefined ? path : signInPath(path, code));
    printData(url);
    if (args.print) return;
    const problem = await openInBrowser(url);
    if (problem === undefined) return;
    warn(`No browser was opened: ${problem}. Open the address above yourself.`);
    process.exitCode = EXIT_FAILURE;
  },
});

function pathOf(page: string): string {
  if (page === "start") return "/";
  const known = PUBLIC.get(page);
  if (known !== undefined) return known;
  const [first = ""] = page.split(/[/?]/);
  if (first !== "start" && PAGES.includes(first) && !/[\s\\#]/.test(page)) return `/${page}`;
  const names = [...PAGES, ...PUBLIC.keys()].join(", ");
  throw new UsageError(`<page> must be one of ${names}, not ${JSON.stringify(page)}.`);
}

function baseOf(text: string): string {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url.origin;
  throw new UsageError(
    `--url must be an address such as http://localhost:9000, not ${JSON.stringify(text)}.`,
  );
}

/** Returns a code that signs in; undefined where none is needed, because the gateway requires no key. */
async function createCode(
  client: AgentClient,
  body: { readonly kind: "link" | "phone"; readonly key?: string },
): Promise<string | undefined> {
  try {
    return (await client.createConsoleCode({ body })).data.code;
  } catch (error) {
    if (error instanceof AgentApiError && error.code === "auth_required") return undefined;
    throw error;
  }
}

/** A fragment is sent to no server, and is in no log. */
function signInPath(path: string, code: string): string {
  const next = path === "/" ? "" : `?next=${encodeURIComponent(path)}`;
  return `/login${next}#c=${code}`;
}

function printCode(code: string | undefined, baseUrl: string): void {
  if (code === undefined) return print(`The gateway requires no key: open ${baseUrl} without a code.`);
  printData(code);
  warn(`Type this code at ${baseUrl}/login within two minutes.`);
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
