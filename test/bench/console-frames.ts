/** Frames and memory of a long conversation, and of an answer that streams in, beside an empty page that scrolls. */
import { createServer } from "node:http";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { composer, conversation, send, type ConsoleTest } from "../harness/browser.ts";
import { addLongSession } from "../harness/console-sessions.ts";
import { openConsole, showWithin } from "./console-browser.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";

const MESSAGES = 10_000;
const SCROLL_PX_PER_S = 24_000;
const SCROLL_MS = 4_000;
const DELTAS_PER_S = 1_000;
const STREAM_MS = 10_000;
/** An hour of streaming, as one minute shows it: five answers more, one after the other. */
const MORE_ANSWERS = 5;
const MB = 1e6;

export async function run(): Promise<readonly BenchRow[]> {
  await using model = await startPacedModel();
  const config = {
    model: { providers: { local: { type: "openai_compatible", base_url: model.url, models: ["paced"] } } },
  };
  await using bench = await openConsole({ config });
  if (!bench) return [{ name: "no Chromium on this machine", value: 0, unit: "" }];
  const { shown } = bench;
  const page = await shown.open("/chat/new");
  await composer(page).waitFor();
  const empty = await emptyScroll(shown);
  return [...(await long(shown, page, empty)), ...(await streaming(shown, page, empty))];
}

async function long(shown: ConsoleTest, page: Page, empty: readonly number[]): Promise<readonly BenchRow[]> {
  const small = await addLongSession(shown, 2);
  const id = await addLongSession(shown, MESSAGES);
  const times: number[] = [];
  for (let round = 0; round < 5; round++) {
    await page.goto(`/chat/${small}`);
    await conversation(page).getByText("Message 1").waitFor();
    times.push(await showWithin(page, `/chat/${id}`, ".message-agent", `Message ${MESSAGES - 1}`));
  }
  const value = median(times);
  const frames = await scrollUp(page, '[role="log"]');
  const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
  const [p95, control] = [percentile(frames, 95), percentile(empty, 95)];
  return [
    { name: "10,000 messages shown", value, unit: "ms", goal: "< 300 ms", met: value < 300 },
    { name: "nodes of the page after it", value: nodes, unit: "", goal: "<= 8,000", met: nodes <= 8_000 },
    {
      name: "frame while scrolling 24,000 px/s, p95, by an empty page",
      value: p95,
      unit: "ms",
      control,
      ratio: p95 / control,
      goal: "<= 33 ms",
      met: p95 <= 33.5,
    },
  ];
}

async function streaming(
  shown: ConsoleTest,
  page: Page,
  empty: readonly number[],
): Promise<readonly BenchRow[]> {
  await page.goto("/chat/new");
  await composer(page).waitFor();
  await page.evaluate(() => {
    const found = { frames: [] as number[], longest: 0 };
    Object.assign(globalThis, { found });
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) found.longest = Math.max(found.longest, duration);
    }).observe({ type: "longtask" });
    let last = performance.now();
    const frame = (now: number) => {
      found.frames.push(now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await send(page, "stream");
  await answered(page);
  const { frames, longest } = await page.evaluate(
    () => (globalThis as unknown as { found: { frames: number[]; longest: number } }).found,
  );
  const [p99, control] = [percentile(frames, 99), percentile(empty, 99)];
  for (let round = 0; round < MORE_ANSWERS; round++) {
    if (round % 2 === 0) {
      await page.getByRole("button", { name: "New conversation" }).first().click();
      await page.waitForURL(/\/chat\/new/);
    }
    await send(page, "stream");
    await answered(page);
  }
  const heap = (await heapBytes(shown, page)) / MB;
  return [
    {
      name: "1,000 deltas/s for 10 s, longest task",
      value: longest,
      unit: "ms",
      goal: "<= 100 ms",
      met: longest <= 100,
    },
    {
      name: "1,000 deltas/s for 10 s, frame p99, by an empty page",
      value: p99,
      unit: "ms",
      control,
      ratio: p99 / control,
      goal: "<= 50 ms",
      met: p99 <= 50.5,
    },
    {
      name: "heap after a minute of it, in four sessions",
      value: heap,
      unit: "MB",
      goal: "<= 40",
      met: heap <= 40,
    },
  ];
}

async function answered(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
}

async function heapBytes(shown: ConsoleTest, page: Page): Promise<number> {
  const debug = await shown.context.newCDPSession(page);
  await debug.send("HeapProfiler.collectGarbage");
  const { usedSize } = await debug.send("Runtime.getHeapUsage");
  await debug.detach();
  return usedSize;
}

/** Frames of a page that has nothing to draw while it scrolls. */
async function emptyScroll(shown: ConsoleTest): Promise<readonly number[]> {
  const page = await shown.context.newPage();
  await page.goto("about:blank");
  await page.evaluate(() => {
    const [box, tall] = [document.createElement("div"), document.createElement("div")];
    box.setAttribute("role", "log");
    box.style.cssText = "height:90vh;overflow:auto";
    tall.style.height = "200000px";
    box.append(tall);
    document.body.append(box);
    box.scrollTop = box.scrollHeight;
  });
  const frames = await scrollUp(page, '[role="log"]');
  await page.close();
  return frames;
}

/** Scrolls a box up for some seconds. Resolves to the milliseconds between frames. */
function scrollUp(page: Page, selector: string): Promise<readonly number[]> {
  return page.evaluate(
    ([wanted, pxPerSecond, forMs]) =>
      new Promise<number[]>((resolve) => {
        const box = document.querySelector(wanted)!;
        const frames: number[] = [];
        const started = performance.now();
        let last = started;
        const frame = (now: number) => {
          frames.push(now - last);
          box.scrollTop -= (pxPerSecond * (now - last)) / 1_000;
          last = now;
          if (now - started < forMs) requestAnimationFrame(frame);
          else resolve(frames);
        };
        requestAnimationFrame(frame);
      }),
    [selector, SCROLL_PX_PER_S, SCROLL_MS] as const,
  );
}

interface PacedModel extends AsyncDisposable {
  readonly url: string;
}

/** A model that sends words at an even pace. */
async function startPacedModel(): Promise<PacedModel> {
  const server = createServer(async (request, response) => {
    await request.resume().toArray();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const write = (choice: object) =>
      response.write(
        `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "paced", choices: [{ index: 0, ...choice }] })}\n\n`,
      );
    const started = performance.now();
    for (let sent = 0, elapsed = 0; elapsed < STREAM_MS; elapsed = performance.now() - started) {
      for (; sent < (elapsed / 1_000) * DELTAS_PER_S; sent++) {
        const end = sent % 40 === 39 ? ".\n\n" : " ";
        write({ delta: { content: `word${sent}${end}` } });
      }
      await sleep(1);
    }
    write({ delta: {}, finish_reason: "stop" });
    response.end("data: [DONE]\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

await runAlone(import.meta.url, run);
