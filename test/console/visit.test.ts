import { test } from "node:test";
import { startConsole } from "../harness/browser.ts";
import { KEYBOARD, MOUSE, startChatService, undisturbed, visitAll } from "../harness/console-visit.ts";

for (const [title, hands] of [
  [
    "a stranger chats, approves, mends and replays a webhook, makes a job, retries a message and sees the cost",
    MOUSE,
  ],
  ["every flow by keyboard alone", KEYBOARD],
] as const) {
  test(title, async () => {
    await using chats = await startChatService();
    await using shown = await startConsole({ config: chats.config });
    await visitAll(undisturbed({ shown, page: await shown.open(), hands, chats }));
  });
}
