/** Prompts with files, and prompts that replace earlier ones. */
import assert from "node:assert/strict";
import { openSession, rpcScenario, takeTurn } from "./scenario.ts";

/** The smallest picture there is: PNG, 1 x 1. */
const PICTURE =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

function heard({ user }: { readonly user: string }) {
  return { text: `heard ${user}` };
}

rpcScenario(
  "prompt.submit",
  { title: "a prompt replaces the one that its message_id names, and what followed", script: heard },
  async (host) => {
    const id = await openSession(host);
    const messages = async () =>
      (await host.result("session.history", { session_id: id })).messages as readonly {
        readonly text: string;
        readonly message_id: string;
      }[];
    await takeTurn(host, id, "one");
    await takeTurn(host, id, "two");
    const [first, answer, second] = await messages();
    const edit = { session_id: id, text: "zwei", truncate_before_message_id: second!.message_id };
    await host.error("prompt.submit", edit, 4029);
    const confirmed = { ...edit, confirm_truncate: true };
    for (const other of [answer!.message_id, "msg_999"]) {
      await host.error("prompt.submit", { ...confirmed, truncate_before_message_id: other }, 4018);
    }
    await host.error("prompt.submit", { ...confirmed, truncate_before_message_id: "second" }, 4002);
    const taken = await host.result("prompt.submit", confirmed);
    await host.event("message.complete", ({ turn_id }) => turn_id === taken.turn_id);
    const left = await messages();
    assert.deepEqual(
      left.map(({ text }) => text),
      ["one", "heard one", "zwei", "heard zwei"],
    );
    assert.equal(left[0]!.message_id, first!.message_id);
  },
);

rpcScenario(
  ["prompt.submit", "session.history"],
  { title: "pictures, PDFs and text files of a prompt keep their names, and the history lists them" },
  async (host) => {
    const id = await openSession(host);
    const part = (filename: string, data: string) => ({ type: "file", filename, data });
    const text = [
      { type: "text", text: "look" },
      part("../a picture.png", PICTURE),
      part("notes.md", `data:text/markdown;base64,${btoa("# Notes")}`),
      part("", `data:application/pdf;base64,${btoa("%PDF-1.7 x")}`),
    ];
    const { turn_id } = await host.result("prompt.submit", { session_id: id, text });
    await host.event("message.complete", (event) => event.turn_id === turn_id);
    const { messages } = await host.result("session.history", { session_id: id });
    assert.equal(messages[0].text, "look");
    assert.deepEqual(messages[0].attachments, [
      { kind: "image", name: "a picture.png", media_type: "image/png", bytes: 70 },
      { kind: "file", name: "notes.md", media_type: "text/plain", bytes: 7 },
      { kind: "file", name: null, media_type: "application/pdf", bytes: 10 },
    ]);
    assert.equal(messages[1].attachments, undefined);
    const bad = [
      { type: "text", text: "look" },
      part("a.zip", `data:;base64,${btoa("PK\u0003\u0004\u0000")}`),
    ];
    const refused = await host.error("prompt.submit", { session_id: id, text: bad }, 4016);
    assert.match(refused.message, /not text, a PDF, or a PNG, JPEG, GIF or WebP image/);
  },
);
