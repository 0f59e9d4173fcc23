import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { configSchema } from "../../../generated/config/schema.gen.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { SchemaSet } from "../../../src/base/schema.ts";
import { loadConfig, readConfig, requireValid } from "../../../src/config/config.ts";
import { createHome } from "./home-folder.ts";

/** `line:column path message` of every issue of `text`. */
function issuesOf(text: string, env = {}): readonly string[] {
  return readConfig(text, env).issues.map(
    ({ line, column, path, message }) => `${line ?? "-"}:${column ?? "-"} ${path} ${message}`,
  );
}

describe("readConfig", () => {
  for (const text of [
    "",
    "# only a comment\n",
    "---\n",
    "{}",
    "version: 1",
    "model:\napi_server:\n  # port: 1\n",
  ]) {
    it(`gives the complete defaults for ${JSON.stringify(text)}`, () => {
      const { config, issues } = readConfig(text);
      assert.deepEqual(issues, []);
      assert.equal(new SchemaSet({}).check(configSchema, config), undefined);
      assert.equal(config.api_server.port, 8642);
      assert.ok(config.agent.toolsets.includes("terminal") && config.agent.toolsets.includes("files"));
      assert.deepEqual(config.database, {});
    });
  }

  it("gives defaults to parts of the file, too", () => {
    const { config } = readConfig("model: { providers: { mine: { type: openai } } }");
    assert.equal(config.model.providers["mine"]?.timeout_seconds, 120);
  });

  it("freezes everything", () => {
    const { config } = readConfig("agent: { toolsets: [files] }");
    assert.throws(() => Object.assign(config.agent, { max_steps: 1 }), TypeError);
    assert.throws(() => config.agent.toolsets.push("x"), TypeError);
  });

  const cases: readonly (readonly [string, string, readonly string[]])[] = [
    [
      "an unknown key with the nearest one",
      "api_server:\n  prot: 1\n",
      ['2:3 api_server.prot is not a known key; did you mean "port"?'],
    ],
    [
      "an unknown section",
      "log: { level: info }\nlimit: {}\n",
      ['2:1 limit is not a known key; did you mean "limits"?'],
    ],
    ["a wrong type", "api_server:\n  port: '8642'\n", ["2:9 api_server.port must be an integer"]],
    ["a number out of range", "api_server: { port: 65536 }", ["1:21 api_server.port must be at most 65535"]],
    ["a section that is a scalar", "log: loud", ["1:6 log must be an object"]],
    [
      "a wrong choice with all of them",
      "# first\nlog:\n  level: loud\n",
      ['3:10 log.level must be one of "debug", "info", "warn", "error"'],
    ],
    [
      "a missing key at what should hold it",
      "api_server:\n  keys:\n    - name: ci\n      key: 0123456789abcdef\n",
      ["3:7 api_server.keys[0].scopes is required"],
    ],
    ["a file that is a list", "- a\n", ["1:1  must hold keys and values"]],
    [
      "a newer version",
      "version: 2\nnonsense: true\n",
      ["1:10 version 2 is newer than this agentd, which supports versions up to 1; install a newer agentd"],
    ],
    [
      "a compatible provider without an address",
      "model:\n  providers:\n    mine:\n      type: openai_compatible\n",
      ["4:7 model.providers.mine.base_url is required for the type openai_compatible"],
    ],
    [
      "a zone that does not exist",
      "log: {}\ntimezone: Europe/Berlni\n",
      ['2:11 timezone is not the name of a time zone; did you mean "Europe/Berlin"?'],
    ],
    [
      "a zone that is an offset, which knows no daylight-saving time",
      "timezone: '+02:00'\n",
      ["1:11 timezone is not the name of a time zone; names look like Europe/Berlin"],
    ],
    ["a short key", "api_server: { key: abc }", ["1:20 api_server.key must have at least 16 characters"]],
  ];
  for (const [title, text, expected] of cases) {
    it(`reports ${title}, with line and column`, () => assert.deepEqual(issuesOf(text), expected));
  }

  for (const text of [
    "a: [",
    "a: 'x",
    "\tb: 1",
    "log: {level: info}\nlog: {}\n",
    "a: 1\n---\nb: 1\n",
    "a: *nowhere\n",
  ]) {
    it(`takes nothing from broken YAML (${JSON.stringify(text)})`, () => {
      const { config, issues } = readConfig(text);
      assert.ok(issues.length > 0);
      assert.ok(
        issues.every(({ line, severity }) => line !== undefined && severity === "error"),
        JSON.stringify(issues),
      );
      assert.deepEqual(config, readConfig("").config);
    });
  }

  it("uses the valid parts beside wrong ones", () => {
    const { config } = readConfig("log: { level: loud }\napi_server: { port: 9000, host: 5 }\nfoo: 1\n");
    assert.deepEqual(
      [config.api_server.port, config.api_server.host, config.log.level],
      [9000, "127.0.0.1", "info"],
    );
  });

  it("reports every problem at once, however many exist", () => {
    const text = Array.from({ length: 40 }, (_, index) => `wrong_${index}: 1`).join("\n");
    assert.equal(new Set(issuesOf(text)).size, 40);
  });

  it("terminates on names that no message can show", () => {
    const { config, issues } = readConfig(`${"x".repeat(500)}: 1\n"a\\nb": 2\n__proto__: { port: 1 }\n`);
    assert.ok(issues.length > 0);
    assert.deepEqual(config, readConfig("").config);
  });

  it("refuses aliases that grow without bound", () => {
    const levels = Array.from(
      { length: 12 },
      (_, index) => `l${index + 1}: &l${index + 1} [${`*l${index},`.repeat(10)}]`,
    );
    assert.match(issuesOf(`l0: &l0 [x]\n${levels.join("\n")}\n`).join(), /Excessive alias count/);
  });

  it("never shows the value in an issue", () => {
    const text = "api_server:\n  key: [hunter2hunter2hunter2]\n  keys: hunter2hunter2hunter2\n";
    assert.doesNotMatch(JSON.stringify(readConfig(text).issues), /hunter2/);
  });
});

