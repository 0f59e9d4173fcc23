import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { createHome } from "../../unit/config/home-folder.ts";
import { freePort } from "./free-port.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

describe("agentd", () => {
  it("shows its commands with --help, on stdout", async () => {
    const { code, stdout, stderr } = await agentd(["--help"]);
    assert.deepEqual([code, stderr], [0, ""]);
    for (const word of [
      "Usage: agentd <command>",
      "gateway",
      "config",
      "spec",
      "version",
      "--profile <name>",
      "--help",
    ]) {
      assert.ok(stdout.includes(word), word);
    }
  });

  it("prints the usage on stderr and exits with 2 without a command, or with an unknown one", async () => {
    const bare = await agentd([]);
    assert.deepEqual([bare.code, bare.stdout], [2, ""]);
    assert.match(
      bare.stderr,
      /^Name a command\.\nUsage: agentd <command> \[options\]\nTry `agentd --help`\.\n$/,
    );
    const wrong = await keptAgentd(["cnofig", "get"]);
    assert.deepEqual([wrong.code, wrong.stdout], [2, ""]);
    assert.match(wrong.stderr, /^Unknown command "cnofig"; did you mean "config"\?/);
    // A name that every object has.
    const inherited = await keptAgentd(["constructor"]);
    assert.deepEqual([inherited.code, inherited.stdout], [2, ""]);
    assert.match(inherited.stderr, /^Unknown command "constructor"/);
  });

  for (const [words, usage] of [
    [["config", "--help"], "Usage: agentd config <command> [options]"],
    [["config", "set", "-h"], "Usage: agentd config set <key> <value> [options]"],
    [["spec", "--help"], "Usage: agentd spec [name] [options]"],
    [["version", "--help", "--nonsense"], "Usage: agentd version [options]"],
  ] as const) {
    it(`shows the usage of ${words.join(" ")}`, async () => {
      const { code, stdout } = await keptAgentd(words);
      assert.equal(code, 0);
      assert.ok(stdout.includes(usage), stdout);
      assert.ok(!stdout.includes("undefined") && !stdout.includes("\u001b"), stdout);
    });
  }

  it("prints the usage of a command with help, as with --help, and suggests for an unknown one", async () => {
    for (const words of [[], ["config"], ["cron", "create"]]) {
      const help = await keptAgentd(["help", ...words]);
      assert.deepEqual(help, await keptAgentd([...words, "--help"]));
    }
    const wrong = await keptAgentd(["help", "config", "gte"]);
    assert.deepEqual([wrong.code, wrong.stdout], [2, ""]);
    assert.match(wrong.stderr, /^Unknown command "gte"; did you mean "get"\?\n/);
  });

  it("refuses an invalid profile, also for a command that does not use the home", async () => {
    const { code, stdout, stderr } = await keptAgentd(["version", "--profile", "x/y"]);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /^The profile name "x\/y" is not allowed\./);
  });

  it("names its commands the way it was called", async () => {
    const npx = await keptAgentd(["cnofig"], { npm_lifecycle_event: "npx" });
    assert.match(npx.stderr, /^Try `npx agentd --help`\.$/m);
    const none = await keptAgentd(["open", "--print", "--port", await freePort()], {
      npm_lifecycle_event: "npx",
    });
    assert.match(none.stderr, /Start it with `npx agentd gateway`/);
    const help = await keptAgentd(["config", "--help"], { npm_lifecycle_event: "npx" });
    assert.match(help.stdout, /^Run `npx agentd config <command> --help`/m);
    // Another script of a package that uses agentd.
    const script = await keptAgentd(["cnofig"], { npm_lifecycle_event: "build" });
    assert.match(script.stderr, /^Try `agentd --help`\.$/m);
  });

  it("rejects unknown options and extra arguments, after and before the command", async () => {
    const option = await keptAgentd(["version", "--jsno"]);
    assert.deepEqual([option.code, option.stdout], [2, ""]);
    assert.match(
      option.stderr,
      /^Unknown option --jsno; did you mean --json\?\nUsage: agentd version \[options\]\nTry `agentd version --help`\.\n$/,
    );
    assert.equal((await keptAgentd(["--jsno", "version"])).code, 2);
    const argument = await keptAgentd(["version", "now"]);
    assert.deepEqual([argument.code, argument.stderr.split("\n")[0]], [2, 'Unexpected argument "now".']);
  });

  it("accepts --profile anywhere, and rejects an invalid name in one line", async () => {
    const env = { AGENTD_HOME: "/srv/agentd" };
    for (const words of [
      ["--profile", "w", "config", "path"],
      ["config", "path", "--profile=w"],
    ]) {
      assert.equal((await keptAgentd(words, env)).stdout, "/srv/agentd/profiles/w/config.yaml\n");
    }
    const wrong = await keptAgentd(["config", "path", "--profile", "../x"], env);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /^The profile name "\.\.\/x" is not allowed\.[^\n]*\n$/);
    assert.equal((await keptAgentd(["config", "path", "--profile"], env)).code, 2);
  });
});

