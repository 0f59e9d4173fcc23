/**
 * `npm run docs:screenshots`: starts the built gateway with a scripted model, gives it some work, and takes a picture of
 * each page of the console: at 1280 and 390 pixels, in light and dark. Those that the documentation shows go to
 * docs/pictures, all of them to the folder that `--all` names. Needs Chromium.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import type { Page } from "playwright-core";
import { startConsole, type ConsoleTest } from "../test/harness/browser.ts";
import {
  callApi,
  createIssuesRoute,
  deliveriesOf,
  RECEIVER,
  sendIssue,
} from "../test/harness/console-webhooks.ts";
import {
  calling,
  saying,
  startModelServer,
  type ModelReply,
  type ModelRequest,
} from "../test/harness/openai-server.ts";
import { startBrowser } from "./test/browser.ts";

const { values } = parseArgs({ options: { all: { type: "string" } } });
const pictures = join(import.meta.dirname, "../docs/pictures");
const SCREENS = [
  { width: 1_280, height: 800, colorScheme: "light" },
  { width: 1_280, height: 800, colorScheme: "dark" },
  { width: 390, height: 844, colorScheme: "light" },
  { width: 390, height: 844, colorScheme: "dark" },
] as const;
const JOBS = [
  ["digest", "weekdays at 9am"],
  ["backup", "every 2h"],
  ["report", "0 18 * * 5"],
] as const;
/** What the documentation shows, at 1280 pixels in light. */
const SHOWN: ReadonlySet<string> = new Set(["chat", "run", "delivery", "schedule", "usage", "settings"]);

await using browser = await startBrowser();
if (!browser) throw new Error("There is no Chromium. Name one in CHROMIUM_PATH.");
Object.assign(process.env, browser.env);
if (values.all !== undefined) await mkdir(values.all, { recursive: true });
for (const screen of values.all === undefined ? SCREENS.slice(0, 1) : SCREENS) {
  await using models = await startModelServer(answer);
  await using shown = await startConsole({ models, config: RECEIVER, ...screen });
  const page = await shown.open("/chat/new");
  for (const [name, path] of await pagesOf(shown, page)) {
    if (path !== undefined) await page.goto(path);
    await page.locator("main h1, main textarea").first().waitFor();
    await page.getByRole("status").filter({ hasText: "Loading" }).first().waitFor({ state: "detached" });
    // Charts are drawn after the page.
    await page.waitForFunction(() =>
      [...document.querySelectorAll(".chart-frame")].every((each) => each.firstChild),
    );
    const picture = await page.screenshot({ animations: "disabled" });
    const isShown = SHOWN.has(name) && screen === SCREENS[0];
    if (isShown) await writeFile(join(pictures, `console-${name}.png`), picture);
    if (values.all === undefined) continue;
    await writeFile(join(values.all, `${name}-${screen.width}-${screen.colorScheme}.png`), picture);
  }
}

/** Gives the gateway work, and returns what to show: the chat as it is, then pages by their address. */
async function pagesOf(shown: ConsoleTest, page: Page): Promise<readonly (readonly [string, string?])[]> {
  const route = await createIssuesRoute(shown);
  for (const action of ["labeled", "opened", "closed", "opened"]) await sendIssue(route, action);
  await sendIssue({ ...route, secret: "wrong" }, "opened");
  for (const [name, schedule] of JOBS)
    await callApi(shown, "/v1/jobs", {
      name,
      schedule,
      prompt: "Summarize what is new.",
      time_zone: "Europe/Paris",
    });
  const message = page.getByRole("textbox", { name: /message/i });
  await message.fill("Run the tests, then clean up the build folder.");
  await message.press("Enter");
  await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
  const { data } = await callApi<{ readonly data: readonly { readonly id: string }[] }>(
    shown,
    "/v1/runs?status=completed",
  );
  const deliveries = await deliveriesOf(shown);
  const ignored = deliveries.find(({ status }) => status === "ignored");
  return [
    ["chat"],
    ["sessions", "/sessions"],
    ["runs", "/runs"],
    ["run", `/runs/${data[0]?.id}`],
    ["approvals", "/approvals"],
    ["webhooks", "/webhooks"],
    ["deliveries", "/webhooks/deliveries"],
    ["delivery", `/webhooks/deliveries/${ignored?.id}`],
    ["jobs", "/schedule?view=list"],
    ["schedule", "/schedule?view=timeline"],
    ["outbox", "/outbox"],
    ["platforms", "/platforms"],
    ["usage", "/usage"],
    ["logs", "/logs"],
    ["settings", "/settings/approvals"],
  ];
}

function answer({ body }: ModelRequest): ModelReply {
  const text = JSON.stringify(body.messages);
  const usage = {
    prompt_tokens: 1_850 + text.length,
    completion_tokens: 46,
    total_tokens: 1_896 + text.length,
  };
  const reply = replyTo(text);
  return "pieces" in reply ? { pieces: [...reply.pieces, { usage }] } : reply;
}

function replyTo(text: string): ModelReply {
  if (!text.includes("build folder"))
    return saying("Issue 7 asks for a dark theme. ", "It is a duplicate of issue 3.");
  const command = text.includes('"tool"') ? "rm -rf build" : "echo '214 tests passed'";
  return calling({ id: `call_${text.length}`, name: "terminal", json: JSON.stringify({ command }) });
}
