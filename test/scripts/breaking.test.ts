import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { promisify } from "node:util";
import {
  announcesBreaking,
  compareSpecs,
  newestRelease,
  type Comparison,
} from "../../scripts/lib/breaking.ts";
import { bundleSpecs } from "../../scripts/lib/bundle.ts";
import { readJson, writeJson } from "../../scripts/lib/files.ts";
import { fixtureSpecs, makeFolder, run } from "../unit/scripts/fixtures.ts";

let base = "";

before(async () => {
  base = await mkdtemp(join(tmpdir(), "agentd-breaking-"));
  await bundleSpecs(fixtureSpecs, base);
});
after(() => rm(base, { recursive: true, force: true }));

type Json = Record<string, unknown>;

/** Compares one bundle of the fixture with a copy that `change` edited; the others are on neither side. */
async function compare(
  context: TestContext,
  bundle: string,
  change: (document: Json) => void,
  /** Changes the older one, too. */
  prepare: (document: Json) => void = () => {},
): Promise<Comparison> {
  const [older, revisionFolder] = [await makeFolder(context), await makeFolder(context)];
  const document = (await readJson(join(base, bundle))) as Json;
  prepare(document);
  await writeJson(join(older, bundle), document);
  change(document);
  await writeJson(join(revisionFolder, bundle), document);
  const comparisons = await compareSpecs({ base: older, revisionFolder });
  assert.deepEqual(
    comparisons.filter(({ file, result }) => file !== bundle && result !== "absent"),
    [],
  );
  return comparisons.find(({ file }) => file === bundle)!;
}

function at(document: Json, ...path: string[]): Json {
  return path.reduce((parent, key) => parent[key] as Json, document);
}

const schemaOf = (document: Json, name: string) => at(document, "components", "schemas", name);
const CREATE = ["paths", "/things", "post", "requestBody", "content", "application/json", "schema"];

const BREAKS: readonly (readonly [string, string, (document: Json) => void])[] = [
  ["a removed path", "http.openapi.json", (http) => delete at(http, "paths")["/things"]],
  [
    "a removed operation",
    "http.openapi.json",
    (http) => delete at(http, "paths", "/things/{thing_id}")["get"],
  ],
  [
    "a property newly required of a request",
    "http.openapi.json",
    (http) => {
      const body = at(http, ...CREATE);
      body["required"] = ["name", "size"];
      at(body, "properties")["size"] = { type: "integer" };
    },
  ],
  [
    "a tighter limit on a request",
    "http.openapi.json",
    (http) => (at(http, ...CREATE, "properties", "name")["maxLength"] = 4),
  ],
  [
    "a property removed from a response",
    "http.openapi.json",
    (http) => {
      schemaOf(http, "Thing")["required"] = ["id"];
      delete at(schemaOf(http, "Thing"), "properties")["name"];
    },
  ],
  ["a removed method", "gateway.openrpc.json", (rpc) => (rpc["methods"] as unknown[]).shift()],
  [
    "a newly required parameter",
    "gateway.openrpc.json",
    (rpc) => {
      (at(rpc, "methods", "0")["params"] as unknown[]).unshift({
        name: "who",
        required: true,
        schema: { type: "string" },
      });
    },
  ],
  [
    "a field removed from a result",
    "gateway.openrpc.json",
    (rpc) => {
      schemaOf(rpc, "Thing")["required"] = ["id"];
      delete at(schemaOf(rpc, "Thing"), "properties")["name"];
    },
  ],
  [
    "a field removed from an event",
    "host.openrpc.json",
    (host) => {
      schemaOf(host, "Thing")["required"] = ["id"];
      delete at(schemaOf(host, "Thing"), "properties")["name"];
    },
  ],
];
for (const [title, bundle, change] of BREAKS) {
  test(`${title} breaks clients (${bundle})`, async (context) => {
    const { result, report } = await compare(context, bundle, change);
    assert.equal(result, "breaking", report);
    assert.match(report, /[1-9]\d* major/);
  });
}

test("a change that breaks clients passes when the version announces it", async (context) => {
  const { result, report } = await compare(context, "http.openapi.json", (http) => {
    delete at(http, "paths")[Object.keys(at(http, "paths"))[0]!];
    at(http, "info")["version"] = "99.0.0";
  });
  assert.equal(result, "announced", report);
  assert.match(report, /The version says so: .* -> 99\.0\.0\.$/);
});

test("a major version announces, below 1 a minor one; nothing else does", () => {
  for (const [before, now] of [
    ["1.2.3", "2.0.0"],
    ["0.1.9", "0.2.0"],
    ["0.9.0", "1.0.0"],
  ] as const) {
    assert.ok(announcesBreaking(before, now), `${before} -> ${now}`);
  }
  for (const [before, now] of [
    ["1.2.3", "1.3.0"],
    ["0.1.0", "0.1.1"],
    ["2.0.0", "1.0.0"],
    ["1.0.0", "0.9.0"],
    ["0.2.0", "0.2.0"],
  ] as const) {
    assert.ok(!announcesBreaking(before, now), `${before} -> ${now}`);
  }
});

