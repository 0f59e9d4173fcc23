/** The gateway as a process of its own: the environment alone decides whether there are traces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startCollector } from "../../harness/collector.ts";
import { createGatewayPlace, type GatewayPlace, type GatewayProcess } from "../../harness/gateway.ts";

async function say(place: GatewayPlace, gateway: GatewayProcess): Promise<Response> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${await place.key()}`, "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "hi" }] }),
  });
  assert.equal(response.status, 200);
  await response.text();
  return response;
}

test("the standard variables turn traces on, and a graceful stop sends the last ones", async () => {
  await using collector = await startCollector();
  await using place = await createGatewayPlace({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=a%20b",
    OTEL_SERVICE_NAME: "my-gateway",
  });
  const gateway = await place.start();
  const response = await say(place, gateway);
  assert.equal(await gateway.kill("SIGTERM"), 0);
  const request = collector.span("POST /v1/chat/completions");
  assert.deepEqual(collector.path(collector.span("invoke_agent agentd")), [
    "POST /v1/chat/completions",
    "invoke_agent agentd",
  ]);
  assert.ok(response.headers.get("traceparent")?.includes(request.traceId));
  assert.equal(request.resource["service.name"], "my-gateway");
  assert.equal(collector.requests[0]?.headers["x-tenant"], "a b");
});

test("a collector that does not answer delays a stop by a few seconds at most", async () => {
  await using collector = await startCollector(() => {});
  await using place = await createGatewayPlace({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  const gateway = await place.start();
  await say(place, gateway);
  // The collector keeps silent for ever: only the gateway's own patience ends the wait.
  assert.equal(await gateway.kill("SIGTERM"), 0);
  assert.match(gateway.stderr(), /spans could not be sent/);
});

/** Reports on stderr every module that loads and holds code of the vendor's, or imports it. */
const spy = `import { registerHooks } from "node:module";
registerHooks({
  load(url, context, next) {
    const found = next(url, context);
    // The names of the dependencies in package.json are not code.
    const code = String(found.source ?? "").replace(/"@opentelemetry[/][a-z-]+": ?"/g, "");
    if (code.includes("@opentelemetry/")) process.stderr.write("LOADED " + url + "\\n");
    return found;
  },
});`;
const isDeno = "Deno" in globalThis;

test(
  "without tracing, none of the vendor's modules is loaded",
  { skip: isDeno && "Deno has no such hooks" },
  async () => {
    const NODE_OPTIONS = `--import data:text/javascript,${encodeURIComponent(spy)}`;
    await using collector = await startCollector();
    for (const [env, isOn] of [
      [{ NODE_OPTIONS }, false],
      [{ NODE_OPTIONS, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }, true],
    ] as const) {
      await using place = await createGatewayPlace(env);
      const gateway = await place.start();
      const response = await say(place, gateway);
      await gateway.kill("SIGTERM");
      assert.equal(/LOADED .*\/otlp[.-]/.test(gateway.stderr()), isOn);
      assert.equal(gateway.stderr().includes("LOADED"), isOn, gateway.stderr());
      assert.equal(response.headers.has("traceparent"), isOn);
    }
  },
);
