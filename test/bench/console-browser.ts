/** The console in a browser of its own, for benches. */
import process from "node:process";
import type { Page } from "playwright-core";
import { startBrowser } from "../../scripts/test/browser.ts";
import { startConsole, type ConsoleOptions, type ConsoleTest } from "../harness/browser.ts";

export interface ConsoleBench extends AsyncDisposable {
  readonly shown: ConsoleTest;
}

/** Starts the browser and a gateway. Undefined without Chromium. */
export async function openConsole(options: ConsoleOptions = {}): Promise<ConsoleBench | undefined> {
  const browser = await startBrowser();
  if (!browser) return undefined;
  Object.assign(process.env, browser.env);
  const shown = await startConsole(options);
  return {
    shown,
    async [Symbol.asyncDispose]() {
      await shown[Symbol.asyncDispose]();
      await browser[Symbol.asyncDispose]();
    },
  };
}

/** Shows an address as a press on a link does, and resolves to the milliseconds until an element has the text. */
export function showWithin(page: Page, address: string, selector: string, text: string): Promise<number> {
  return page.evaluate(
    ([to, wanted, words]) =>
      new Promise<number>((resolve) => {
        const started = performance.now();
        history.pushState({ key: String(started) }, "", to);
        dispatchEvent(new PopStateEvent("popstate"));
        const look = () => {
          const isThere = [...document.querySelectorAll(wanted!)].some((each) =>
            each.textContent?.includes(words!),
          );
          if (isThere) resolve(performance.now() - started);
          else requestAnimationFrame(look);
        };
        look();
      }),
    [address, selector, text] as const,
  );
}
