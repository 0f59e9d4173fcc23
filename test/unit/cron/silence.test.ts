import assert from "node:assert/strict";
import { test } from "node:test";
import { endingOfAnswer, isSilent } from "../../../src/cron/run/result.ts";
import { createTestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;
const BURIED = "I looked, and would say [SILENT] were it not for the leak.";
const MARKED = [
  "[SILENT]",
  "[SILENT]\n2 deals filtered",
  "Nothing new.\n\n[SILENT]\n",
  "[silent]",
  "  [Silent]  ",
];

test("a silence marker anywhere in the answer suppresses the delivery, and the output is still saved", async () => {
  const answers = [...MARKED, BURIED];
  await using cron = await createTestCron({ script: () => ({ text: answers.shift() ?? "?" }) });
  const { id } = await cron.create();
  const wanted = answers.length;
  for (let hour = 0; hour < wanted; hour++) await cron.advance(HOUR_MS);
  assert.deepEqual(cron.sent, []);
  const occurrences = await cron.occurrences(id);
  assert.deepEqual(
    occurrences.map(({ status, delivery_status: delivery }) => `${status} ${delivery}`),
    Array.from({ length: wanted }, () => "ok silent"),
  );
  const outputs = Object.values(await cron.outputs(id));
  assert.equal(outputs.length, wanted);
  assert.match(outputs[1] ?? "", /## Response\n\n\[SILENT\]\n2 deals filtered/);
  assert.equal((await cron.job(id)).lastStatus, "ok");
});

test("an answer that mentions the marker inside a sentence is delivered when silentMatch is `line`", async () => {
  const answers = [BURIED, "NO_REPLY"];
  await using cron = await createTestCron({
    script: () => ({ text: answers.shift() ?? "?" }),
    cron: { silentMatch: "line" },
  });
  await cron.create();
  await cron.advance(HOUR_MS);
  await cron.advance(HOUR_MS);
  assert.equal(cron.sent.length, 1);
  assert.match(cron.sent[0]?.text ?? "", /were it not for the leak/);
});

test("silentMatch `line` takes a marker as the whole answer, its first or last line, or [SILENT] at its start", () => {
  for (const text of [
    ...MARKED,
    "SILENT",
    "silent.",
    "NO_REPLY",
    "no reply",
    "**NO_REPLY**",
    "_NO_REPLY_",
    "«No reply.»",
    "[SILENT] - nothing new since yesterday",
    "NO REPLY\nbecause nothing happened",
    "All is well.\r\nSILENT\r\n",
  ]) {
    assert.equal(isSilent(text, "line"), true, JSON.stringify(text));
  }
  for (const text of [
    BURIED,
    "The night was silent",
    "silently done",
    "a\nSILENT\nb",
    "NO\nREPLY",
    "no reply from the server",
    "",
    "?!",
  ]) {
    assert.equal(isSilent(text, "line"), false, JSON.stringify(text));
  }
});

test("silentMatch `contains` takes only the marker in brackets, anywhere in the answer", () => {
  for (const text of [...MARKED, BURIED]) assert.equal(isSilent(text, "contains"), true, text);
  for (const text of ["SILENT", "NO_REPLY", "[SILENT", "[ SILENT ]", ""]) {
    assert.equal(isSilent(text, "contains"), false, text);
  }
});

test("an answer with the failure mark is a failure, even a silent one", () => {
  const table: Readonly<Record<string, string>> = {
    "[CRON_FAILURE]": "The agent reported a failure without a reason.",
    "[CRON_FAILURE] the mailbox is full": "the mailbox is full",
    "**[cron_failure]**: no network\nsee the log": "no network\nsee the log",
    "\n\n[CRON_FAILURE]\n[SILENT]": "[SILENT]",
    "\u0000\ufeff[CRON_FAILURE] x": "x",
  };
  for (const [answer, text] of Object.entries(table)) {
    assert.deepEqual(
      endingOfAnswer(answer),
      { status: "failed", isFromAgent: true, text },
      JSON.stringify(answer),
    );
  }
  assert.equal(endingOfAnswer("well\n[CRON_FAILURE]").status, "ok", "only the first line counts");
  for (const answer of ["", " \n\t", "\u200b\u00ad", "\u0000"]) {
    assert.deepEqual(endingOfAnswer(answer), {
      status: "failed",
      isFromAgent: true,
      text: "The agent gave no answer.",
    });
  }
});

test("a failure mark after non-ASCII characters is recognized and removed", async () => {
  const { text, status } = endingOfAnswer("Stra\u00dfe \ufb03 [cron_failure] no milk");
  assert.deepEqual([status, text], ["failed", "Stra\u00dfe \ufb03  no milk"]);
});

test("any answer is checked for marks in linear time", { timeout: 60_000 }, () => {
  const run = " -".repeat(200_000);
  assert.equal(isSilent(`a${run}b`, "line"), false);
  assert.equal(isSilent(`${run}NO_REPLY${run}`, "line"), true);
  assert.equal(endingOfAnswer(`[CRON_FAILURE] a${" ".repeat(400_000)}b`).status, "failed");
});
