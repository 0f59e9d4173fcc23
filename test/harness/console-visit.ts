/** What a stranger does in the console, step by step, by what is to be seen on its pages. */
import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { Locator, Page } from "playwright-core";
import type { Route } from "../../generated/http/client/types.gen.ts";
import { composer, conversation, type ConsoleTest } from "./browser.ts";
import { callApi, sendIssue } from "./console-webhooks.ts";

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
  /** Platforms of a gateway: this service, and a receiver of webhooks that keeps its address when it starts again. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly delivered: readonly string[];
  /** `isSlow` is called with the first message that it accepts, which it does not answer. */
  accept(isSlow?: () => void): void;
}

export async function startChatService(): Promise<ChatService> {
  const delivered: string[] = [];
  let isOpen = false;
  let slow: (() => void) | undefined;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { text } = JSON.parse(Buffer.concat(chunks).toString()) as { readonly text: string };
    if (!isOpen) return refuse(response);
    delivered.push(text);
    if (slow) return slow();
    const answer = { ok: true, result: { message_id: delivered.length } };
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  const port = await listen(server);
  const telegram = { token: "12345:a-token-of-no-bot", base_url: `http://127.0.0.1:${port}` };
  const webhook = { enabled: true, host: "127.0.0.1", port: await freePort(), routes: {} };
  return {
    config: { platforms: { telegram, webhook } },
    delivered,
    accept: (isSlow) => {
      isOpen = true;
      slow = isSlow;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function refuse(response: ServerResponse): void {
  const answer = { ok: false, error_code: 400, description: "Bad Request: chat not found" };
  response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify(answer));
}

async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address && typeof address === "object");
  return address.port;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, "close");
  return port;
}

/** What a press begins: nothing that lasts, a run, or the sending of a message. */
export type Begun = "nothing" | "run" | "message";

/** Who does the steps, and where. */
export interface Visit {
  readonly shown: ConsoleTest;
  readonly page: Page;
  readonly hands: Hands;
  readonly chats: ChatService;
  /** Does what changes something. Around it, a test kills the gateway. */
  readonly decide: (press: () => Promise<void>, begins: Begun) => Promise<void>;
  /** The gateway may be killed: the page says what it cut, and a person who reads that presses again. */
  readonly mayBeCut: boolean;
  /** How often a person asked and ran the job, and the address of the chat. */
  readonly made: { prompts: number; jobRuns: number; chat: string };
}

/** Returns a visit whose presses are just done. */
export function undisturbed(visit: Pick<Visit, "shown" | "page" | "hands" | "chats">): Visit {
  const made = { prompts: 0, jobRuns: 0, chat: "" };
  return { ...visit, decide: (press) => press(), mayBeCut: false, made };
}

const goTo = ({ page, hands }: Visit, name: string) =>
  hands.press(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }));

const PROMPT = "run: rm -rf ./build-folder";

const cutRuns = (page: Page) =>
  conversation(page).getByText("The server process that ran this ended before the run did");

/** Asks the agent for something that it may not do alone, and again when that was cut before it could ask. */
export async function ask(visit: Visit): Promise<void> {
  const { page, hands, made, mayBeCut } = visit;
  const question = page.getByRole("group", { name: /asks to use terminal/ });
  const write = () => hands.write(composer(page), PROMPT);
  const send = () => page.keyboard.press("Enter");
  await write();
  await visit.decide(send, "run");
  made.prompts = 1;
  await question.or(cutRuns(page)).first().waitFor();
  if (mayBeCut && (await cutRuns(page).count()) > 0) {
    await write();
    await send();
    made.prompts = 2;
    await question.waitFor();
  }
  await page.waitForURL(/\/chat\/(?!new)/);
  made.chat = page.url();
}

/** Lets it. After a kill the command has been run, or was cut by it: the page says which, and that nobody knows what it did. */
export async function allow(visit: Visit): Promise<void> {
  const { page, hands, mayBeCut } = visit;
  const before = await cutRuns(page).count();
  await visit.decide(() => hands.press(page.getByRole("button", { name: "Allow once" })), "run");
  const answer = conversation(page)
    .getByText(/terminal answered \(ok\)/)
    .first();
  await (mayBeCut ? answer.or(cutRuns(page).nth(before)).first() : answer).waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
}

