/**
 * The Matrix target against a real homeserver, such as Synapse on loopback: AGENTD_TEST_SYNAPSE is its base URL. It must
 * let anybody register (`enable_registration` and `enable_registration_without_verification`), have its usual rate
 * limits, and need no more: each run makes its own users and rooms.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { matrix } from "../../../src/deliver/targets/matrix.ts";
import { sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

const homeserver = process.env["AGENTD_TEST_SYNAPSE"] ?? "";
const skip = homeserver === "" ? "AGENTD_TEST_SYNAPSE names no homeserver" : false;

type Json = Readonly<Record<string, unknown>>;
type Ask = (method: string, path: string, body?: Json) => Promise<Json>;

/** Someone who asks the homeserver; what it refuses throws. */
function asker(token?: string): Ask {
  return async (method, path, body) => {
    const response = await fetch(`${homeserver}/_matrix/client/v3${path}`, {
      method,
      headers: { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const answer = (await response.json()) as Json;
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  };
}

async function register(
  name: string,
): Promise<{ readonly id: string; readonly token: string; readonly ask: Ask }> {
  const username = `${name}-${crypto.randomUUID()}`;
  const answer = await asker()("POST", "/register", {
    username,
    password: crypto.randomUUID(),
    auth: { type: "m.login.dummy" },
  });
  const token = String(answer["access_token"]);
  return { id: String(answer["user_id"]), token, ask: asker(token) };
}

test(
  "a real homeserver takes messages, threads and repeats, and refuses as the fake does",
  { skip },
  async (t) => {
    const host = await register("host");
    const agent = await register("agent");
    const send = async (request: SendRequest, more = {}) =>
      (await sendThrough(matrix, { homeserver, access_token: agent.token, ...more }, request)).outcome;
    const makeRoom = async (more: Json, isJoined = true) => {
      const room = String(
        (await host.ask("POST", "/createRoom", { invite: [agent.id], ...more }))["room_id"],
      );
      if (isJoined) await agent.ask("POST", `/rooms/${encodeURIComponent(room)}/join`, {});
      return room;
    };
    const messages = async (room: string) => {
      const path = `/rooms/${encodeURIComponent(room)}/messages?dir=b&limit=50`;
      const chunk = (await host.ask("GET", path))["chunk"] as readonly Json[];
      return chunk.filter(({ type }) => type === "m.room.message").toReversed();
    };
    const name = `team-${crypto.randomUUID()}`;
    const room = await makeRoom({ room_alias_name: name });
    const alias = `#${name}:${agent.id.split(":").slice(1).join(":")}`;

    await t.test("a message arrives with its HTML form, once for all attempts", async () => {
      for (const attempt of [1, 2]) {
        assert.deepEqual(await send({ address: room, id: "out_a", text: "**bold** <b>x</b>", attempt }), {
          status: "delivered",
        });
      }
      const [event, ...more] = await messages(room);
      assert.deepEqual(more, []);
      const content = event?.["content"] as Json;
      assert.match(String(content["formatted_body"]), /<strong>bold<\/strong> &lt;b&gt;x/);
      assert.deepEqual(content["m.mentions"], {});
    });

    await t.test("an alias is found, and a thread is one", async () => {
      const [root] = await messages(room);
      const extra = { thread_id: root?.["event_id"] };
      assert.deepEqual(await send({ address: alias, id: "out_b", text: "In a thread", extra }), {
        status: "delivered",
      });
      const path = `/rooms/${encodeURIComponent(room)}/event/${encodeURIComponent(String(root?.["event_id"]))}`;
      const relations = ((await host.ask("GET", path))["unsigned"] as Json)["m.relations"] as Json;
      assert.equal((relations["m.thread"] as Json)["count"], 1);
    });

    await t.test("an encrypted room is refused", async () => {
      const state = {
        type: "m.room.encryption",
        state_key: "",
        content: { algorithm: "m.megolm.v1.aes-sha2" },
      };
      const secret = await makeRoom({ initial_state: [state] });
      const outcome = await send({ address: secret });
      assert.match(`${outcome.status} ${"error" in outcome ? outcome.error : ""}`, /^permanent .*encrypted/);
      assert.deepEqual(await messages(secret), []);
    });

    await t.test("a room that was not joined, an alias of none and a wrong token are given up", async () => {
      const foreign = await makeRoom({}, false);
      const said = async (address: string, more = {}) => {
        const outcome = await send({ address }, more);
        return `${outcome.status} ${"error" in outcome ? outcome.error : ""}`;
      };
      assert.match(await said(foreign), /^permanent .*M_FORBIDDEN.*Invite the user/);
      assert.match(await said(foreign, { allow_encrypted: true }), /^permanent .*M_FORBIDDEN/);
      assert.match(await said(alias.replace("#team-", "#nobody-")), /^permanent .*M_NOT_FOUND/);
      assert.match(await said(room, { access_token: "no-token" }), /^permanent .*M_UNKNOWN_TOKEN/);
    });

    await t.test("an event that is too large is given up", async () => {
      const outcome = await send(
        { address: room, id: "out_c", text: "word ".repeat(20_000) },
        { text_limit: 100_000 },
      );
      assert.match(
        `${outcome.status} ${"error" in outcome ? outcome.error : ""}`,
        /^permanent .*M_TOO_LARGE.*text_limit/,
      );
    });

    await t.test("haste is refused, with how long to wait", async () => {
      for (let index = 0; index < 40; index += 1) {
        const outcome = await send({ address: room, id: `out_d${index}` });
        if (outcome.status === "delivered") continue;
        assert.equal(outcome.status, "retry");
        assert.equal(outcome.isThrottled, true);
        assert.ok((outcome.afterMs ?? 0) > 0);
        return;
      }
      assert.fail("Forty messages went through: the homeserver has no rate limits.");
    });
  },
);
