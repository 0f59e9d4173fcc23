/** Rules for the Dockerfile and compose.yaml: mistakes that only a build or a run in production would show. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import packageFile from "../../../package.json" with { type: "json" };

const root = join(import.meta.dirname, "../../..");
const read = (path: string) => readFile(join(root, path), "utf8");

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** Returns the instructions in order, each on one line, without comments. */
async function dockerfile(): Promise<readonly Instruction[]> {
  const text = (await read("Dockerfile")).replaceAll(/^#.*\n/gm, "").replaceAll(/\s*\\\n\s*/g, " ");
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", rest = ""] =
        /^([A-Z]+) (.*)$/.exec(line) ?? assert.fail(`not an instruction: ${line}`);
      return { name, text: rest };
    });
}

/** Returns the instructions of the stage that becomes the image. */
async function imageStage(): Promise<readonly Instruction[]> {
  const all = await dockerfile();
  return all.slice(all.findLastIndex(({ name }) => name === "FROM"));
}

const last = (stage: readonly Instruction[], wanted: string): string =>
  stage.findLast(({ name }) => name === wanted)?.text ?? assert.fail(`${wanted} is missing`);

test("the image is made from a named version of Node that the package accepts, in both stages", async () => {
  const all = await dockerfile();
  const [, major = "", variant = ""] = /^NODE_IMAGE=node:(\d+)-(\S+)$/.exec(last(all, "ARG")) ?? [];
  assert.equal(`>=${major}`, packageFile.engines.node);
  assert.match(variant, /^[a-z]+-slim$/);
  const bases = all.filter(({ name }) => name === "FROM").map(({ text }) => text);
  assert.deepEqual(bases, ["${NODE_IMAGE} AS build", "${NODE_IMAGE}"]);
});

test("each apt-get step updates first, asks nothing, installs no recommendations and leaves no lists", async () => {
  const steps = (await dockerfile()).filter(({ name, text }) => name === "RUN" && text.includes("apt-get"));
  assert.ok(steps.length > 0);
  for (const { text } of steps) {
    assert.match(text, /^apt-get update && apt-get install --yes --no-install-recommends /);
    assert.match(text, / && rm -rf \/var\/lib\/apt\/lists\/\*$/);
  }
});

test("the service runs as a user without rights, who owns the volume before it becomes one", async () => {
  const stage = await imageStage();
  const [user, volume, folder] = [last(stage, "USER"), last(stage, "VOLUME"), last(stage, "WORKDIR")];
  assert.notEqual(user, "root");
  assert.equal(folder, volume);
  const at = (name: string, text: string) =>
    stage.findIndex((each) => each.name === name && each.text === text);
  const made = at("RUN", `install -d -o ${user} -g ${user} -m 0700 ${volume}`);
  // A step after VOLUME or USER would not change the folder that the volume is made from.
  assert.ok(made !== -1 && made < at("USER", user) && at("USER", user) < at("VOLUME", volume));
  assert.ok(last(stage, "ENV").includes(`AGENTD_HOME=${volume} `));
});

test("tini passes signals on, no shell stands between, and the health check has limits", async () => {
  const stage = await imageStage();
  assert.deepEqual(JSON.parse(last(stage, "ENTRYPOINT")), ["tini", "--", "agentd"]);
  assert.deepEqual(JSON.parse(last(stage, "CMD")), ["gateway"]);
  const installed = stage.find(({ text }) => text.includes("apt-get install"))?.text ?? "";
  assert.match(installed, / tini /);
  assert.match(
    last(stage, "HEALTHCHECK"),
    /^--interval=\d+s --timeout=\d+s --start-period=\d+s --retries=\d+ CMD \[/,
  );
});

test("the path of the health check is one of the HTTP API that needs no key", async () => {
  const [, path = ""] = /8642\}(\/[^`]*)`/.exec(last(await imageStage(), "HEALTHCHECK")) ?? [];
  const spec = JSON.parse(await read("generated/specs/http.openapi.json")) as {
    readonly paths: Readonly<Record<string, { readonly get?: { readonly security?: readonly unknown[] } }>>;
  };
  assert.deepEqual(spec.paths[path]?.get?.security, []);
});

test("neither a secret nor the history, the packages or the build of this machine get into the image", async () => {
  for (const { name, text } of await dockerfile()) {
    assert.notEqual(name, "ADD");
    if (name === "ENV" || name === "ARG") assert.doesNotMatch(text, /KEY|TOKEN|SECRET|PASSWORD/i);
  }
  const ignored = (await read(".dockerignore")).trim().split("\n");
  for (const path of [".git", "**/node_modules", "**/dist", "**/dist-binary", "**/.env"])
    assert.ok(ignored.includes(path), path);
  // What npm installs is decided by the lock alone.
  const copies = (await dockerfile()).filter(({ name }) => name === "COPY").map(({ text }) => text);
  assert.equal(copies[0], "package.json package-lock.json ./");
});

/** What the compose specification allows where compose.yaml writes. */
const COMPOSE_KEYS = {
  file: ["services", "volumes"],
  service:
    "build cap_drop depends_on environment healthcheck image ports restart security_opt stop_grace_period volumes".split(
      " ",
    ),
  healthcheck: ["interval", "retries", "start_period", "test", "timeout"],
};
const DURATION = /^\d+(?:ms|s|m|h)$/;

test("compose.yaml has only keys of the compose specification, with values in their form", async () => {
  interface Service {
    readonly image: string;
    readonly restart: string;
    readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
    readonly healthcheck?: Readonly<Record<string, unknown>>;
    readonly stop_grace_period?: string;
    readonly ports?: readonly string[];
    readonly volumes: readonly string[];
  }
  const compose = parse(await read("compose.yaml"), { strict: true }) as {
    readonly services: Readonly<Record<string, Service>>;
  };
  const assertKnown = (found: object, known: readonly string[]) =>
    assert.deepEqual(
      Object.keys(found).filter((key) => !known.includes(key)),
      [],
    );
  assertKnown(compose, COMPOSE_KEYS.file);
  for (const service of Object.values(compose.services)) {
    assertKnown(service, COMPOSE_KEYS.service);
    assert.ok(["no", "always", "on-failure", "unless-stopped"].includes(service.restart));
    assert.doesNotMatch(service.image, /:latest$/);
    for (const port of service.ports ?? []) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
    for (const volume of service.volumes) assert.match(volume, /^[a-z-]+:\/[\w/]+$/);
    if (service.stop_grace_period !== undefined) assert.match(service.stop_grace_period, DURATION);
    const { healthcheck } = service;
    if (healthcheck) {
      assertKnown(healthcheck, COMPOSE_KEYS.healthcheck);
      assert.ok(Array.isArray(healthcheck["test"]) && healthcheck["test"][0] === "CMD");
      assert.match(String(healthcheck["interval"]), DURATION);
      assert.match(String(healthcheck["timeout"]), DURATION);
    }
    for (const [name, { condition }] of Object.entries(service.depends_on ?? {})) {
      assert.equal(condition, "service_healthy");
      assert.ok(compose.services[name]?.healthcheck, `${name} has no health check to wait for`);
    }
  }
});