const GROWTH: readonly (readonly [string, string, (document: Json) => void])[] = [
  [
    "a new property in a response",
    "http.openapi.json",
    (http) => {
      at(schemaOf(http, "Thing"), "properties")["note"] = { type: "string" };
    },
  ],
  [
    "a new optional parameter",
    "gateway.openrpc.json",
    (rpc) => {
      (at(rpc, "methods", "0")["params"] as unknown[]).push({ name: "after", schema: { type: "string" } });
    },
  ],
];
for (const [title, bundle, change] of GROWTH) {
  test(`${title} breaks no client (${bundle})`, async (context) => {
    const { result, report } = await compare(context, bundle, change);
    assert.equal(result, "compatible", report);
  });
}

for (const isOpen of [true, false]) {
  test(`a value added to an enum of a response ${isOpen ? "that may grow breaks no client" : "breaks clients"}`, async (context) => {
    const color = (document: Json) => at(schemaOf(document, "Thing"), "properties", "color");
    const { result, report } = await compare(
      context,
      "http.openapi.json",
      (http) => (color(http)["enum"] = ["red", "green", "blue"]),
      (http) => {
        const schema = { type: "string", enum: ["red", "green"], ...(isOpen ? { "x-open-enum": true } : {}) };
        at(schemaOf(http, "Thing"), "properties")["color"] = schema;
      },
    );
    assert.equal(result, isOpen ? "compatible" : "breaking", report);
    if (isOpen) assert.match(report, /Breaks no client: .*'blue'.*x-open-enum/);
  });
}

const ITEM = { type: "string", enum: ["red", "green"] };
for (const [title, schema, how, expected] of [
  ["takes a list of the same values", { type: "array", items: ITEM }, { explode: false }, "compatible"],
  ["takes a list in repeated parameters", { type: "array", items: ITEM }, { explode: true }, "breaking"],
  [
    "takes a list without one of the values",
    { type: "array", items: { ...ITEM, enum: ["red"] } },
    { explode: false },
    "breaking",
  ],
] as const) {
  test(`a query parameter that ${title} now is ${expected}`, async (context) => {
    const operation = (document: Json) => at(document, "paths", "/things", "post");
    const { result, report } = await compare(
      context,
      "http.openapi.json",
      (http) =>
        (operation(http)["parameters"] = [{ name: "color", in: "query", style: "form", schema, ...how }]),
      (http) => (operation(http)["parameters"] = [{ name: "color", in: "query", schema: ITEM }]),
    );
    assert.equal(result, expected, report);
  });
}

test("a base that has no such file yet is said plainly and breaks nothing", async (context) => {
  const older = await makeFolder(context);
  await cp(join(base, "http.openapi.json"), join(older, "http.openapi.json"));
  const comparisons = await compareSpecs({ base: older, revisionFolder: base });
  assert.deepEqual(
    comparisons.map(({ file, result }) => `${file} ${result}`),
    [
      "http.openapi.json compatible",
      "gateway.openrpc.json new",
      "host.openrpc.json new",
      "webhook.openapi.json new",
    ],
  );
  assert.equal(
    comparisons[1]!.report,
    `gateway.openrpc.json: ${older} has none yet, nothing to compare with`,
  );
});

test("an API that is gone breaks every client, and the command fails", async (context) => {
  const revision = await makeFolder(context);
  await cp(base, revision, { recursive: true });
  await rm(join(revision, "webhook.openapi.json"));
  const { status, output } = await run("scripts/breaking.ts", [base, revision]);
  assert.equal(status, 1);
  assert.match(output, /webhook\.openapi\.json: it is gone; every client breaks/);
  assert.match(output, /breaking changes in webhook\.openapi\.json\n$/);
});

test("a base that is neither folder nor revision is refused, options included", async () => {
  for (const wrong of ["no-such-revision", "--help"]) {
    await assert.rejects(compareSpecs({ base: wrong, revisionFolder: base }), {
      name: "SpecError",
      message: `${wrong} is neither a folder nor a git revision`,
    });
  }
});

test("without a base the specs are compared with those of the newest release, if there is one", async (context) => {
  const folder = await makeFolder(context);
  const git = (...words: readonly string[]) =>
    promisify(execFile)("git", ["-c", "user.name=a", "-c", "user.email=a@b.example", ...words], {
      cwd: folder,
    });
  await git("init", "--quiet");
  const commit = () => git("commit", "--quiet", "--allow-empty", "--message", "x");
  await commit();
  await git("tag", "nightly");
  assert.equal(await newestRelease(folder), undefined);
  for (const tag of ["v0.2.0", "v0.3.0"]) {
    await git("tag", tag);
    await commit();
    await git("tag", `after-${tag}`);
    assert.equal(await newestRelease(folder), tag);
  }
});