describe("the environment", () => {
  it("overrides the file", () => {
    const { config } = readConfig("api_server: { port: 1, host: a }\nlog: { level: warn }\n", {
      AGENTD_PORT: "0",
      AGENTD_HOST: "0.0.0.0",
      AGENTD_MODEL: "openai:gpt-5",
      AGENTD_LOG_LEVEL: "debug",
      AGENTD_DATABASE_URL: "postgres://db/agentd",
      API_SERVER_KEY: "0123456789abcdef",
      API_SERVER_WEBHOOK_SECRET: "env:HOOK",
    });
    assert.deepEqual(
      [config.api_server.port, config.api_server.host, config.model.default, config.log.level],
      [0, "0.0.0.0", "openai:gpt-5", "debug"],
    );
    assert.deepEqual(
      [config.database.url, config.api_server.key, config.api_server.webhook_secret],
      ["postgres://db/agentd", "0123456789abcdef", "env:HOOK"],
    );
  });

  it("sets when jobs run and their limits", () => {
    const { config, issues } = readConfig("timezone: Europe/Berlin\ncron: { max_parallel_jobs: 4 }\n", {
      AGENT_TIMEZONE: "America/Toronto",
      AGENT_CRON_TIMEOUT: "0",
      AGENT_CRON_MAX_PARALLEL: "1",
      AGENT_CRON_SCRIPT_TIMEOUT: "90",
    });
    assert.deepEqual(issues, []);
    const {
      inactivity_seconds: inactivity,
      max_parallel_jobs: parallel,
      script_timeout_seconds: script,
    } = config.cron;
    assert.deepEqual([config.timezone, inactivity, parallel, script], ["America/Toronto", 0, 1, 90]);
  });

  it("is reported under the variable's name when it is wrong, and the file's value no longer applies", () => {
    assert.deepEqual(issuesOf("", { AGENTD_PORT: "80a" }), [
      "-:- AGENTD_PORT must be a whole number from 0 to 65535",
    ]);
    assert.deepEqual(issuesOf("", { API_SERVER_KEY: "short" }), [
      "-:- API_SERVER_KEY must have at least 16 characters",
    ]);
    assert.deepEqual(issuesOf("", { API_SERVER_WEBHOOK_SECRET: "short" }), [
      "-:- API_SERVER_WEBHOOK_SECRET must have at least 16 characters",
    ]);
    assert.match(
      issuesOf("", { AGENT_TIMEZONE: "Mars/Olympus" }).join(),
      /AGENT_TIMEZONE is not the name of a/,
    );
    assert.match(issuesOf("", { AGENT_CRON_MAX_PARALLEL: "0" }).join(), /AGENT_CRON_MAX_PARALLEL must be/);
    assert.match(
      issuesOf("", { AGENTD_LOG_LEVEL: "loud" }).join(),
      /AGENTD_LOG_LEVEL must be debug, info, warn or error/,
    );
  });

  it("is not blamed for problems of the file", () => {
    assert.deepEqual(issuesOf("api_server: { port: x }", { AGENTD_PORT: "99" }), [
      "1:21 api_server.port must be an integer",
    ]);
  });

  it("treats an empty variable as unset", () => {
    assert.deepEqual(issuesOf("", { AGENTD_PORT: "", API_SERVER_KEY: "" }), []);
  });
});

