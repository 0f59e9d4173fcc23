import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { ConfigView, McpServerList } from "../../generated/http/client/types.gen.ts";
import { startConsole, takeRefusals, type ConsoleTest } from "../harness/browser.ts";
import { calling, saying, startModelServer } from "../harness/openai-server.ts";

async function fileOf(shown: ConsoleTest): Promise<string> {
  return readFile(join(shown.place.home, "config.yaml"), "utf8");
}

async function changeElsewhere(shown: ConsoleTest, patch: object): Promise<void> {
  const version = (await shown.request("/v1/config")).headers.get("etag") ?? "";
  const init = { method: "PATCH", body: JSON.stringify(patch), headers: { "if-match": version } };
  assert.equal((await shown.request("/v1/config", init)).status, 200);
}

async function configOf(shown: ConsoleTest): Promise<ConfigView> {
  return (await (await shown.request("/v1/config")).json()) as ConfigView;
}

test("a changed setting is written alone, after its diff was shown", async () => {
  await using shown = await startConsole({ config: { log: { format: "json" }, agent: { max_steps: 20 } } });
  const page = await shown.open("/settings/log");
  const bodies: unknown[] = [];
  page.on("request", (request) => request.method() === "PATCH" && bodies.push(request.postDataJSON()));
  await page.getByLabel("log.level").selectOption("warn");
  await page.getByRole("button", { name: "Save 1 change" }).click();
  const dialog = page.getByRole("dialog", { name: "Save these changes?" });
  await dialog.getByLabel("Your changes").getByText("+ log.level: warn").waitFor();
  await dialog.getByText("log.level in use at once").waitFor();
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved, and in use.").waitFor();
  assert.deepEqual(bodies, [{ log: { level: "warn" } }]);
  const { file } = await configOf(shown);
  assert.deepEqual(file?.["log"], { format: "json", level: "warn" });
  assert.deepEqual(file?.["agent"], { max_steps: 20 });
});

