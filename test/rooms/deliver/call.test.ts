import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import { offTracer } from "../../../src/base/trace.ts";
import { createCall } from "../../../src/deliver/call.ts";

const options = { signal: new AbortController().signal, span: offTracer.start("send", {}) };

async function ask({ baseUrl = "http://127.0.0.1:9", token = "a-token", password = "kw9" }) {
  const call = createCall({ title: "Somewhere", baseUrl, version: "1.2.3", clock: systemClock });
  const body = { chatGuid: "a", tempGuid: "b", message: "c", method: "apple-script" as const };
  const headers = { Authorization: `Bearer ${token}` };
  const answer = await call(
    "BluebubblesAnswer",
    (client) => client.bluebubblesSendText({ query: { password }, body, headers }),
    options,
  );
  assert.equal(answer.kind, "none");
  return answer.kind === "none" ? answer.outcome : undefined;
}

test("an address that is none is given up, and nothing of the request is shown", async () => {
  const wrong = ["http://bad host:1234", "http://", "http://h:99999", "", "ftp://h", "localhost:8080"];
  for (const baseUrl of wrong) {
    const outcome = await ask({ baseUrl });
    assert.equal(outcome?.status, "permanent", baseUrl);
    assert.match(outcome.error, /base_url/);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("an address with a user, a query or a fragment is given up, and they are not shown", async () => {
  for (const baseUrl of [
    "https://u:kw9@127.0.0.1:9",
    "http://127.0.0.1:9/?key=kw9",
    "http://127.0.0.1:9#kw9",
  ]) {
    const outcome = await ask({ baseUrl });
    assert.equal(outcome?.status, "permanent", baseUrl);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("a credential that no header may hold is given up, and is not shown", async () => {
  for (const token of ["kw9\nx", "kw9\u0000", "kw9\u2026"]) {
    const outcome = await ask({ token });
    assert.equal(outcome?.status, "permanent", JSON.stringify(token));
    assert.match(outcome.error, /credential/);
    assert.doesNotMatch(outcome.error, /kw9/);
  }
});

test("a slash or a path at the end of the address is part of it, and nobody there is tried again", async () => {
  for (const baseUrl of ["http://127.0.0.1:9/", "http://127.0.0.1:9/some/path//"])
    assert.equal((await ask({ baseUrl }))?.status, "retry", baseUrl);
});