describe("loadConfig", () => {
  it("needs no file and no folder", async () => {
    const loaded = await loadConfig({ home: "/nonexistent/agentd", env: {} });
    assert.deepEqual(
      [loaded.exists, loaded.path, loaded.issues],
      [false, "/nonexistent/agentd/config.yaml", []],
    );
  });

  it("puts the process's environment over .env over the file", async () => {
    await using made = await createHome({
      ".env": "AGENTD_PORT=2\nAGENTD_HOST=from-env-file\nOTHER=1\n",
      "config.yaml": "api_server: { port: 1, host: from-file, model_name: m }\n",
    });
    const { config, env } = await loadConfig({ home: made.home, env: { AGENTD_PORT: "3", AGENTD_HOST: "" } });
    assert.deepEqual(
      [config.api_server.port, config.api_server.host, config.api_server.model_name],
      [3, "from-env-file", "m"],
    );
    assert.equal(env["OTHER"], "1");
  });

  it("lists every error for the service, which does not start", async () => {
    await using made = await createHome({ "config.yaml": "log: { level: loud }\nfoo: 1\n" });
    const loaded = await loadConfig({ home: made.home, env: {} });
    assert.throws(
      () => requireValid(loaded),
      (error) =>
        error instanceof ServiceError &&
        error.code === "invalid_config" &&
        /config\.yaml:1:15: log\.level must be one of/.test(error.message) &&
        /config\.yaml:2:1: foo is not a known key/.test(error.message),
    );
  });

  it("gives a valid configuration to the service", async () => {
    const loaded = await loadConfig({ home: "/nonexistent", env: {} });
    assert.equal(requireValid(loaded), loaded.config);
  });
});

describe("a secret that cannot be hidden", () => {
  it("is a warning that names its variable and never its value", async () => {
    await using made = await createHome({
      ".env":
        "DB_PASSWORD=production\nMY_TOKEN=abc123\nCOLOUR=violet\nMY_FLAG=production\nFINE_SECRET=long-enough-0\n",
      "config.yaml": "model: { providers: { p: { type: openai, api_key: env:COLOUR } } }",
    });
    const { issues } = await loadConfig({ home: made.home, env: { ELSEWHERE_TOKEN: "x" } });
    assert.deepEqual(
      issues.map(({ severity, path, message }) => `${severity}: ${path} ${message}`).toSorted(),
      [
        "warning: COLOUR has fewer than 8 characters",
        "warning: DB_PASSWORD is an ordinary word",
        "warning: MY_TOKEN has fewer than 8 characters",
      ].map((text) => `${text}, so it cannot be hidden in logs and answers. Choose a longer, random value`),
    );
  });
});