describe("agentd gateway", () => {
  it("shows the options of the command that runs by default", async () => {
    const { code, stdout } = await keptAgentd(["gateway", "--help"]);
    assert.equal(code, 0);
    for (const text of ["Usage: agentd gateway [command] [options]", "--port <number>", "--host <address>"]) {
      assert.ok(stdout.includes(text), stdout);
    }
  });

  it("rejects unknown options before anything starts", async () => {
    await using made = await createHome({ "config.yaml": "log: { level: loud }\n" });
    const env = { AGENTD_HOME: made.home };
    const wrong = await keptAgentd(["gateway", "--prot", "1"], env);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /^Unknown option --prot; did you mean --port\?/);
    const command = await keptAgentd(["gateway", "--port", "1", "rnu"], env);
    assert.equal(command.code, 2);
    assert.match(command.stderr, /^Unknown command "rnu"; did you mean "run"\?/);
  });

  it("does not start with an invalid configuration, and says where the error is", async () => {
    await using made = await createHome({ "config.yaml": "log: { level: loud }\n" });
    const { code, stdout, stderr } = await agentd(["gateway", "--port", "0"], { AGENTD_HOME: made.home });
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(
      stderr,
      /^The configuration is not valid:\n {2}[^\n]*config\.yaml:1:15: log\.level must be one of/,
    );
    assert.doesNotMatch(stderr, /\n\s+at /);
  });
});

describe("agentd version", () => {
  it("prints the version and the runtime", async () => {
    const { version } = JSON.parse(
      await readFile(new URL("../../../package.json", import.meta.url), "utf8"),
    ) as {
      version: string;
    };
    const text = await agentd(["version"]);
    assert.equal(text.code, 0);
    assert.ok(text.stdout.startsWith(`agentd ${version} (`), text.stdout);
    const json = JSON.parse((await agentd(["version", "--json"])).stdout) as {
      version: string;
      runtime: { name: string };
    };
    assert.deepEqual([json.version, ["node", "deno", "bun"].includes(json.runtime.name)], [version, true]);
    for (const flag of ["--version", "-v", "-V"]) assert.equal((await agentd([flag])).stdout, text.stdout);
  });
});

describe("agentd spec", () => {
  it("prints the bundled spec verbatim", async () => {
    for (const name of ["http", "webhook"]) {
      const file = new URL(`../../../generated/specs/${name}.openapi.json`, import.meta.url);
      const { code, stdout } = await keptAgentd(["spec", name]);
      assert.equal(code, 0);
      assert.equal(stdout.trimEnd(), (await readFile(file, "utf8")).trimEnd());
    }
    assert.equal(
      (JSON.parse((await keptAgentd(["spec", "config"])).stdout) as { title: string }).title,
      "Config",
    );
  });

  it("lists the available specs", async () => {
    const names = (await keptAgentd(["spec"])).stdout.trim().split("\n");
    for (const name of ["http", "gateway", "config"]) assert.ok(names.includes(name), name);
    assert.deepEqual(JSON.parse((await keptAgentd(["spec", "--json"])).stdout), names);
  });

  it("names the available specs for an unknown one", async () => {
    const { code, stderr } = await keptAgentd(["spec", "htpp"]);
    assert.equal(code, 2);
    assert.match(stderr, /^Unknown spec "htpp"; did you mean "http"\? Available specs: http, gateway/);
    assert.equal((await keptAgentd(["spec", "constructor"])).code, 2);
  });
});

