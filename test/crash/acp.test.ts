/** Editors whose agent is killed in the middle of a turn: what they find when they start it again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAcpPlace, type AcpClient } from "../harness/acp.ts";
import { history, load } from "../harness/acp-sessions.ts";
import { calling, saying, strict, type ModelReply } from "../harness/openai-server.ts";

interface Case {
  readonly when: string;
  readonly replies: readonly ModelReply[];
  /** Defined once the turn is where it is to be cut. */
  readonly isThere: (client: AcpClient, id: string) => unknown;
  /** What stands between the prompt and the word that it was interrupted. */
  readonly told: readonly string[];
}

const waits = JSON.stringify({ command: "until [ -e never ]; do sleep 0.05; done" });

const cases: readonly Case[] = [
  {
    when: "in the middle of a text",
    replies: [{ pieces: [{ text: "half a " }, { text: "word" }, { hang: true }] }],
    isThere: (client, id) => (client.text(id) === "half a word" ? true : undefined),
    told: ["agent_message_chunk half a word"],
  },
  {
    when: "in the middle of a tool",
    replies: [calling({ id: "c1", name: "terminal", json: waits })],
    isThere: (client, id) =>
      client.updates("tool_call_update", id).find(({ status }) => status === "in_progress"),
    told: ["tool_call failed"],
  },
  {
    when: "in a later step, behind a tool that ended",
    replies: [
      calling({ id: "c1", name: "terminal", json: '{"command":"echo one"}' }),
      { pieces: [{ text: "It says" }, { hang: true }] },
    ],
    isThere: (client, id) => (client.text(id) === "It says" ? true : undefined),
    told: ["tool_call completed", "agent_message_chunk It says"],
  },
];

for (const { when, replies, isThere, told } of cases) {
  test(`after kill -9 ${when} a new process replays the turn as interrupted and accepts the next prompt`, async () => {
    await using place = await createAcpPlace({ replies: strict([...replies, saying("Here again.")]) });
    const dying = place.start();
    const first = await dying.client();
    const id = await first.session(place.folder);
    const turn = first.prompt(id, "go").catch(() => "lost");
    await first.until(() => isThere(first, id));
    dying.child.kill("SIGKILL");
    await dying.exited;
    assert.equal(await turn, "lost");

    const client = await place.start().client();
    const { sessions } = await client.agent.request("session/list", {});
    assert.deepEqual(
      sessions.map(({ sessionId, cwd }) => [sessionId, cwd]),
      [[id, place.folder]],
    );
    await load(client, id, place.folder);
    const replayed = history(client, id).map((update) => {
      if (update.sessionUpdate === "tool_call") return `tool_call ${update.status}`;
      if (!("content" in update) || Array.isArray(update.content)) return update.sessionUpdate;
      return `${update.sessionUpdate} ${update.content?.type === "text" ? update.content.text : "-"}`;
    });
    assert.deepEqual(replayed.slice(0, -1), ["user_message_chunk go", ...told]);
    assert.match(replayed.at(-1) ?? "", /^agent_message_chunk \[Interrupted\] .*ended before/);
    assert.deepEqual(
      client
        .updates("agent_message_chunk", id)
        .map(({ messageId }) => messageId)
        .slice(0, -1),
      [...new Set(first.updates("agent_message_chunk", id).map(({ messageId }) => messageId))],
      "under the ids that were live",
    );

    const before = client.text(id).length;
    assert.equal((await client.prompt(id, "and now?")).stopReason, "end_turn");
    assert.equal(client.text(id).slice(before), "Here again.");
  });
}
