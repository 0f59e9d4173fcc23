/** What answers when the model is missing, slow or chosen without its key, by the program as people start it. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { saying, startModelServer } from "../../harness/openai-server.ts";
import { freePort } from "../cli/free-port.ts";
import { createHome } from "../../unit/config/home-folder.ts";

/** Sends one prompt over HTTP; resolves to the status and the text of the response. */
async function prompt(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "hello" }] }),
  });
  return `${response.status} ${await response.text()}`;
}

async function modelOf(
  url: string,
  key: string,
): Promise<{ readonly model: string; readonly status: string }> {
  const response = await fetch(`${url}/health/detailed`, { headers: { authorization: `Bearer ${key}` } });
  const body = (await response.json()) as {
    readiness: { checks: { model: { model: string; status: string } } };
  };
  return body.readiness.checks.model;
}

test("a slow model server is named at the start, no demo answers for it, and it is used once it answers", async () => {
  const isReady = Promise.withResolvers<void>();
  await using server = await startModelServer(() => saying("hello from the box"), {
    "GET /v1/models": async (response) => {
      await isReady.promise;
      response.end(JSON.stringify({ data: [{ id: "m" }] }));
    },
  });
  await using place = await createGatewayPlace();
  await writeFile(
    join(place.home, "config.yaml"),
    JSON.stringify({ model: { local_servers: { box: server.baseUrl } } }),
  );
  const gateway = await place.start();
  const slow = `A server at ${server.host} did not answer in time`;
  assert.ok(gateway.stdout().includes(slow), gateway.stdout());
  const key = await place.key();
  const refused = await prompt(gateway.url, key);
  assert.ok(refused.includes(slow), refused);
  assert.doesNotMatch(refused, /demo model\]|^200/);
  assert.equal((await modelOf(gateway.url, key)).status, "degraded");
  isReady.resolve();
  while ((await modelOf(gateway.url, key)).status === "degraded") await new Promise(setImmediate);
  assert.match(await prompt(gateway.url, key), /^200 .*hello from the box/);
  assert.equal((await modelOf(gateway.url, key)).model, "box:m");
});

test("a key without a model is named at the start, by model show, model list and doctor alike", async () => {
  const made = await createHome({ ".env": "OPENAI_API_KEY=a-key-of-nobody-at-all\n" });
  await using _ = made;
  const env = { AGENTD_HOME: made.home };
  const outputs = await Promise.all(
    [["model", "show"], ["model", "list"], ["doctor"]].map((words) => keptAgentd(words, env)),
  );
  for (const { stdout, stderr } of outputs) {
    assert.match(stdout + stderr, /OPENAI_API_KEY is set, but no model is chosen[\s\S]*agentd setup/);
  }
  await using place = await createGatewayPlace({ OPENAI_API_KEY: "a-key-of-nobody-at-all" });
  const gateway = await place.start();
  assert.match(gateway.stdout(), /demo:demo \(OPENAI_API_KEY is set, but no model is chosen.*agentd setup/);
  assert.match(await prompt(gateway.url, await place.key()), /demo model.*agentd setup/);
});

test("with a key and no chosen model, webhooks and scheduled jobs fail and say why; the demo model answers neither", async () => {
  const [port, canary] = [await freePort(), "a-key-of-nobody-at-all"];
  const env = { OPENAI_API_KEY: canary, WEBHOOK_ENABLED: "true", WEBHOOK_PORT: port };
  await using place = await createGatewayPlace(env);
  const gateway = await place.start();
  const own = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database, ...env };
  const reason = /OPENAI_API_KEY is set, but no model is chosen\. Choose one with `agentd setup`/;
  assert.match(gateway.stdout(), /and webhooks and scheduled jobs fail/);

  assert.equal((await keptAgentd(["webhook", "subscribe", "hook", "--prompt", "Say hi."], own)).code, 0);
  assert.equal((await keptAgentd(["webhook", "test", "hook"], own)).code, 0);
  let deliveries = "";
  while (!/"status": ?"failed"/.test(deliveries)) {
    assert.doesNotMatch(deliveries, /"status": ?"delivered"/);
    deliveries = (await keptAgentd(["webhook", "deliveries", "list", "--json"], own)).stdout;
  }
  assert.match(deliveries, reason);

  const made = await keptAgentd(["cron", "create", "every 1h", "Say hi.", "--name", "hi"], own);
  assert.equal(made.code, 0, made.stderr);
  const ran = await keptAgentd(["cron", "run", "hi", "--wait"], own);
  assert.equal(ran.code, 1);
  assert.match(ran.stdout + ran.stderr, reason);
});