test("a change by someone else is shown beside one's own, and nothing is lost", async () => {
  await using shown = await startConsole({ config: { log: { format: "json" } } });
  const page = await shown.open("/settings/log");
  await page.getByLabel("log.level").selectOption("warn");
  await changeElsewhere(shown, { log: { level: "error" }, agent: { max_steps: 7 } });
  await page.getByText("Someone else has changed the configuration.").waitFor();
  await page.getByRole("button", { name: "Save 1 change" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog", { name: "The configuration was changed meanwhile" });
  const theirs = dialog.getByLabel("Changes by someone else");
  await theirs.getByText("+ log.level: error").waitFor();
  await theirs.getByText("+ agent.max_steps: 7").waitFor();
  await dialog.getByText("You both changed log.level").waitFor();
  const yours = dialog.getByLabel("Your changes");
  await yours.getByText("- log.level: error").waitFor();
  await yours.getByText("+ log.level: warn").waitFor();
  assert.equal((await configOf(shown)).file?.["log"]?.["level" as never], "error");
  await dialog.getByRole("button", { name: "Save mine on top" }).click();
  await page.getByText("Saved, and in use.").waitFor();
  const { file } = await configOf(shown);
  assert.deepEqual(file?.["log"], { format: "json", level: "warn" });
  assert.deepEqual(file?.["agent"], { max_steps: 7 });
  takeRefusals(shown, 412);
});

test("a mistake is said at its field, and what needs a restart is named until then", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/settings/sessions");
  await page.getByLabel("sessions.max_queue").fill("-4");
  await page.getByRole("button", { name: "Save 1 change" }).click();
  const refused = page.waitForResponse((response) => response.request().method() === "PATCH");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  assert.equal((await refused).status(), 400);
  await page.getByRole("dialog").getByText("Nothing was changed.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await page.locator(".field-invalid").getByText("sessions.max_queue").waitFor();
  await page.getByLabel("sessions.max_queue").fill("40");
  await page.getByRole("button", { name: "Save 1 change" }).click();
  await page.getByRole("dialog").getByText("sessions.max_queue needs a restart").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByText("In the file, and in use after a restart: sessions.max_queue").waitFor();
  takeRefusals(shown, 400);
});

const SECRETS = {
  webhook: "canary-webhook-secret-1f0b7",
  search: "canary-search-key-77aa1",
  provider: "canary-provider-key-9921c",
  header: "canary-header-value-51d3e",
  telegram: "4711:canary-telegram-token-8be02",
};

test("no secret is in any response to the page, and one is replaced without being shown", async () => {
  await using shown = await startConsole({
    config: {
      api_server: { webhook_secret: SECRETS.webhook },
      web: { search: { provider: "brave", api_key: SECRETS.search } },
      platforms: { telegram: { token: SECRETS.telegram, enabled: false } },
      model: {
        providers: {
          hidden: {
            type: "openai_compatible",
            base_url: "http://127.0.0.1:9/v1",
            api_key: SECRETS.provider,
            headers: { "x-team": SECRETS.header },
          },
        },
      },
    },
  });
  const page = await shown.open();
  const texts: Promise<string>[] = [];
  page.on("response", (response) => {
    if (/\/(v1|api)\//.test(response.url())) texts.push(response.text().catch(() => ""));
  });
  const sections = ["model", "web", "api_server", "platforms", "models", "keys", "browsers"];
  for (const path of [...sections.map((name) => `/settings/${name}`), "/platforms", "/logs", "/usage"]) {
    await page.goto(path);
    await page.locator("h1").waitFor();
    await page.getByRole("status").filter({ hasText: "Loading" }).first().waitFor({ state: "detached" });
  }
  await page.goto("/settings/platforms?q=telegram.token");
  await page.getByText("set", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Replace platforms.telegram.token" }).click();
  const dialog = page.getByRole("dialog", { name: "Set platforms.telegram.token" });
  await dialog.getByLabel("New value").fill("0815:canary-new-token-3cd21");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  const env = await readFile(join(shown.place.home, ".env"), "utf8");
  assert.match(env, /^TELEGRAM_BOT_TOKEN=.*canary-new-token-3cd21/m);
  const all = (await Promise.all(texts)).join("\n") + (await page.content());
  assert.ok(texts.length > 15, `${texts.length} responses were read`);
  const key = await shown.place.key();
  for (const secret of [...Object.values(SECRETS), "canary-new-token", key]) {
    assert.equal(all.includes(secret), false, `${secret.slice(0, 12)}… is in a response`);
  }
});

test("a model is tested with a tool call and becomes the default", async () => {
  await using models = await startModelServer(({ body }) =>
    body.tools?.length && !body.messages.some(({ role }) => role === "tool")
      ? calling({ id: "call_1", name: String(body.tools[0]?.function["name"]), json: "{}" })
      : saying("It works."),
  );
  const local = {
    type: "openai_compatible",
    base_url: models.baseUrl,
    models: ["test-model", "other-model"],
  };
  await using shown = await startConsole({ config: { model: { providers: { local } } } });
  const page = await shown.open("/settings/models");
  await page.getByRole("button", { name: "Test local:test-model" }).click();
  const dialog = page.getByRole("dialog", { name: "Test a model" });
  await dialog.getByRole("button", { name: "Test", exact: true }).click();
  await dialog.getByText("it answered").waitFor();
  await dialog.getByText("it called the tool").waitFor();
  await page.keyboard.press("Escape");
  const row = page.getByRole("row").filter({ hasText: "local:other-model" });
  await row.getByRole("button", { name: "Use as default local:other-model" }).click();
  await row.getByText("default", { exact: true }).waitFor();
  assert.match(await fileOf(shown), /default: local:other-model|"default": ?"local:other-model"/);
});

test("a key is shown once, changed, rotated and revoked", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/settings/keys");
  const opens = async (key: string) =>
    (await fetch(`${shown.url}/v1/runs`, { headers: { authorization: `Bearer ${key}` } })).status;
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByLabel("Name", { exact: true }).fill("dashboard");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const shownOnce = page.getByRole("dialog", { name: "The key dashboard" });
  const first = (await shownOnce.getByLabel("Value of the key").innerText()).trim();
  assert.equal(await opens(first), 200);
  await shownOnce.getByRole("button", { name: "Done" }).click();
  await page.reload();
  const row = page.getByRole("row").filter({ hasText: "dashboard" });
  await row.waitFor();
  assert.equal((await page.content()).includes(first), false);
  await row.getByRole("button", { name: "Change" }).click();
  await page.getByRole("dialog").getByRole("checkbox", { name: /^runs/ }).check();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await row.getByText("read, runs").waitFor();
  await row.getByRole("button", { name: "Rotate" }).click();
  await page.getByRole("dialog").getByLabel("The present value still works").selectOption("Not at all");
  await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
  const second = (await page.getByLabel("Value of the key").innerText()).trim();
  await page.getByRole("button", { name: "Done" }).click();
  assert.deepEqual([await opens(first), await opens(second)], [401, 200]);
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await row.waitFor({ state: "detached" });
  assert.equal(await opens(second), 401);
});

test("signing out everywhere ends the other browser too", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/settings/browsers");
  await page.getByText("this one").waitFor();
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out everywhere" }).click();
  await page.waitForURL("**/login**");
  const { data } = (await (await shown.request("/api/console/sessions")).json()) as {
    readonly data: readonly unknown[];
  };
  assert.deepEqual(data, []);
});

test("the servers of MCP are listed with their tools and with what went wrong, and are connected again", async () => {
  const mcp = { servers: { nothing: { command: "/nowhere/at/all" } } };
  await using shown = await startConsole({ config: { mcp } });
  const page = await shown.open("/settings/mcp-servers");
  const row = page.getByRole("row").filter({ hasText: "nothing" });
  await row.getByText("failed", { exact: true }).waitFor();
  const { data } = (await (await shown.request("/v1/mcp/servers")).json()) as McpServerList;
  await row.getByText(data[0]!.error!).waitFor();
  await page.getByRole("button", { name: "Connect again" }).click();
  await page.getByText("1 server failed.").waitFor();
});

test("without a server of MCP the page says how to add one", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/settings/mcp-servers");
  await page.getByRole("heading", { name: "No MCP server is configured" }).waitFor();
});
