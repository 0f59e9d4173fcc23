/** The console in Chromium, each test with its own gateway, home and browser context. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { createGatewayPlace, type GatewayPlace, type GatewayProcess } from "./gateway.ts";
import type { ModelServer } from "./openai-server.ts";

export interface ConsoleOptions {
  /** Answers instead of the demo model. */
  readonly models?: ModelServer;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: "light" | "dark";
}

export interface ConsoleTest extends AsyncDisposable {
  readonly place: GatewayPlace;
  readonly gateway: GatewayProcess;
  readonly url: string;
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the page must not do, in words: the test fails with it. */
  readonly problems: string[];
  /** Opens a page in the name of the first key. */
  open(path?: string): Promise<Page>;
  /** A request with the first key, as another client makes it. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** Another page of the same browser, watched as well. */
  newPage(): Promise<Page>;
  /** The browser may write what fits this, such as a refusal that the test provokes. */
  allow(message: RegExp): void;
  /** Kills the gateway. The page may complain that it does not reach it. */
  kill(): Promise<void>;
  /** Starts it again where it was, and waits until the pages have reconnected. */
  restart(): Promise<void>;
}

/** Connects to the browser that all tests share. */
function connect(): Promise<Browser> {
  const { AGENTD_TEST_BROWSER: endpoint } = process.env;
  assert.ok(endpoint, "Run these tests with npm run test:console.");
  return chromium.connect(endpoint);
}

const WIDTH = 1_280;
const HEIGHT = 800;
const PHONE = 720;
const PATIENCE_MS = 120_000;

/** Starts a gateway and a browser context. Nobody is signed in yet. */
export async function startConsole(options: ConsoleOptions = {}): Promise<ConsoleTest> {
  const { models, config, width = WIDTH, height = HEIGHT, colorScheme = "light" } = options;
  const place = await createGatewayPlace();
  const local = models && { type: "openai_compatible", base_url: models.baseUrl, models: ["test-model"] };
  const all = { ...(local ? { model: { providers: { local } } } : {}), ...config };
  await writeFile(join(place.home, "config.yaml"), JSON.stringify(all));
  let gateway = await place.start();
  const { url } = gateway;
  const isPhone = width < PHONE;
  const browser = await connect();
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    // Otherwise everything that moves is drawn sixty times a second, for nobody.
    reducedMotion: "reduce",
    hasTouch: isPhone,
    isMobile: isPhone,
    baseURL: url,
  });
  // Busy machines take twenty times as long.
  context.setDefaultTimeout(PATIENCE_MS);
  const problems: string[] = [];
  const state: Watched = { isDown: false, allowed: [] };
  await watchRequests(context, url, problems);
  const newPage = async () => {
    const page = await context.newPage();
    watchPage(page, problems, state);
    return page;
  };
  const page = await newPage();
  const request = async (path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${await place.key()}`);
    if (typeof init.body === "string") headers.set("content-type", "application/json");
    return fetch(url + path, { ...init, headers });
  };
  return {
    place,
    get gateway() {
      return gateway;
    },
    url,
    context,
    page,
    problems,
    request,
    newPage,
    allow: (message) => void state.allowed.push(message),
    open: async (path = "/chat/new") => {
      await page.goto(await signInLink(request, path));
      await page.waitForURL((address) => address.pathname !== "/login");
      return page;
    },
    kill: async () => {
      state.isDown = true;
      await gateway.kill("SIGKILL");
    },
    restart: async () => {
      gateway = await place.start(Number(new URL(url).port));
      // As when the network is back: the page tries again at once.
      for (const each of context.pages()) {
        // A page that came back by itself may be loading again.
        await each.evaluate(() => void dispatchEvent(new Event("online"))).catch(() => {});
      }
      for (const each of context.pages()) await awayBanner(each).waitFor({ state: "detached" });
      state.isDown = false;
    },
    async [Symbol.asyncDispose]() {
      await context.close();
      await browser.close();
      await place[Symbol.asyncDispose]();
      if (problems.length === 0) return;
      const what = `The page had problems:\n${problems.join("\n")}`;
      // If the test failed too, the runner shows neither error of the pair.
      console.error(what);
      throw new Error(what);
    },
  };
}

/** Returns the address that `agentd open` opens. */
export async function signInLink(request: ConsoleTest["request"], path: string): Promise<string> {
  const response = await request("/api/console/codes", {
    method: "POST",
    body: JSON.stringify({ kind: "link" }),
  });
  assert.equal(response.status, 201, await response.clone().text());
  const { code } = (await response.json()) as { readonly code: string };
  return `/login?next=${encodeURIComponent(path)}#c=${code}`;
}

/** The console must not reach any other host. */
async function watchRequests(context: BrowserContext, url: string, problems: string[]): Promise<void> {
  const { origin, host } = new URL(url);
  context.on("request", (request) => {
    const target = new URL(request.url());
    if (target.origin === origin || target.protocol === "data:" || target.protocol === "blob:") return;
    if (target.protocol === "ws:" && target.host === host) return;
    problems.push(`a request to another host: ${request.url()}`);
  });
}

/** What the browser itself writes about requests that a killed gateway does not answer. */
const WHILE_DOWN =
  /ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_SOCKET_NOT_CONNECTED|ERR_EMPTY_RESPONSE|WebSocket connection to|ERR_INCOMPLETE/;

interface Watched {
  isDown: boolean;
  readonly allowed: RegExp[];
}

function watchPage(page: Page, problems: string[], state: Watched): void {
  page.on("pageerror", (error) => problems.push(`an unhandled error: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    const text = message.text();
    if (state.isDown && WHILE_DOWN.test(text)) return;
    if (state.allowed.some((pattern) => pattern.test(text))) return;
    problems.push(`in the console: ${text} ${message.location().url}`.trim());
  });
}

/** The conversation: what is read to screen readers is beside it. */
export function conversation(page: Page) {
  return page.getByRole("log", { name: "Conversation" });
}

/** The composer of the chat. */
export function composer(page: Page) {
  return page.getByRole("textbox", { name: "Message" });
}

/** Resolves when the page has its socket: then it asks for the version of the console. */
export async function whenConnected({ page }: ConsoleTest): Promise<void> {
  await page.waitForResponse((response) => new URL(response.url()).pathname === "/chat");
}

/** What every page says while it does not reach the gateway. */
export function awayBanner(page: Page) {
  return page.getByText("What you write is kept and sent when it is back.");
}

/** Writes a message and sends it. */
export async function send(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await composer(page).press("Enter");
}

/** Takes back what the browser itself reports about answers of this status; fails when it has reported none. */
export function takeRefusals({ problems }: ConsoleTest, status: number): void {
  const isRefusal = (problem: string) => problem.includes(`responded with a status of ${status}`);
  assert.ok(problems.some(isRefusal), `no request was answered ${status}`);
  problems.splice(0, problems.length, ...problems.filter((problem) => !isRefusal(problem)));
}
