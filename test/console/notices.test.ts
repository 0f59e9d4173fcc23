import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import { callApi } from "../harness/console-webhooks.ts";

interface Notice {
  readonly title: string;
  readonly body: string;
  readonly isClosed: boolean;
}

/** Records the notifications of a page, which the person does not look at: they are shown outside of it. */
async function watchNotices(page: Page): Promise<() => Promise<readonly Notice[]>> {
  await page.addInitScript(() => {
    const all: { title: string; body: string; isClosed: boolean }[] = [];
    const asked: string[] = [];
    const Real = Notification;
    Object.assign(globalThis, { notices: { all, asked } });
    globalThis.Notification = class extends Real {
      readonly #kept = { title: "", body: "", isClosed: false };
      constructor(title: string, options: NotificationOptions = {}) {
        super(title, options);
        Object.assign(this.#kept, { title, body: options.body });
        all.push(this.#kept);
        Object.assign(globalThis, { press: () => this.onclick?.(new Event("click")) });
      }
      override close(): void {
        this.#kept.isClosed = true;
        super.close();
      }
      /** The headless shell has none of its own. */
      static override get permission(): NotificationPermission {
        return "granted";
      }
      static override requestPermission(): Promise<NotificationPermission> {
        asked.push("permission");
        return Real.requestPermission();
      }
    };
    Document.prototype.hasFocus = () => false;
  });
  return () => page.evaluate(() => (globalThis as unknown as Watched).notices.all);
}

interface Watched {
  readonly notices: { readonly all: readonly Notice[]; readonly asked: readonly string[] };
  readonly press: () => void;
}

async function ask(shown: ConsoleTest, folder: string): Promise<string> {
  await callApi(shown, "/v1/runs", { input: `run: rm -rf ./${folder}` });
  for (;;) {
    const { data } = await callApi<{ readonly data: readonly { readonly id: string }[] }>(
      shown,
      "/v1/questions?status=open",
    );
    const found = data.find((question) => JSON.stringify(question).includes(folder));
    if (found) return found.id;
  }
}

test("a waiting approval is notified once a person has asked for it, without what is asked, until it is answered", async () => {
  await using shown = await startConsole();
  await shown.context.grantPermissions(["notifications"]);
  const noticesOf = await watchNotices(shown.page);
  const page = await shown.open("/approvals");
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  const first = await ask(shown, "a-secret-folder");
  await page.getByText("rm -rf ./a-secret-folder").waitFor();
  const asked = () => page.evaluate(() => (globalThis as unknown as Watched).notices.asked);
  assert.deepEqual([await noticesOf(), await asked()], [[], []], "nothing before a person asks for it");

  await page.getByRole("checkbox", { name: /^Notify me in this browser/ }).check();
  await page.waitForFunction(() => (globalThis as unknown as Watched).notices.all.length === 1);
  assert.deepEqual(await asked(), ["permission"]);
  const second = await ask(shown, "another-folder");
  await page.waitForFunction(() => (globalThis as unknown as Watched).notices.all.length === 2);
  const [on, notice] = await noticesOf();
  assert.equal(on?.title, "Notifications are on");
  assert.deepEqual(notice, {
    title: "The agent asks to use terminal",
    body: "It waits for your answer in the console.",
    isClosed: false,
  });

  // Answered elsewhere.
  await callApi(shown, `/v1/questions/${second}/answer`, { choice: "deny" });
  await page.waitForFunction(() => (globalThis as unknown as Watched).notices.all[1]?.isClosed);
  await callApi(shown, `/v1/questions/${first}/answer`, { choice: "deny" });
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();

  // It stays on in this browser, and leads to the session.
  await page.reload();
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  assert.ok(await page.getByRole("checkbox", { name: /^Notify me in this browser/ }).isChecked());
  await ask(shown, "third-folder");
  await page.waitForFunction(() => (globalThis as unknown as Watched).notices.all.length === 1);
  await page.evaluate(() => (globalThis as unknown as Watched).press());
  await page.waitForURL("**/chat/*");
  await page.getByRole("group", { name: /asks to use terminal/ }).waitFor();
});

test("a browser that refuses notifications is reported, and the setting stays off", async () => {
  await using shown = await startConsole();
  const noticesOf = await watchNotices(shown.page);
  await shown.page.addInitScript(() => {
    Notification.requestPermission = async () => "denied";
  });
  const page = await shown.open("/approvals");
  // Pressed by hand: it does not stay checked.
  await page.getByRole("checkbox", { name: /^Notify me in this browser/ }).click();
  await page.getByText("The browser refuses notifications of this page.").waitFor();
  assert.equal(await page.getByRole("checkbox", { name: /^Notify me in this browser/ }).isChecked(), false);
  await ask(shown, "some-folder");
  await page.getByText("rm -rf ./some-folder").waitFor();
  assert.deepEqual(await noticesOf(), []);
});
