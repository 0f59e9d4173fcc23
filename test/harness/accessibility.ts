/** What axe finds on a page of the console, and whether it fits its window. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { BrowserContext, Page } from "playwright-core";

interface Finding {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
}

interface Axe {
  run(options: object): Promise<{ readonly violations: readonly Finding[] }>;
}

const source = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const RULES_OF_COLOUR = { type: "rule", values: ["color-contrast", "link-in-text-block"] };

/** Returns each finding with its element: of all rules in light colours, and in dark ones of those that look at colours. */
export async function findings(page: Page): Promise<readonly string[]> {
  await bringAxe(page);
  await page.emulateMedia({ colorScheme: "light" });
  const inLight = await violationsOf(page, RULES);
  await page.emulateMedia({ colorScheme: "dark" });
  const inDark = await violationsOf(page, RULES_OF_COLOUR);
  await page.emulateMedia({ colorScheme: null });
  return [...inLight, ...inDark.map((finding) => `in dark colours: ${finding}`)];
}

const equipped = new WeakSet<BrowserContext>();

/** The page's policy lets no script in but its own: the tool comes in through the debugger, once for all later pages. */
async function bringAxe(page: Page): Promise<void> {
  const context = page.context();
  if (equipped.has(context)) return;
  equipped.add(context);
  await context.addInitScript(await source);
  await page.evaluate(await source);
}

async function violationsOf(page: Page, runOnly: object): Promise<readonly string[]> {
  const violations = await page.evaluate(
    // What passed stays in the page: it is long, and takes longer to bring here than to find.
    async (options) => (await (globalThis as unknown as { readonly axe: Axe }).axe.run(options)).violations,
    // Without the preparation and the details that nothing here reads, it takes much less time.
    { runOnly, resultTypes: ["violations"], preload: false },
  );
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}\n${html}\n${failureSummary}`),
  );
}

/** Returns how many pixels the page and its main part are wider than they may be. */
export function tooWide(page: Page): Promise<readonly number[]> {
  return page.evaluate(() => {
    const main = document.querySelector("main");
    const over = [
      document.documentElement.scrollWidth - innerWidth,
      main ? main.scrollWidth - main.clientWidth : 0,
    ];
    return over.filter((pixels) => pixels > 0);
  });
}

/** Opens a page and waits until it shows what it loads. */
export async function openLoaded(page: Page, path: string): Promise<void> {
  await page.goto(path);
  await page.locator("h1").waitFor();
  await page.getByRole("status").filter({ hasText: "Loading" }).first().waitFor({ state: "detached" });
}
