import assert from "node:assert/strict";
import { test } from "node:test";
import { createAcpPlace } from "../../harness/acp.ts";

test("9. Simple prompt: chunks concatenate to the core's text, one messageId per message, response last", async () => {
  await using place = await createAcpPlace();
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const { stopReason } = await editor.prompt(sessionId, "hello");
  assert.equal(stopReason, "end_turn");
  assert.match(editor.text(), /demo model/);
});
