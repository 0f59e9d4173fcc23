/** How soon pages of the console are there, beside an empty page in the same browser. */
import { createServer } from "node:http";
import { once } from "node:events";
import type { Page } from "playwright-core";
import { openStore } from "../../src/store/open.ts";
import type { ConsoleTest } from "../harness/browser.ts";
import { addLongSession } from "../harness/console-sessions.ts";
import { openConsole, showWithin } from "./console-browser.ts";
import { median, runAlone, type BenchRow } from "./row.ts";

const ROUNDS = 9;
const ROWS = 5_000;
const IDLE_MS = 10_000;

export async function run(): Promise<readonly BenchRow[]> {
  await using bench = await openConsole();
  if (!bench) return [{ name: "no Chromium on this machine", value: 0, unit: "" }];
  const { shown } = bench;
  const page = await shown.open("/chat/new");
  await page.locator("textarea").waitFor();
  return [
    ...(await opening(shown)),
    ...(await switching(shown, page)),
    ...(await list(shown, page)),
    ...(await idle(page)),
  ];
}

/** Each in a context without a cache, as after the installation. */
async function opening(shown: ConsoleTest): Promise<readonly BenchRow[]> {
  const empty = createServer((_, response) => {
    response.setHeader("content-type", "text/html").end("<!doctype html><title>empty</title><p>empty");
  });
  empty.listen(0, "127.0.0.1");
  await once(empty, "listening");
  const address = empty.address();
  const control = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/`;
  const storageState = await shown.context.storageState();
  const paints: number[] = [];
  const bare: number[] = [];
  const usable: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const context = await shown.context.browser()!.newContext({ storageState });
    const page = await context.newPage();
    await page.goto(control);
    bare.push(await firstPaint(page));
    await page.goto(`${shown.url}/chat/new`);
    usable.push(await composerUsable(page));
    paints.push(await firstPaint(page));
    await context.close();
  }
  empty.closeAllConnections();
  empty.close();
  const [paint, floor, ready] = [median(paints), median(bare), median(usable)];
  return [
    {
      name: "first paint of the chat, by an empty page",
      value: paint,
      unit: "ms",
      control: floor,
      ratio: paint / floor,
      goal: "< 300 ms",
      met: paint < 300,
    },
    {
      name: "composer usable",
      value: ready,
      unit: "ms",
      control: floor,
      ratio: ready / floor,
      goal: "< 600 ms",
      met: ready < 600,
    },
  ];
}

function firstPaint(page: Page): Promise<number> {
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const observer = new PerformanceObserver((entries) => {
          const entry = entries.getEntriesByName("first-contentful-paint")[0];
          if (entry) resolve(entry.startTime);
        });
        observer.observe({ type: "paint", buffered: true });
      }),
  );
}

function composerUsable(page: Page): Promise<number> {
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const look = () => {
          const isOpen = document.querySelector("textarea:enabled") && document.querySelector(".suggestions");
          if (isOpen) resolve(performance.now());
          else requestAnimationFrame(look);
        };
        look();
      }),
  );
}

async function switching(shown: ConsoleTest, page: Page): Promise<readonly BenchRow[]> {
  const sessions = [
    { id: await addLongSession(shown, 30), last: "Message 29" },
    { id: await addLongSession(shown, 40), last: "Message 39" },
  ];
  const times: number[] = [];
  for (let round = 0; round < ROUNDS * 2; round++) {
    const { id, last } = sessions[round % 2]!;
    const ms = await showWithin(page, `/chat/${id}`, ".message-agent", last);
    if (round > 1) times.push(ms);
  }
  const value = median(times);
  return [
    {
      name: "switch to a session that was open before",
      value,
      unit: "ms",
      goal: "< 150 ms",
      met: value < 150,
    },
  ];
}

/** The page draws the first of them and the others on request. */
async function list(shown: ConsoleTest, page: Page): Promise<readonly BenchRow[]> {
  const store = await openStore({ url: shown.place.database });
  await store.write(async (tx) => {
    for (let index = 0; index < ROWS; index++) {
      const message = {
        owner: "default",
        target: "local",
        payload: { text: `Row ${index}.`, extra: {} },
        orderingKey: null,
      };
      const id = await store.outbox.enqueue(tx, message);
      await tx.update("outbox", { id }, { status: "dropped" });
    }
  });
  await store.close();
  await page.goto("/usage");
  await page.locator("h1").waitFor();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await page.goto("/usage");
    await page.getByLabel("Total").waitFor();
    times.push(await showWithin(page, "/outbox", ".table td", `Row ${ROWS - 1}.`));
  }
  const value = median(times);
  return [{ name: "a list of 5,000 rows shown", value, unit: "ms", goal: "< 200 ms", met: value < 200 }];
}

async function idle(page: Page): Promise<readonly BenchRow[]> {
  // The page loads the palette ahead of need, a second after it is shown.
  const ahead = page.waitForResponse(/palette-/);
  await page.goto("/runs");
  await page.locator("h1").waitFor();
  await ahead;
  await page.waitForLoadState("networkidle");
  let requests = 0;
  page.on("request", () => (requests += 1));
  const debug = await page.context().newCDPSession(page);
  await debug.send("Performance.enable");
  const busySeconds = async () => {
    const { metrics } = await debug.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
  };
  const before = await busySeconds();
  await page.waitForTimeout(IDLE_MS);
  const percent = (((await busySeconds()) - before) / (IDLE_MS / 1_000)) * 100;
  return [
    { name: "requests of an idle page in 10 s", value: requests, unit: "", goal: "0", met: requests === 0 },
    { name: "an idle page", value: percent, unit: "% of a core", goal: "<= 1", met: percent <= 1 },
  ];
}

await runAlone(import.meta.url, run);
