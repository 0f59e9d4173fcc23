import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../../../src/agent/question/policy/policy.ts";
import { rows } from "./commands.ts";
import { home, type Row } from "./rows.ts";

const decided = (command: string, more: { readonly sessionMode?: "plan"; readonly mode?: "yolo" } = {}) =>
  decide({ kind: "command", title: "", command }, { mode: "ask", ...home, ...more });

/** Returns the policy's outcome for a command, in the words of the table. */
function outcomeOf(command: string): Row["expected"] {
  const { outcome, remember } = decided(command);
  const planned = decided(command, { sessionMode: "plan" }).outcome;
  if (outcome === "allow") return planned === "allow" ? "look" : "run";
  assert.equal(planned, "deny", `plan mode runs ${command}`);
  if (outcome === "deny") assert.equal(decided(command, { mode: "yolo" }).outcome, "deny");
  return outcome === "deny" ? "deny" : `ask ${remember}`;
}

const meanings: Readonly<Record<Row["expected"], string>> = {
  look: "runs, also in plan mode",
  run: "runs",
  "ask never": "asks every time",
  "ask session": "asks, at most once a session",
  "ask always": "asks, until it is allowed for good",
  deny: "is refused",
};

for (const { expected, reason, commands } of rows) {
  for (const command of commands) {
    const shown = command.length > 60 ? `${command.slice(0, 60)}...` : command;
    test(`${JSON.stringify(shown)} ${meanings[expected]}: ${reason}`, () => {
      assert.equal(outcomeOf(command), expected, decided(command).reason);
    });
  }
}

test("the table lists no command twice", () => {
  const all = rows.flatMap(({ commands }) => commands);
  assert.ok(all.length >= 400, `${all.length} commands`);
  assert.deepEqual(
    all.filter((command, index) => all.indexOf(command) !== index),
    [],
  );
});