test("config set, config check, model set and the start agree about a default model without its key", async () => {
  await using made = await createHome();
  const env = { AGENTD_HOME: made.home };
  const missing =
    /openai:gpt-5\.1 cannot answer: the provider openai has no API key, and OPENAI_API_KEY is not set/;
  const chosen = await keptAgentd(["model", "set", "openai:gpt-5.1"], env);
  assert.equal(chosen.code, 1);
  assert.match(chosen.stderr, missing);
  const set = await keptAgentd(["config", "set", "model.default", "openai:gpt-5.1"], env);
  assert.match(set.stderr, missing);
  const check = await keptAgentd(["config", "check"], env);
  assert.equal(check.code, 1);
  assert.match(check.stderr, missing);
  const start = await agentd(["gateway", "--port", "0"], env);
  assert.equal(start.code, 1);
  assert.match(start.stderr, missing);
  const keyed = { ...env, OPENAI_API_KEY: "a-key-of-nobody-at-all" };
  assert.equal((await keptAgentd(["config", "check"], keyed)).code, 0);
  assert.equal((await keptAgentd(["model", "set", "openai:gpt-5.1"], keyed)).code, 0);
});

test("a provider of the configuration without a key is refused in the same words", async () => {
  await using made = await createHome();
  const config = { model: { default: "work:claude-x", providers: { work: { type: "anthropic" } } } };
  await writeFile(join(made.home, "config.yaml"), JSON.stringify(config));
  const env = { AGENTD_HOME: made.home };
  for (const words of [
    ["config", "check"],
    ["gateway", "--port", "0"],
    ["model", "show"],
  ]) {
    const { code, stderr } = await keptAgentd(words, env);
    assert.equal(code, 1, words.join(" "));
    assert.match(
      stderr,
      /work:claude-x cannot answer: the provider work has no API key, and ANTHROPIC_API_KEY/,
    );
  }
});

test("a model that cannot use tools fails its test in plain words", async () => {
  const body = JSON.stringify({
    error: { message: "registry.ollama.ai/library/deaf does not support tools" },
  });
  await using server = await startModelServer([{ status: 400, body }, { pieces: [{ finish: "stop" }] }]);
  await using made = await createHome();
  const box = { type: "openai_compatible", base_url: server.baseUrl };
  await writeFile(
    join(made.home, "config.yaml"),
    JSON.stringify({ model: { default: "box:deaf", providers: { box } } }),
  );
  const refused = await keptAgentd(["model", "test"], { AGENTD_HOME: made.home });
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /box:deaf failed: The provider box does not support tools with the model "deaf"/,
  );
  const empty = await keptAgentd(["model", "test"], { AGENTD_HOME: made.home });
  assert.equal(empty.code, 1);
  assert.match(empty.stderr, /box:deaf answered without any text/);
});

test("model detect --url finds the model servers of the gateway's machine, and adds them to its configuration", async () => {
  await using server = await startModelServer(() => saying("hello from the box"), {
    "GET /v1/models": async (response) => void response.end(JSON.stringify({ data: [{ id: "m" }] })),
  });
  await using place = await createGatewayPlace();
  await writeFile(
    join(place.home, "config.yaml"),
    JSON.stringify({ model: { local_servers: { box: server.baseUrl } } }),
  );
  const { url } = await place.start();
  await using client = await createHome();
  const env = { AGENTD_HOME: client.home, API_SERVER_KEY: await place.key() };
  const remote = await keptAgentd(["model", "detect", "--json", "--url", url], env);
  const here = await keptAgentd(["model", "detect", "--json"], { AGENTD_HOME: place.home });
  assert.equal(remote.code, 0, remote.stderr);
  assert.deepEqual(JSON.parse(remote.stdout), JSON.parse(here.stdout));
  const { servers } = JSON.parse(remote.stdout) as { readonly servers: readonly { readonly name: string }[] };
  assert.deepEqual(
    servers.find(({ name }) => name === "box"),
    { name: "box", base_url: server.baseUrl, models: ["m"] },
  );
  const added = await keptAgentd(["model", "detect", "--add", "--url", url], env);
  assert.match(added.stdout, /^box .*\(added\)\n {2}box:m$/m, added.stderr);
  const setting = ["config", "get", "model.providers.box.base_url"];
  assert.equal((await keptAgentd(setting, { AGENTD_HOME: place.home })).stdout, `${server.baseUrl}\n`);
  assert.equal(
    (await keptAgentd(setting, { AGENTD_HOME: client.home })).stdout.includes(server.baseUrl),
    false,
  );
});
