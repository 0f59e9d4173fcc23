/** Secrets of commands: from standard input they reach their place; as arguments they are warned about. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { agentd } from "../../harness/agentd.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const CANARY = "canary-0123456789abcdef";
const WEBHOOKS = "version: 1\nplatforms:\n  webhook:\n    enabled: true\n    extra: { port: 18644 }\n";

test("webhook subscribe takes the secret from standard input, and warns about one on the command line", async () => {
  await using place = await createHome({ "config.yaml": WEBHOOKS });
  const env = { AGENTD_HOME: place.home };
  const piped = await agentd(["webhook", "subscribe", "ci", "--secret-stdin"], env, `${CANARY}\n`);
  assert.deepEqual([piped.code, piped.stderr], [0, ""]);
  const file = join(place.home, "webhook_subscriptions.json");
  assert.ok((await readFile(file, "utf8")).includes(`"${CANARY}"`));
  const words = ["webhook", "subscribe", "two", "--secret"];
  const warned = await agentd([...words, "of-my-own-choice"], env);
  assert.equal(warned.code, 0);
  assert.match(warned.stderr, /see --secret in the process list\. Pass --secret-stdin/);
  assert.ok(!warned.stderr.includes("of-my-own"));
  const named = await agentd([...words, "env:HOOK"], { ...env, HOOK: CANARY });
  assert.deepEqual([named.code, named.stderr], [0, ""]);
  const both = await agentd([...words, "x", "--secret-stdin"], env, CANARY);
  assert.equal(both.code, 2);
  const none = await agentd(["webhook", "subscribe", "three", "--secret-stdin"], env, "\n");
  assert.equal(none.code, 2);
  assert.match(none.stderr, /--secret-stdin: standard input is empty/);
});

test("chat takes the key from standard input, and warns about one on the command line", async () => {
  await using service = await startTestService({ script: () => ({ text: "the answer" }) });
  await using place = await createHome();
  const env = { AGENTD_HOME: place.home };
  const words = ["chat", "hi", "--url", service.url];
  const piped = await agentd([...words, "--token-stdin"], env, `${KEY}\n`);
  assert.deepEqual([piped.code, piped.stdout, piped.stderr], [0, "the answer\n", ""]);
  const warned = await agentd([...words, "--token", KEY], env, "");
  assert.equal(warned.stdout, "the answer\n");
  assert.match(warned.stderr, /see --token in the process list\. Set API_SERVER_KEY, or pass --token-stdin/);
  assert.ok(!warned.stderr.includes(KEY));
  for (const wrong of [
    ["chat", "--token-stdin", "--url", service.url],
    ["chat", "hi", "--token-stdin"],
    [...words, "--token", "x", "--token-stdin"],
  ]) {
    assert.equal((await agentd(wrong, env, KEY)).code, 2, wrong.join(" "));
  }
});

test("gateway setup and config set warn about secrets on the command line and read them from standard input", async () => {
  await using place = await createHome();
  const env = { AGENTD_HOME: place.home };
  const setup = ["gateway", "setup", "--platform", "telegram"];
  const token = `123456789:${"A".repeat(35)}`;
  const warned = await agentd([...setup, "--set", `token=${token}`, "--set", "home_channel=-100"], env);
  assert.equal(warned.code, 0, warned.stderr);
  assert.match(warned.stderr, /see --set token=\.\.\. in the process list\. Pass --set-stdin token/);
  assert.ok(!warned.stderr.includes("home_channel=") && !warned.stderr.includes(token));
  const hooks = await agentd(["gateway", "setup", "--webhook-secret", CANARY], env);
  assert.match(hooks.stderr, /see --webhook-secret in the process list/);

  const set = await agentd(["config", "set", "api_server.key", CANARY], env);
  assert.match(set.stderr, /see api_server\.key in the process list\. Pass `-`/);
  const piped = await agentd(["config", "set", "api_server.key", "-"], env, `${CANARY}-2\n`);
  assert.deepEqual([piped.code, piped.stderr], [0, ""]);
  const shown = await agentd(["config", "get", "api_server.key", "--reveal"], env);
  assert.equal(shown.stdout, `${CANARY}-2\n`);
  const port = await agentd(["config", "set", "api_server.port", "8650"], env);
  assert.deepEqual([port.code, port.stderr], [0, ""]);
});
