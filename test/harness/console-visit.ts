/** What a stranger does in the console, step by step, by what is to be seen on its pages. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import type { Locator, Page } from "playwright-core";
import type { Question, Route } from "../../generated/http/client/types.gen.ts";
import { composer, conversation, type ConsoleTest } from "./browser.ts";
import { callApi, RECEIVER, sendIssue } from "./console-webhooks.ts";

/** How a person presses and types: by mouse, or by the keyboard alone. */
export interface Hands {
  press(target: Locator): Promise<void>;
  write(target: Locator, text: string): Promise<void>;
}

export const MOUSE: Hands = {
  press: (target) => target.click(),
  write: (target, text) => target.fill(text),
};

const MOST_PRESSES = 150;

/** Goes to everything by Tab, as a person without a mouse does. */
export const KEYBOARD: Hands = {
  press: async (target) => {
    await tabTo(target);
    await target.page().keyboard.press("Enter");
  },
  write: async (target, text) => {
    await tabTo(target);
    await target.page().keyboard.press("ControlOrMeta+a");
    await target.page().keyboard.insertText(text);
  },
};

async function tabTo(target: Locator): Promise<void> {
  await target.waitFor();
  for (let presses = 0; presses < MOST_PRESSES; presses++) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await target.page().keyboard.press("Tab");
  }
  assert.fail(`the keyboard does not reach ${String(target)}`);
}

/** A chat service that refuses messages at first, as one does whose bot is in no chat yet. */
export interface ChatService extends AsyncDisposable {
  readonly config: object;
  readonly delivered: readonly string[];
  accept(): void;
}

export async function startChatService(): Promise<ChatService> {
  const delivered: string[] = [];
  let isOpen = false;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { text } = JSON.parse(Buffer.concat(chunks).toString()) as { readonly text: string };
    if (isOpen) delivered.push(text);
    const answer = isOpen
      ? { ok: true, result: { message_id: delivered.length } }
      : { ok: false, error_code: 400, description: "Bad Request: chat not found" };
    response
      .writeHead(isOpen ? 200 : 400, { "content-type": "application/json" })
      .end(JSON.stringify(answer));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address && typeof address === "object");
  const telegram = { token: "12345:a-token-of-no-bot", base_url: `http://127.0.0.1:${address.port}` };
  return {
    config: { platforms: { ...RECEIVER.platforms, telegram } },
    delivered,
    accept: () => {
      isOpen = true;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Who does the steps, and where. */
export interface Visit {
  readonly shown: ConsoleTest;
  readonly page: Page;
  readonly hands: Hands;
  readonly chats: ChatService;
}

const goTo = ({ page, hands }: Visit, name: string) =>
  hands.press(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }));

/** Asks the agent for something that it may not do alone. */
export async function askInChat({ page, hands }: Visit): Promise<void> {
  await hands.write(composer(page), "run: rm -rf ./build-folder");
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
  await page.waitForURL(/\/chat\/(?!new)/);
}

export function pressAllow({ page, hands }: Visit): Promise<void> {
  return hands.press(page.getByRole("button", { name: "Allow once" }));
}

export async function seeAnswer({ page }: Visit): Promise<void> {
  await conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
}

