import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import configJson from "../../../generated/specs/config.schema.json" with { type: "json" };
import webhookJson from "../../../generated/specs/webhook.openapi.json" with { type: "json" };
import type { BundledDocument } from "../../../scripts/lib/document.ts";
import { readOperations } from "../../../scripts/lib/operation.ts";
import { guideSections } from "../../../scripts/lib/reference-guide.ts";
import { httpReference } from "../../../scripts/lib/reference-http.ts";
import { printMarkdown } from "../../../scripts/lib/reference-markdown.ts";
import { refuse } from "../../../src/webhook/receive/evaluate.ts";
import { SENDERS } from "../../../src/webhook/receive/schemes.ts";
import { checkRoute } from "../../../src/webhook/routes/route.ts";
import { checkFilters } from "../../../src/webhook/receive/filter.ts";
import { verifySignature } from "../../../src/webhook/receive/signature.ts";

/** The rows of a section's table, each cell without its backticks. */
function rowsOf(title: string): readonly (readonly string[])[] {
  const guide = webhookJson["x-guide"] as readonly {
    readonly title: string;
    readonly table?: { readonly rows: readonly (readonly string[])[] };
  }[];
  const rows = guide.find((section) => section.title === title)?.table?.rows;
  assert.ok(rows, `the guide has no table ${title}`);
  return rows.map((cells) => cells.map((cell) => cell.replaceAll("`", "")));
}

test("a guide becomes sections of text, tables and examples, in this order", () => {
  const document = {
    info: { title: "Things", version: "1" },
    paths: {},
    "x-guide": [
      {
        title: "First Things",
        text: "One `a`.\n\nTwo.",
        table: { head: ["`A`", "B"], rows: [["`x`", "y"]] },
        code: { language: "sh", text: "run | it" },
      },
      { title: "Rest" },
    ],
  } as unknown as BundledDocument;
  const printed = printMarkdown(httpReference(document, readOperations(document), []));
  const expected = [
    '<a id="guide-first-things"></a>',
    "## First Things",
    "One `a`.",
    "Two.",
    "| A | B |\n| --- | --- |\n| `x` | y |",
    "```sh\nrun | it\n```",
    '<a id="guide-rest"></a>',
  ].join("\n\n");
  assert.ok(printed.includes(expected), printed);
  assert.deepEqual(guideSections({ info: { title: "Things", version: "1" }, paths: {} }), []);
});

test("an operation's own example stands in place of one made of its parameters", () => {
  const responses = { "200": { description: "It is." } };
  const post = { operationId: "send", responses, "x-curl": "sign it | curl" };
  const document = {
    info: { title: "Things", version: "1" },
    paths: { "/a": { post, get: { operationId: "look", responses } } },
  } as unknown as BundledDocument;
  const printed = printMarkdown(httpReference(document, readOperations(document), []));
  assert.ok(printed.includes("```sh\nsign it | curl\n```"), printed);
  assert.ok(printed.includes("```sh\ncurl /a\n```"), printed);
});

test("the test vectors of the receiver's guide are good signatures", () => {
  const body = new TextEncoder().encode('{"action":"opened","number":42}');
  const rules = {
    secrets: ["s3cr3t"],
    toleranceSeconds: 300,
    auth: "signature",
    nowMs: 1_700_000_000_000,
  } as const;
  const beside: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    "X-Webhook-Signature-V2": { "X-Webhook-Timestamp": "1700000000" },
    "webhook-signature": {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1700000000",
    },
  };
  const rows = rowsOf("Test vectors");
  assert.ok(rows.length >= 5);
  for (const [header = "", value = ""] of rows) {
    const verify = (given: string) =>
      verifySignature({ headers: new Headers({ ...beside[header], [header]: given }), body }, rules).status;
    assert.equal(verify(value), "valid", header);
    assert.equal(verify(value.replace(/[a-z0-9](?=[^a-z0-9]*$)/i, "!")), "invalid", header);
  }
});

test("the guide has every scheme of the configuration, with a route that can be used as it is written", () => {
  const { enum: names = [] } = configJson.$defs.WebhookRouteConfig.properties.scheme;
  assert.deepEqual(["auto", ...SENDERS.keys(), "custom"], names);
  const rows = rowsOf("Services");
  assert.deepEqual(
    rows.map(([name]) => name),
    [...SENDERS.keys()],
  );
  const defaults = { secrets: [], isLoopback: true, resolve: () => "the value of a variable" };
  for (const [name, signature = "", , route = ""] of rows) {
    const checked = checkRoute("hook", parse(route), { ...defaults, origin: "static" });
    assert.ok("route" in checked, `${name}: ${JSON.stringify(checked)}`);
    const { sender } = checked.route;
    assert.equal(sender?.name, name);
    assert.ok(signature.toLowerCase().includes(sender?.header ?? "?"), signature);
  }
});

test("the guide has every operator of filters, and no other", () => {
  const [problem = ""] = checkFilters([{ field: "a" }]);
  const known = problem.replace(/^.*: /, "").split(", ");
  assert.deepEqual(
    rowsOf("Filters")
      .map(([operator]) => operator)
      .toSorted(),
    known.toSorted(),
  );
});

test("the guide has every code of a refusal, with its status", () => {
  const { enum: codes } = webhookJson.components.schemas.WebhookRefusalCode;
  const refused = rowsOf("Answers").filter(([status]) => Number(status) >= 400);
  assert.deepEqual(refused.map(([, code]) => code).toSorted(), codes.toSorted());
  for (const [status, code] of refused) assert.equal(refuse(code as "internal").status, Number(status), code);
});