/** Makes a route for issues. Resolves to where its sender sends to, and stays on the page of the route. */
export async function makeRoute(visit: Visit): Promise<Route> {
  const { page, hands, mayBeCut } = visit;
  await goTo(visit, "Webhooks");
  await hands.press(page.getByRole("button", { name: "Create a route" }));
  const dialog = page.getByRole("dialog");
  await hands.write(dialog.getByLabel("Name"), "tracker");
  await hands.write(dialog.getByLabel("Events"), "issues");
  await hands.write(dialog.getByRole("textbox", { name: "Prompt" }), "Summarize {issue.title}.");
  await visit.decide(() => hands.press(dialog.getByRole("button", { name: "Create the route" })), "nothing");
  const url = await dialog.getByLabel("Address", { exact: true }).innerText();
  const secret = await readSecret(visit, dialog, mayBeCut);
  return { url, secret } as Route;
}

async function readSecret({ page, hands }: Visit, dialog: Locator, mayBeCut: boolean): Promise<string> {
  const secret = dialog.getByLabel("Secret", { exact: true });
  const done = () => hands.press(dialog.getByRole("button", { name: "Done" }));
  if (mayBeCut && (await dialog.getByText("The connection broke before the secret arrived").count()) > 0) {
    await done();
    await hands.press(page.getByRole("button", { name: "Rotate secret" }));
    await page.getByLabel("The earlier secret stays valid").selectOption("0");
    await hands.press(page.getByRole("button", { name: "Make a new secret" }));
  }
  const text = await secret.innerText();
  await done();
  return text;
}

const rowOf = (page: Page, result: string) => page.getByRole("row").filter({ hasText: result });

/** Somebody else sends with another secret: the page says that it was refused, and why. */
export async function seeForgery(visit: Visit, route: Route): Promise<void> {
  const { page, hands } = visit;
  assert.equal(await sendIssue({ ...route, secret: "the secret of somebody else" }, "opened"), 401);
  const row = rowOf(page, "refused");
  await row.waitFor();
  await visit.decide(async () => {}, "nothing");
  await hands.press(row.getByRole("link"));
  await page.getByRole("heading", { name: "Refused at the signature stage" }).waitFor();
  await page.getByText("Set the same secret on both sides").first().waitFor();
}

/** Its sender sends an event that the route does not take: the page says so, and why. */
export async function seeRefusal(visit: Visit, route: Route): Promise<void> {
  const { page, hands } = visit;
  await hands.press(page.getByRole("link", { name: "All deliveries" }));
  await sendIssue(route, "created", "issue_comment");
  const row = rowOf(page, "ignored");
  await row.waitFor();
  await visit.decide(async () => {}, "nothing");
  await hands.press(row.getByRole("link"));
  await page.getByRole("heading", { name: "Ignored at the events stage" }).waitFor();
}

/** Lets the route take the event, and comes back to the delivery. */
export async function mendRoute(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  const delivery = page.url();
  await hands.press(page.getByRole("link", { name: "tracker" }).first());
  await hands.press(page.getByText("Edit this route"));
  await hands.write(page.getByLabel("Events"), "issues, issue_comment");
  await visit.decide(() => hands.press(page.getByRole("button", { name: "Save" })), "nothing");
  await page.getByRole("definition").getByText("issues, issue_comment").waitFor();
  await page.goBack();
  await page.waitForURL(delivery);
}

