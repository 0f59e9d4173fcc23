import assert from "node:assert/strict";
import { mkdtemp, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import packageFile from "../../../package.json" with { type: "json" };
import { checkOnce } from "../../../src/base/schema.ts";
import { createAcpPlace, type AcpPlace } from "../../harness/acp.ts";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";

/** What the registry asks of an entry. */
const texts = { type: "object", additionalProperties: { type: "string" } };
const words = { type: "array", items: { type: "string" } };
const npmPackage = {
  type: "object",
  required: ["package"],
  properties: { package: { type: "string", minLength: 1 }, args: words, env: texts },
  additionalProperties: false,
};
const registrySchema = {
  type: "object",
  required: ["id", "name", "version", "description", "distribution"],
  properties: {
    id: { type: "string", pattern: "^[a-z][a-z0-9-]*$" },
    name: { type: "string", minLength: 1 },
    version: { type: "string", pattern: "^[0-9]+\\.[0-9]+\\.[0-9]+" },
    description: { type: "string", minLength: 1 },
    license: { type: "string" },
    distribution: {
      type: "object",
      minProperties: 1,
      properties: { npx: npmPackage },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
};

interface Start {
  readonly type?: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}
interface Bootstrap {
  readonly zed: { readonly agent_servers: Readonly<Record<string, Start>> };
  readonly jetbrains: { readonly agent_servers: Readonly<Record<string, Start>> };
  readonly vscode: { readonly "acp.agents": Readonly<Record<string, Start>> };
  readonly registry: {
    readonly id: string;
    readonly version: string;
    readonly distribution: { readonly npx: { readonly package: string } };
  };
}

async function bootstrap(options: readonly string[], env: Record<string, string>): Promise<Bootstrap> {
  const { code, stdout, stderr } = await agentd(["acp", "--bootstrap", "--json", ...options], env);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as Bootstrap;
}

/** What an editor does with its block: no shell, a folder of its own, and the environment of a desktop. */
async function converse(place: AcpPlace, { command, args, env }: Start): Promise<void> {
  const editor = await place.start({ command: [command, ...args], env, cwd: "/" }).client();
  const sessionId = await editor.session(place.folder);
  assert.deepEqual((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
  assert.match(editor.text(), /demo model/);
}

test("`--bootstrap --json` matches the registry schema, and its Zed and JetBrains commands start a working agent", async () => {
  await using place = await createAcpPlace();
  const printed = await bootstrap(["--package", "@acme/agent"], {
    HOME: place.base,
    AGENTD_HOME: place.home,
  });
  assert.deepEqual(Object.keys(printed), ["zed", "jetbrains", "vscode", "registry"]);
  assert.equal(checkOnce(registrySchema, printed.registry), undefined);
  assert.equal(printed.registry.version, packageFile.version);
  assert.equal(printed.registry.distribution.npx.package, `@acme/agent@${packageFile.version}`);
  const [zed, jetbrains] = [printed.zed, printed.jetbrains].map((each) => each.agent_servers["agentd"]);
  assert.ok(zed && jetbrains);
  assert.equal(zed.type, "custom");
  assert.deepEqual(printed.vscode["acp.agents"]["agentd"], jetbrains);
  assert.deepEqual(zed.env, { AGENTD_HOME: place.home });
  await Promise.all([converse(place, zed), converse(place, jetbrains)]);
});

test("`--bootstrap` writes nothing, needs no configuration, and sets home or profile only when they are not the default", async () => {
  const base = await realpath(await mkdtemp(join(tmpdir(), "agentd-bootstrap-")));
  try {
    const { zed, registry } = await bootstrap(["--name", "My Agent (dev)", "--package", "agent"], {
      HOME: base,
    });
    assert.deepEqual(zed.agent_servers["My Agent (dev)"]?.env, {});
    assert.equal(registry.id, "my-agent-dev");
    assert.deepEqual(Object.keys(await bootstrap(["--ide", "jetbrains"], { HOME: base })), ["jetbrains"]);
    const profiled = await bootstrap(["--profile", "work"], { HOME: base });
    assert.deepEqual(profiled.zed.agent_servers["agentd"]?.env, { AGENTD_PROFILE: "work" });
    assert.deepEqual(await readdir(base), []);
  } finally {
    await rm(base, { recursive: true, force: true });
  }
});

test("`--bootstrap` without `--json` prints each file name with the block to put there", async () => {
  const { code, stdout } = await agentd(["acp", "--bootstrap", "--ide", "all", "--package", "agent"], {
    HOME: "/nonexistent",
  });
  assert.equal(code, 0);
  const sections = stdout.split(/^(?=\S.*: .*\n\n\{$)/m);
  const files = ["settings.json", "acp.json", "settings.json", "agent.json"];
  assert.equal(sections.length, files.length);
  for (const [index, section] of sections.entries()) {
    assert.ok(section.split("\n")[0]?.includes(files[index] ?? ""), section);
    assert.ok(typeof JSON.parse(section.slice(section.indexOf("\n"))) === "object");
  }
});

test("`--bootstrap` names no package that you did not name: without `--package` it prints no registry block", async () => {
  const printed = await bootstrap([], { HOME: "/nonexistent" });
  assert.deepEqual(Object.keys(printed), ["zed", "jetbrains", "vscode"]);
  const refused = async (...options: readonly string[]) => {
    const { code, stdout, stderr } = await keptAgentd(["acp", ...options], { HOME: "/nonexistent" });
    assert.deepEqual([code, stdout], [2, ""]);
    return stderr;
  };
  assert.match(await refused("--bootstrap", "--ide", "registry"), /--ide registry requires --package NAME/);
  assert.match(await refused("--package", "agent"), /--package requires --bootstrap/);
  for (const name of ["", "../evil", "agent@1.0.0", "Agent", "a b", "@scope", "x".repeat(215)]) {
    assert.match(
      await refused("--bootstrap", "--package", name),
      /--package must be the name of an npm package/,
    );
  }
});

test("`--check` reports readiness in one line, and `--setup` without a terminal fails", async () => {
  await using place = await createAcpPlace();
  const env = { HOME: place.base, AGENTD_HOME: place.home };
  const ready = await agentd(["acp", "--check"], env);
  assert.deepEqual([ready.code, ready.stdout.trimEnd().split("\n").length], [0, 1], ready.stderr);
  const keyless = await agentd(["acp", "--check"], { ...env, AGENTD_MODEL: "openai:gpt-5.1" });
  assert.equal(keyless.code, 1);
  assert.match(keyless.stdout, /^agentd \S+ is not ready: [^\n]+`agentd[^\n]+\n$/);
  for (const command of [["acp", "--setup"], ["--setup"]]) {
    const { code, stdout, stderr } = await keptAgentd(command, env);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /without a terminal/);
  }
  const mistaken = await keptAgentd(["acp", "--bootstrap", "--ide", "emacs"], env);
  assert.equal(mistaken.code, 2);
  assert.match(
    (await keptAgentd(["acp", "--version"], env)).stdout,
    new RegExp(`^agentd ${packageFile.version} `),
  );
});