describe("agentd config", () => {
  it("sets, gets, unsets", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    const set = await keptAgentd(["config", "set", "api_server.port", "9000"], env);
    assert.deepEqual(set, {
      code: 0,
      stdout: `set api_server.port in ${made.home}/config.yaml\n`,
      stderr: "",
    });
    assert.equal((await keptAgentd(["config", "get", "api_server.port"], env)).stdout, "9000\n");
    const unset = await keptAgentd(["config", "unset", "api_server.port", "--json"], env);
    assert.deepEqual(JSON.parse(unset.stdout), {
      key: "api_server.port",
      path: `${made.home}/config.yaml`,
      changed: true,
    });
    assert.equal((await keptAgentd(["config", "get", "api_server.port"], env)).stdout, "8642\n");
  });

  it("fails with one message and exit code 1, without a stack", async () => {
    await using made = await createHome();
    const env = { AGENTD_HOME: made.home };
    assert.deepEqual(await keptAgentd(["config", "set", "api_server.prot", "1"], env), {
      code: 1,
      stdout: "",
      stderr: 'api_server.prot is not a known key; did you mean "port"?\n',
    });
    const value = await keptAgentd(["config", "set", "api_server.port", "-5"], env);
    assert.deepEqual([value.code, value.stderr], [1, "api_server.port must be at least 0.\n"]);
    assert.equal((await keptAgentd(["config", "get", "model.default"], env)).code, 1);
  });

  it("masks secrets unless --reveal", async () => {
    await using made = await createHome({ "config.yaml": "api_server: { key: hunter2hunter2hunter2 }\n" });
    const env = { AGENTD_HOME: made.home };
    for (const words of [
      ["config", "get"],
      ["config", "get", "--json"],
      ["config", "get", "api_server.key"],
      ["config", "check", "--json"],
    ]) {
      const { code, stdout, stderr } = await agentd(words, env);
      assert.equal(code, 0);
      assert.doesNotMatch(stdout + stderr, /hunter2/);
    }
    assert.equal(
      (await agentd(["config", "get", "api_server.key", "--reveal"], env)).stdout,
      "hunter2hunter2hunter2\n",
    );
  });

  it("works with an invalid file, and check reports the location", async () => {
    await using made = await createHome({ "config.yaml": "log:\n  level: loud\n" });
    const env = { AGENTD_HOME: made.home };
    const got = await keptAgentd(["config", "get", "log.level"], env);
    assert.deepEqual([got.code, got.stdout], [0, "info\n"]);
    assert.match(got.stderr, /config\.yaml:2:10: log\.level must be one of/);
    const check = await keptAgentd(["config", "check"], env);
    assert.deepEqual([check.code, check.stdout], [1, ""]);
    assert.match(check.stderr, /config\.yaml:2:10: log\.level must be one of/);
    const json = JSON.parse((await keptAgentd(["config", "check", "--json"], env)).stdout) as Record<
      string,
      unknown
    >;
    assert.equal(json["valid"], false);
    assert.equal((await keptAgentd(["config", "set", "log.level", "warn"], env)).code, 0);
    assert.equal((await keptAgentd(["config", "check"], env)).code, 0);
  });

  it("check reports issues that only use reveals", async () => {
    await using made = await createHome({ "config.yaml": "api_server: { key: env:NOT_SET }\n" });
    const { code, stderr } = await keptAgentd(["config", "check"], { AGENTD_HOME: made.home });
    assert.equal(code, 1);
    assert.match(stderr, /refers to the variable NOT_SET, which is not set/);
  });
});