/** Sends the same request again, and sees what it became. */
export async function replay(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  await hands.press(page.getByRole("button", { name: "Replay" }));
  const confirm = page.getByRole("dialog").getByRole("button", { name: "Replay" });
  await visit.decide(() => hands.press(confirm), "run");
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

export async function createJob(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  await visit.decide(() => hands.press(page.getByRole("button", { name: "Create the job" })), "nothing");
  await page.getByRole("heading", { name: "Digest" }).waitFor();
}

/** Runs the job now, and again when that was cut. Its answer does not arrive. */
export async function runJob(visit: Visit): Promise<void> {
  const { page, hands, made, mayBeCut } = visit;
  const run = () => hands.press(page.getByRole("button", { name: "Run now" }));
  const history = page.getByRole("table", { name: "History" });
  const outcome = history.getByText(/^(done|failed|uncertain)$/);
  await visit.decide(run, "run");
  made.jobRuns = 1;
  await outcome.first().waitFor();
  if (mayBeCut && (await outcome.first().innerText()) !== "done") {
    await run();
    made.jobRuns = 2;
  }
  await history.getByText("done", { exact: true }).waitFor();
}

export async function seeDeadLetter(visit: Visit): Promise<void> {
  const { page, hands } = visit;
  await goTo(visit, "Outbox");
  await hands.press(rowOf(page, "dead").getByRole("link").first());
  await page.getByRole("alert").getByText("chat not found").waitFor();
}

/**
 * The reason is gone: the message is sent again. A kill during the attempt leaves open whether it arrived: the page says so
 * and does not send it again by itself.
 */
export async function retry(visit: Visit): Promise<void> {
  const { page, hands, chats, mayBeCut } = visit;
  chats.accept();
  await visit.decide(() => hands.press(page.getByRole("button", { name: "Retry" })), "message");
  if (mayBeCut)
    await page
      .locator("header")
      .getByText(/^(delivered|uncertain)$/)
      .waitFor();
  else await page.getByRole("listitem").filter({ hasText: "delivered" }).waitFor();
}

export async function seeCost(visit: Visit): Promise<void> {
  await goTo(visit, "Usage");
  await visit.page.getByLabel("Total").getByText("Cost").waitFor();
  await visit.page.getByRole("table", { name: "Usage by model" }).getByRole("row").nth(1).waitFor();
  await visit.page.locator(".chart-frame canvas").nth(2).waitFor();
}

type Row = Readonly<Record<string, unknown>>;

/** Everything that a person made is there once, in the store and on the pages. */
export async function assertOnce(visit: Visit): Promise<void> {
  const { chats, made, mayBeCut } = visit;
  const stored = await readStored(visit);
  const runs = made.jobRuns;
  const expected = { prompts: made.prompts, approvals: 1, routes: 1, deliveries: 3, jobs: 1, runs };
  const { letters, ...counts } = stored;
  assert.deepEqual(counts, expected, "the store");
  assert.deepEqual(await readPages(visit), { ...expected, letters: letters.length }, "the pages");
  assert.equal(
    new Set(letters.map(({ run_id: run }) => run)).size,
    letters.length,
    "one message of each run",
  );
  const retried = letters.filter(({ status }) => status !== "dead").map(({ status }) => String(status));
  assert.equal(retried.length, 1, `one message was retried: ${JSON.stringify(letters)}`);
  const [status = ""] = retried;
  assert.ok((mayBeCut ? ["delivered", "unknown"] : ["delivered"]).includes(status), status);
  const arrived = chats.delivered.length;
  assert.ok(arrived === 1 || (status === "unknown" && arrived === 0), `${status}, and ${arrived} arrived`);
}

async function readStored({ shown, made }: Visit) {
  const list = async (path: string) => (await callApi<{ readonly data: readonly Row[] }>(shown, path)).data;
  const session = new URL(made.chat).pathname.split("/").at(-1);
  const messages = await list(`/v1/sessions/${session}/messages?order=asc&limit=100`);
  const answered = await list("/v1/questions?status=answered");
  assert.deepEqual(await list("/v1/questions?status=open"), []);
  assert.match(JSON.stringify(answered[0]?.["answer"]), /once/);
  const deliveries = await list("/v1/webhooks/deliveries");
  assert.equal(deliveries.filter(({ replay_of: origin }) => origin).length, 1, "one replay");
  const jobs = await list("/v1/jobs");
  return {
    prompts: messages.filter(({ role }) => role === "user").length,
    approvals: answered.length,
    routes: (await list("/v1/webhooks/routes")).length,
    deliveries: deliveries.length,
    jobs: jobs.length,
    runs: (await list(`/v1/occurrences?job_id=${String(jobs[0]?.["id"])}`)).length,
    letters: (await list("/v1/outbox")).filter(({ target }) => String(target).startsWith("telegram")),
  };
}

async function readPages({ page, made }: Visit) {
  const count = async (path: string, rows: Locator) => {
    await page.goto(path);
    await rows.first().waitFor();
    return rows.count();
  };
  const rows = page.getByRole("table").locator("tbody tr");
  const prompts = await count(made.chat, conversation(page).locator(".message-user .message-text"));
  const approvals = await count("/approvals?view=answered", rows);
  const routes = await count("/webhooks", rows);
  const deliveries = await count("/webhooks/deliveries", rows);
  const jobs = await count("/schedule?view=list", rows);
  const letters = await count("/outbox", rows.filter({ hasText: "telegram" }));
  await page.goto("/schedule?view=list");
  await page.getByRole("link", { name: "Digest" }).click();
  await page.getByRole("heading", { name: "Digest" }).waitFor();
  const history = page.getByRole("table", { name: "History" }).locator("tbody tr");
  await history.first().waitFor();
  return { prompts, approvals, routes, deliveries, jobs, runs: await history.count(), letters };
}

/** Does all of it, as a stranger would, and counts in the end that everything was done once. */
export async function visitAll(visit: Visit): Promise<void> {
  const { page } = visit;
  await ask(visit);
  await allow(visit);
  const route = await makeRoute(visit);
  await seeForgery(visit, route);
  await seeRefusal(visit, route);
  await mendRoute(visit);
  await replay(visit);
  await writeJob(visit);
  await createJob(visit);
  await runJob(visit);
  await seeDeadLetter(visit);
  await retry(visit);
  await seeCost(visit);
  await page.waitForFunction(() => document.activeElement?.tagName === "H1");
  await assertOnce(visit);
}
