import assert from "node:assert/strict";
import { test } from "node:test";
import { Grants } from "../../../src/agent/question/grants.ts";
import { createTestAgent } from "../../harness/agent.ts";

const ann = { owner: "ann", sessionId: "s" };
const bob = { owner: "bob", sessionId: "s" };
const grant = { owner: "ann", signature: "command:sudo ls", tool: "terminal", title: "Run: sudo ls" };

test("leave for good is by owner, survives a restart, is listed and revoked", async () => {
  await using agent = await createTestAgent();
  await agent.deps.grants.allowAlways(grant, "lena");
  await agent.deps.grants.allowAlways(grant, "lena");
  await using restarted = await createTestAgent({ database: agent.databaseUrl });
  const { grants } = restarted.deps;
  assert.equal(await grants.allows({ owner: "ann", sessionId: "another" }, grant.signature), true);
  assert.equal(await grants.allows(ann, "command:sudo reboot"), false);
  assert.equal(await grants.allows(bob, grant.signature), false);
  assert.deepEqual(
    (await grants.list("ann")).map(({ signature, tool, title }) => ({ signature, tool, title })),
    [{ signature: grant.signature, tool: grant.tool, title: grant.title }],
  );
  assert.deepEqual(await grants.list("bob"), []);
  assert.equal(await grants.revoke("bob", grant.signature), false);
  assert.equal(await grants.revoke("ann", grant.signature), true);
  assert.equal(await grants.revoke("ann", grant.signature), false);
  assert.equal(await agent.deps.grants.allows(ann, grant.signature), false);
});

test("leave for a session is of that owner's session alone, and is gone after a restart", async () => {
  await using agent = await createTestAgent();
  const { grants } = agent.deps;
  grants.allowForSession(ann, "x");
  assert.equal(await grants.allows(ann, "x"), true);
  assert.equal(await grants.allows(ann, "y"), false);
  assert.equal(await grants.allows(bob, "x"), false);
  assert.equal(await grants.allows({ ...ann, sessionId: "t" }, "x"), false);
  assert.equal(await new Grants(agent.store).allows(ann, "x"), false);
});

test("only sessions with leave count against the limit, and the one unused longest goes first", async () => {
  await using agent = await createTestAgent();
  const { grants } = agent.deps;
  grants.allowForSession(ann, "x");
  grants.allowForSession(bob, "x");
  for (let index = 0; index < 1_001; index += 1) await grants.allows({ ...bob, sessionId: `${index}` }, "x");
  assert.equal(await grants.allows(ann, "x"), true);
  for (let index = 0; index < 999; index += 1) grants.allowForSession({ ...bob, sessionId: `${index}` }, "x");
  assert.equal(await grants.allows(ann, "x"), true);
  assert.equal(await grants.allows(bob, "x"), false);
});