/** After a kill the command has been run, or was cut by it: the page says which, and that nobody knows what it did. */
export async function seeAnswerOrCut({ page }: Visit): Promise<void> {
  await conversation(page)
    .getByText(/terminal answered \(ok\)|The server process that ran this ended before the run did/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
}

/** Makes a route for issues. Resolves to where its sender sends to. */
export async function makeRoute(visit: Visit): Promise<Route> {
  const { page, hands } = visit;
  await goTo(visit, "Webhooks");
  await hands.press(page.getByRole("button", { name: "Create a route" }));
  const dialog = page.getByRole("dialog");
  await hands.write(dialog.getByLabel("Name"), "tracker");
  await hands.write(dialog.getByLabel("Events"), "issues");
  await hands.write(dialog.getByRole("textbox", { name: "Prompt" }), "Summarize {issue.title}.");
  await hands.press(dialog.getByRole("button", { name: "Create the route" }));
  const secret = await dialog.getByLabel("Secret", { exact: true }).innerText();
  const url = await dialog.getByLabel("Address", { exact: true }).innerText();
  await hands.press(dialog.getByRole("button", { name: "Done" }));
  return { url, secret } as Route;
}

/** Its sender sends an event that the route does not take: the page says so, and why. */
export async function seeRefusal({ page, hands }: Visit, route: Route): Promise<void> {
  await sendIssue(route, "created", "issue_comment");
  const row = page.getByRole("row").filter({ hasText: "ignored" });
  await hands.press(row.getByRole("link"));
  await page.getByRole("heading", { name: "Ignored at the stage events" }).waitFor();
}

/** Lets the route take the event, and comes back to the delivery. */
export async function mendRoute({ page, hands }: Visit): Promise<void> {
  const delivery = page.url();
  await hands.press(page.getByRole("link", { name: "tracker" }).first());
  await hands.press(page.getByText("Edit this route"));
  await hands.write(page.getByLabel("Events"), "issues, issue_comment");
  await hands.press(page.getByRole("button", { name: "Save" }));
  await page.getByText("Saved.").waitFor();
  await page.goBack();
  await page.waitForURL(delivery);
}

export async function pressReplay({ page, hands }: Visit): Promise<void> {
  await hands.press(page.getByRole("button", { name: "Replay" }));
  await hands.press(page.getByRole("dialog").getByRole("button", { name: "Replay" }));
}

export async function seeReplay({ page }: Visit): Promise<void> {
  await page.getByText("Replay of").waitFor();
  await page.getByRole("link", { name: /^run_/ }).first().waitFor();
}

/** Writes a job, with its next times in sight. */
export async function writeJob(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  await goTo(visit, "Schedule");
  await hands.press(
    page.getByRole("button", { name: "Create a job" }).or(page.getByRole("link", { name: "Create a job" })),
  );
  await hands.write(page.getByLabel("Schedule", { exact: true }), "weekdays at 9am");
  await page.getByText("On weekdays at 09:00").waitFor();
  assert.ok((await page.getByRole("listitem").locator("time").count()) >= 3, "its next times are shown");
  await hands.write(page.getByLabel("Prompt"), "Summarize what is new.");
  await hands.write(page.getByLabel("Name", { exact: true }), "Digest");
  await hands.write(page.getByLabel("Where the answer goes"), "telegram:42");
}

export function pressCreateJob({ page, hands }: Visit): Promise<void> {
  return hands.press(page.getByRole("button", { name: "Create the job" }));
}

export async function seeJob({ page }: Visit): Promise<void> {
  await page.getByRole("heading", { name: "Digest" }).waitFor();
}

/** Runs the job now. Its answer does not arrive. */
export async function runJob({ page, hands }: Visit): Promise<void> {
  await hands.press(page.getByRole("button", { name: "Run now" }));
  await page.getByRole("table", { name: "History" }).getByText("done").waitFor();
}

export async function seeDeadLetter(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  await goTo(visit, "Outbox");
  const row = page.getByRole("row").filter({ hasText: "dead" });
  await hands.press(row.getByRole("link").first());
  await page.getByRole("alert").getByText("chat not found").waitFor();
}

/** The reason is gone: the message is sent again. */
export function pressRetry({ page, hands, chats }: Visit): Promise<void> {
  chats.accept();
  return hands.press(page.getByRole("button", { name: "Retry" }));
}

export async function seeDelivered({ page }: Visit): Promise<void> {
  await page.getByRole("listitem").filter({ hasText: "delivered" }).waitFor();
}

/** A kill during the attempt leaves open whether it arrived: the page says so and does not send it again by itself. */
export async function seeDeliveredOrUncertain({ page }: Visit): Promise<void> {
  await page
    .locator("header")
    .getByText(/^(delivered|uncertain)$/)
    .waitFor();
}

export async function seeCost(visit: Visit): Promise<void> {
  await goTo(visit, "Usage");
  await visit.page.getByLabel("Total").getByText("Cost").waitFor();
  await visit.page.getByRole("table", { name: "Usage by model" }).getByRole("row").nth(1).waitFor();
}

/** The approval was answered once, and no question is open. */
async function assertAnsweredOnce({ shown }: Visit): Promise<void> {
  const list = async (status: string) =>
    (await callApi<{ readonly data: readonly Question[] }>(shown, `/v1/questions?status=${status}`)).data;
  assert.deepEqual(await list("open"), []);
  const answered = await list("answered");
  assert.equal(answered.length, 1);
  assert.match(JSON.stringify(answered[0]?.answer), /once/);
}

/** Nothing of the visit is lost or there twice; what a kill may leave open is one of `letters`. */
export async function assertOnce(visit: Visit, outcomes: readonly string[] = ["delivered"]): Promise<void> {
  const { shown, chats } = visit;
  await assertAnsweredOnce(visit);
  const list = async (path: string) =>
    (await callApi<{ readonly data: readonly Record<string, unknown>[] }>(shown, path)).data;
  const replays = (await list("/v1/webhooks/deliveries")).filter(({ replay_of: origin }) => origin);
  const letters = await list("/v1/outbox");
  const statuses = letters
    .filter(({ target }) => String(target).startsWith("telegram"))
    .map(({ status }) => String(status));
  const jobs = (await list("/v1/jobs")).map(({ name }) => name);
  assert.deepEqual(
    { jobs, replays: replays.length, letters: statuses.length },
    { jobs: ["Digest"], replays: 1, letters: 1 },
  );
  const [status = ""] = statuses;
  assert.ok(outcomes.includes(status), status);
  assert.ok(chats.delivered.length === 1 || (status === "unknown" && chats.delivered.length === 0), status);
}
