/** The variables of the home over the control API. */
import assert from "node:assert/strict";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { FeedEvent, Variable } from "../../../generated/http/client/types.gen.ts";
import { list, storedEvents } from "../../harness/control.ts";
import { assertError, scenario } from "../../harness/scenario.ts";
import { startTestService, type TestService } from "../../harness/service.ts";

const VARIABLES = "/v1/variables";
const folder = (service: TestService) => join(service.home, "agentd");
const envFile = (service: TestService) => join(folder(service), ".env");

async function writeHome(service: TestService, env: string, config = ""): Promise<void> {
  await mkdir(folder(service), { recursive: true });
  await writeFile(envFile(service), env, { mode: 0o600 });
  await writeFile(join(folder(service), "config.yaml"), config, { mode: 0o600 });
}

const put = (service: TestService, name: string, value: unknown) =>
  service.request(`${VARIABLES}/${name}`, {
    method: "PUT",
    body: JSON.stringify({ value }),
    headers: { "content-type": "application/json" },
  });
const remove = (service: TestService, name: string) =>
  service.request(`${VARIABLES}/${name}`, { method: "DELETE" });
const shown = (all: readonly Variable[]) =>
  all.map(({ name, is_set, source, used_by }) => [name, is_set, source, used_by]);

const CONFIG = `version: 1
model:
  providers:
    mine: { type: openai_compatible, base_url: http://127.0.0.1:9/v1, api_key: "env:MINE_KEY" }
`;

scenario(
  "listVariables",
  200,
  {
    title: "the variables of the file and those that the configuration refers to, without values",
    env: { FROM_PROCESS: "process-value-0123456789" },
  },
  async (service) => {
    const env =
      "MY_TOKEN=file-value-0123456789\nFROM_PROCESS=hidden-by-the-process\nTELEGRAM_BOT_TOKEN=1:abc\n";
    await writeHome(service, env, CONFIG);
    const all = await list<Variable>(service, `${VARIABLES}?limit=2`);
    assert.deepEqual(shown(all), [
      ["FROM_PROCESS", true, "process", []],
      ["MINE_KEY", false, null, ["model.providers.mine.api_key"]],
      ["MY_TOKEN", true, "file", []],
      ["TELEGRAM_BOT_TOKEN", true, "file", ["platforms.telegram.extra.token"]],
    ]);
    const text = await (await service.request(VARIABLES)).text();
    assert.doesNotMatch(text, /value-0123456789|hidden-by|1:abc/);
  },
);

scenario("listVariables", 400, { title: "a cursor that names no variable" }, async (service) => {
  await assertError(await service.request(`${VARIABLES}?after=NONE`), 400, "invalid_cursor");
});

scenario(
  "putVariable",
  204,
  { title: "sets a variable at once, keeps the other lines, and names its author in the feed" },
  async (service) => {
    await writeHome(service, "# Mine.\nA=1\n");
    const response = await put(service, "MY_SETTING", "a value with 'quotes'");
    assert.deepEqual([response.status, await response.text()], [204, ""]);
    assert.equal(
      await readFile(envFile(service), "utf8"),
      "# Mine.\nA=1\n# secret\nMY_SETTING=\"a value with 'quotes'\"\n",
    );
    assert.equal((await stat(envFile(service))).mode & 0o777, 0o600);
    assert.equal((await put(service, "A", "2")).status, 204);
    assert.deepEqual(shown(await list<Variable>(service, VARIABLES)), [
      ["A", true, "file", []],
      ["MY_SETTING", true, "file", []],
    ]);
    const events = await storedEvents<FeedEvent>(service, "?types=config.updated");
    assert.deepEqual(
      events.map(({ actor, data }) => [actor, data["changed"]]),
      [
        ["default", ["env:MY_SETTING"]],
        ["default", ["env:A"]],
      ],
    );
    assert.doesNotMatch(JSON.stringify(events), /quotes/);
  },
);

scenario("putVariable", 400, { title: "names and values that the file cannot hold" }, async (service) => {
  for (const [name, value, code] of [
    ["1A", "x", "invalid_request"],
    ["A-B", "x", "invalid_request"],
    ["A", "", "invalid_request"],
    ["A", 1, "invalid_request"],
    ["A", "two\nlines", "invalid_config"],
    ["A", `all of '"\``, "invalid_config"],
  ] as const)
    await assertError(await put(service, name, value), 400, code);
});

scenario(
  "putVariable",
  409,
  { title: "a variable of the process overrides the file: variable_is_static", env: { MINE: "1" } },
  async (service) => {
    await assertError(await put(service, "MINE", "2"), 409, "variable_is_static");
    await assertError(await remove(service, "MINE"), 409, "variable_is_static");
  },
);

scenario(
  "deleteVariable",
  204,
  { title: "removes every line that sets it, with its mark, and nothing else" },
  async (service) => {
    await writeHome(service, "A=1\n# secret\nB=2\n# B=3 is no more\nexport B='4'\nC=5\n");
    assert.equal((await remove(service, "B")).status, 204);
    assert.equal(await readFile(envFile(service), "utf8"), "A=1\n# B=3 is no more\nC=5\n");
    assert.deepEqual(
      (await list<Variable>(service, VARIABLES)).map(({ name }) => name),
      ["A", "C"],
    );
  },
);

test("a variable is removed with all lines of its value", async () => {
  await using service = await startTestService();
  await writeHome(service, 'A=1\r\n# secret\r\nB="two\r\nlines"\r\nC=3');
  assert.equal((await remove(service, "B")).status, 204);
  assert.equal(await readFile(envFile(service), "utf8"), "A=1\r\nC=3");
  assert.equal((await remove(service, "C")).status, 204);
  assert.equal(await readFile(envFile(service), "utf8"), "A=1\r\n");
});

scenario(
  "deleteVariable",
  400,
  { title: "a line inside the value of another variable stays" },
  async (service) => {
    const text = 'A="1\nB=2\n3"\nB=4\n';
    await writeHome(service, text);
    await assertError(await remove(service, "B"), 400, "invalid_config");
    assert.equal(await readFile(envFile(service), "utf8"), text);
  },
);

scenario("deleteVariable", 404, { title: "a variable that the file does not set" }, async (service) => {
  await writeHome(service, "A=1\n");
  await assertError(await remove(service, "B"), 404, "variable_not_found");
});

scenario(
  "deleteVariable",
  409,
  { title: "a variable of the process", env: { MINE: "1" } },
  async (service) => {
    await assertError(await remove(service, "MINE"), 409, "variable_is_static");
  },
);

test("a server without keys neither shows nor changes variables: 403 auth_required", async () => {
  await using service = await startTestService({ requireKey: false });
  for (const response of [
    await service.request(VARIABLES),
    await put(service, "A", "1"),
    await remove(service, "A"),
  ])
    await assertError(response, 403, "auth_required");
});
