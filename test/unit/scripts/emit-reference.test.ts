import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseHTML } from "linkedom";
import gatewayJson from "../../../generated/specs/gateway.openrpc.json" with { type: "json" };
import hostJson from "../../../generated/specs/host.openrpc.json" with { type: "json" };
import httpJson from "../../../generated/specs/http.openapi.json" with { type: "json" };
import type { BundledDocument, Schemas } from "../../../scripts/lib/document.ts";
import { readEvents } from "../../../scripts/lib/emit-host.ts";
import { emitDocs } from "../../../scripts/lib/emit-reference.ts";
import { readOperations } from "../../../scripts/lib/operation.ts";
import { exampleOf } from "../../../scripts/lib/reference-example.ts";
import { httpReference, type ErrorEntry } from "../../../scripts/lib/reference-http.ts";
import { printIndex, printMarkdown } from "../../../scripts/lib/reference-markdown.ts";
import { printPage } from "../../../scripts/lib/reference-page.ts";
import { configReference, rpcReference } from "../../../scripts/lib/reference-rpc.ts";

const ERRORS: readonly ErrorEntry[] = [
  { code: "not_found", status: 404, type: "not_found_error", retryable: false },
];
const http = httpJson as unknown as BundledDocument;

function documentOf(schemas: Schemas, more: Record<string, unknown> = {}): BundledDocument {
  return { info: { title: "Things", version: "1" }, paths: {}, components: { schemas }, ...more };
}

const markdown = (document: BundledDocument) =>
  printMarkdown(httpReference(document, readOperations(document), ERRORS));
const page = (document: BundledDocument) =>
  printPage(httpReference(document, readOperations(document), ERRORS));
const dom = (document: BundledDocument) => parseHTML(page(document).html).document;

/** The lines of the Markdown of one schema. */
function linesOf(schema: Record<string, unknown>, more: Schemas = {}): readonly string[] {
  return markdown(documentOf({ Thing: schema, ...more })).split("\n");
}

function assertLine(lines: readonly string[], line: string): void {
  assert.ok(lines.includes(line), `${line}\nis not in\n${lines.join("\n")}`);
}

describe("a schema in the reference", () => {
  it("shows the fields of nested objects, arrays and maps by their path", () => {
    const leaf = { type: "object", properties: { id: { type: "string" } } };
    const lines = linesOf({
      type: "object",
      required: ["outer"],
      properties: {
        outer: { type: "object", required: ["inner"], properties: { inner: leaf } },
        list: { type: "array", items: leaf },
        map: { type: "object", additionalProperties: leaf },
        maybe: { oneOf: [leaf, { type: "null" }] },
      },
    });
    assertLine(lines, "| `outer` | object | Required. |");
    assertLine(lines, "| `outer.inner` | object | Required. |");
    assertLine(lines, "| `outer.inner.id` | string |  |");
    assertLine(lines, "| `list[].id` | string |  |");
    assertLine(lines, "| `map.*.id` | string |  |");
    assertLine(lines, "| `maybe` | object or null |  |");
    assertLine(lines, "| `maybe.id` | string |  |");
  });

  it("says types, limits, defaults and examples in words", () => {
    const lines = linesOf({
      type: "object",
      additionalProperties: false,
      properties: {
        kind: { const: "a" },
        mode: { type: "string", enum: ["x", "y"], default: "x", description: "How." },
        size: { type: ["integer", "null"], minimum: 1, maximum: 9 },
        over: { type: "number", exclusiveMinimum: 0, multipleOf: 0.5 },
        name: { type: "string", minLength: 1, pattern: "^a|b$", examples: ["b"] },
        tags: { type: "array", maxItems: 3, uniqueItems: true, items: { type: "string", maxLength: 5 } },
        labels: { type: "object", maxProperties: 2, additionalProperties: { type: "string", minLength: 2 } },
        when: { type: "string", format: "date-time", readOnly: true, deprecated: true },
        either: {
          anyOf: [
            { type: "string", maxLength: 4 },
            { type: "array", items: {}, minItems: 2 },
          ],
        },
        free: {},
        never: false,
      },
    });
    assertLine(lines, '| `kind` | `"a"` |  |');
    assertLine(lines, '| `mode` | `"x"` or `"y"` | How. Default `"x"`. |');
    assertLine(lines, "| `size` | integer or null | 1 to 9. |");
    assertLine(lines, "| `over` | number | More than 0; a multiple of 0.5. |");
    assertLine(
      lines,
      String.raw`| ${"`name`"} | string | Not empty; matches ${"`^a\\|b$`"}; for example ${'`"b"`'}. |`,
    );
    assertLine(
      lines,
      "| `tags` | array of string | At most 3 items; no duplicates; each at most 5 characters. |",
    );
    assertLine(lines, "| `labels` | map of string | At most 2 fields; each value at least 2 characters. |");
    assertLine(lines, "| `when` | string (date-time) | Deprecated; only in answers. |");
    assertLine(
      lines,
      "| `either` | string or array of any | String: at most 4 characters; array of any: at least 2 items. |",
    );
    assertLine(lines, "| `free` | any |  |");
    assertLine(lines, "| `never` | nothing |  |");
    assertLine(lines, "Other fields are refused.");
  });

  it("lists the alternatives of a union by the value that distinguishes them", () => {
    const Cat = {
      type: "object",
      description: "It purrs.",
      properties: { kind: { const: "cat" } },
      "x-final": true,
    };
    const Dog = { type: "object", properties: { kind: { enum: ["dog", "wolf"] } } };
    const oneOf = [{ $ref: "#/components/schemas/Cat" }, { $ref: "#/components/schemas/Dog" }];
    const mapping = { cat: "#/components/schemas/Cat", hound: "#/components/schemas/Dog" };
    const told = linesOf({ oneOf, discriminator: { propertyName: "kind", mapping } }, { Cat, Dog });
    assertLine(told, "One of, distinguished by `kind`:");
    assertLine(told, "| `cat` | [Cat](#schema-cat) | It purrs. The last event. |");
    assertLine(told, "| `hound` | [Dog](#schema-dog) |  |");
    const untold = linesOf({ anyOf: oneOf }, { Cat, Dog });
    assertLine(untold, "| `dog`, `wolf` | [Dog](#schema-dog) |  |");
  });

  it("says of the fields of nameless alternatives when they hold", () => {
    const alternative = (kind: string, field: string) => ({
      type: "object",
      properties: { kind: { const: kind }, [field]: { type: "string" } },
    });
    const lines = linesOf({
      type: "object",
      properties: { part: { oneOf: [alternative("text", "text"), alternative("image", "url")] } },
    });
    assertLine(lines, '| `part.text` | string | If `kind` is `"text"`. |');
    assertLine(lines, '| `part.url` | string | If `kind` is `"image"`. |');
  });

  it("takes the fields of all parts of an allOf, and links those with a name", () => {
    const Base = { type: "object", properties: { id: { type: "string" } } };
    const lines = linesOf(
      {
        allOf: [
          { $ref: "#/components/schemas/Base" },
          { type: "object", required: ["extra"], properties: { extra: { type: "boolean" } } },
        ],
      },
      { Base },
    );
    assertLine(lines, "All fields of [Base](#schema-base).");
    assertLine(lines, "| `extra` | boolean | Required. |");
  });

  it("ends where a schema contains itself", () => {
    const Tree = {
      type: "object",
      required: ["children", "next"],
      properties: {
        children: { type: "array", minItems: 1, items: { $ref: "#/components/schemas/Tree" } },
        next: { $ref: "#/components/schemas/Tree" },
      },
    };
    assertLine(linesOf(Tree, { Tree }), "| `next` | [Tree](#schema-tree) | Required. |");
    const document = documentOf({ Tree });
    const made = JSON.stringify(exampleOf(document, { schema: { $ref: "#/components/schemas/Tree" } }));
    assert.ok(made.length < 20_000);
  });
});

describe("what descriptions hold", () => {
  const nasty = 'A <script>alert("x")</script> | b & `c|<d>` \\ *e* [f](http://g) ${h}';
  const document = documentOf(
    { Thing: { type: "object", properties: { "a<b": { type: "string", description: nasty } } } },
    { info: { title: "<b>Things</b>", version: "1", description: nasty } },
  );

  it("is text in Markdown, and splits no table", () => {
    const text = markdown(document);
    const row = text.split("\n").find((line) => line.startsWith("| `a<b`"));
    assert.equal(row?.split(/(?<!\\)\|/).length, 5);
    assert.doesNotMatch(text.replaceAll(/`[^`]*`/g, ""), /<script|<b>/);
    assert.doesNotMatch(text, /(?<!\\)\]\(http/);
  });

  it("is text on the page", () => {
    const { document: parsed } = parseHTML(page(document).html);
    assert.equal(parsed.querySelectorAll("script").length, 1);
    assert.equal(parsed.querySelectorAll("main b").length, 0);
    assert.ok(
      parsed.querySelector("#schema-thing td:last-child")?.textContent?.startsWith('A <script>alert("x")'),
    );
  });

  it("comes back whole from the printed module", async () => {
    const printed = page(document);
    const url = `data:text/javascript;charset=utf-8,${encodeURIComponent(emitDocs(printed))}`;
    const module = (await import(url)) as { docsPage: string; docsPolicy: string };
    assert.equal(module.docsPage, printed.html);
    assert.equal(module.docsPolicy, printed.policy);
  });
});

describe("an operation in the reference", () => {
  const operation = {
    operationId: "askThing",
    tags: ["Asking"],
    summary: "Ask it",
    deprecated: true,
    "x-required-scope": "chat",
    "x-sse": { id: "seq", event: "name", terminator: "close" },
    parameters: [{ name: "page", in: "query", required: true, schema: { type: "integer", minimum: 2 } }],
    requestBody: {
      required: true,
      content: {
        "application/json": {
          schema: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
          example: { text: "it's" },
        },
      },
    },
    responses: {
      "200": {
        description: "Told.",
        headers: { ETag: { description: "Its mark.", schema: { type: "string" } } },
        content: { "text/event-stream": { schema: { $ref: "#/components/schemas/Event" } } },
      },
      "404": { description: "No." },
      "410": { description: "No." },
      default: { description: "Else." },
    },
  };
  const document = documentOf(
    { Event: { type: "object", description: "Something happened." } },
    {
      servers: [{ url: "http://127.0.0.1:1/" }],
      security: [{ key: [] }],
      paths: { "/things/{thing_id}": { post: operation } },
    },
  );
  const text = markdown(document);
  const lines = text.split("\n");

  it("says method, route, scope, parameters and body", () => {
    assertLine(lines, "### POST `/things/{thing_id}`");
    assertLine(lines, "Operation `askThing`. Deprecated. Needs a key with the scope `chat`.");
    assertLine(lines, "| `page` | query | integer | Required. At least 2. |");
    assertLine(lines, "`application/json`, required: object.");
    assertLine(lines, "| `text` | string | Required. |");
  });

  it("joins the statuses that answer alike, and describes headers", () => {
    assertLine(lines, "| `200` | stream of [Event](#schema-event) | Told. Headers: `ETag` (Its mark.). |");
    assertLine(lines, "| `404`, `410` | none | No. |");
    assertLine(lines, "| `default` | none | Else. |");
  });

  it("says how its stream names, numbers and ends", () => {
    const told = lines.find((line) => line.startsWith("Server-sent events;")) ?? "";
    for (const part of ["[Event](#schema-event)", "`name`", "`seq`", "closes after the last event"]) {
      assert.ok(told.includes(part), told);
    }
  });

  it("has a command that a shell takes as it is", () => {
    const command = /```sh\n([^]*?)\n```/.exec(text)?.[1];
    assert.equal(
      command,
      [
        'curl -N -X POST "http://127.0.0.1:1/things/$THING_ID?page=2" \\',
        '  -H "Authorization: Bearer $API_SERVER_KEY" \\',
        '  -H "Content-Type: application/json" \\',
        "  -d '{",
        `  "text": "it'\\''s"`,
        "}'",
      ].join("\n"),
    );
  });
});

describe("the reference of the gateway", () => {
  const ERROR = { number: 4001, reason: "not_live", retryable: false, anywhere: false };
  const [gateway, host] = [gatewayJson, hostJson].map((json) =>
    printMarkdown(rpcReference(json as unknown as BundledDocument, [ERROR])),
  );

  it("lists every method, and says what its errors mean", () => {
    const lines = gateway?.split("\n") ?? [];
    for (const { name } of gatewayJson.methods) {
      assert.ok(lines.includes(`### ${name.replaceAll("_", String.raw`\_`)}`), name);
    }
    assertLine(lines, "| [ping](#method-ping) | Checks that the gateway is alive |  |");
    assertLine(lines, "| `4001` | `not_live` | no | the methods that list it |");
    assert.match(gateway ?? "", /^Errors: .*`4001` `not_live`/m);
  });

  it("opens the payload of every event", () => {
    const events = readEvents(hostJson as unknown as BundledDocument);
    assert.ok(events.length > 0);
    for (const { type } of events)
      assert.match(host ?? "", new RegExp(`\\n### ${type.replaceAll("_", String.raw`\\_`)}\n`), type);
    const [, complete = ""] = /\n### message\.complete\n([^]*?)<a id=/.exec(host ?? "") ?? [];
    assert.match(complete, /exactly once per turn/);
    assertLine(
      complete.split("\n"),
      '| `status` | `"complete"` or `"interrupted"` or `"error"` | Required. |',
    );
  });

  it("has no link that leads nowhere", () => {
    for (const printed of [gateway ?? "", host ?? ""]) {
      const ids = new Set([...printed.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
      const links = [...printed.matchAll(/\]\(#([^)]*)\)/g)].map(([, id]) => id);
      assert.ok(links.length > 100);
      assert.deepEqual(
        links.filter((id) => !ids.has(id)),
        [],
      );
    }
  });
});

describe("the reference of the HTTP API", () => {
  const text = markdown(http);
  const { html, policy } = page(http);
  const parsed = dom(http);

  it("has every operation, schema and error", () => {
    assert.ok(readOperations(http).length > 0);
    for (const { id, route, method } of readOperations(http)) {
      assert.ok(text.includes(`### ${method} \`${route}\``), id);
      assert.ok(text.includes(`Operation \`${id}\``), id);
      assert.ok(html.includes(`<code>${id}</code>`), id);
    }
    for (const name of Object.keys(http.components?.schemas ?? {})) {
      assert.ok(text.includes(`\n### ${name}\n`), name);
    }
    assert.match(text, /\| `404` \| `not_found` \| `not_found_error` \| no \|/);
  });

  it("has no anchor twice, and no link that leads nowhere", () => {
    for (const printed of [text, html.replace(/<script>[^]*<\/script>/, "")]) {
      const ids = [...printed.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
      assert.deepEqual(
        ids.filter((id, index) => ids.indexOf(id) !== index),
        [],
      );
      const links = [...printed.matchAll(/(?:\]\(|href=")#([^")]*)/g)].map(([, id]) => id);
      assert.ok(links.length > 100);
      assert.deepEqual(
        links.filter((id) => !ids.includes(id)),
        [],
      );
    }
  });

  it("asks nothing of the network", () => {
    assert.equal(parsed.querySelectorAll("link,img,iframe,object,embed,script[src],base").length, 0);
    const anchors = [...parsed.querySelectorAll("[href]")];
    assert.ok(anchors.length > 0 && anchors.every((each) => each.getAttribute("href")?.startsWith("#")));
    const style = parsed.querySelector("style")?.textContent ?? "";
    assert.ok(style.includes("{") && !/url\(|@import/.test(style), style);
  });

  it("runs only what its policy names", async () => {
    assert.equal(parsed.querySelectorAll("[style]").length, 0);
    assert.doesNotMatch(html, /<[^>]* on\w+=/);
    for (const name of ["style", "script"]) {
      const inline = new RegExp(`<${name}>([^]*?)</${name}>`).exec(html)?.[1] ?? "";
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(inline));
      const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
      assert.ok(policy.includes(`${name}-src 'sha256-${hash}'`), name);
    }
  });

  it("reads without its script", () => {
    assert.ok(parsed.querySelector("#filter")?.hasAttribute("hidden"));
    assert.ok(parsed.querySelector("details.menu")?.hasAttribute("open"));
    assert.equal(parsed.querySelectorAll("main [hidden]:not(#nothing)").length, 0);
  });

  it("is the same bytes for the same document", () => {
    assert.equal(markdown(structuredClone(http)), text);
    assert.equal(page(structuredClone(http)).html, html);
  });
});

it("the reference of the configuration begins with the file", () => {
  const config = documentOf({
    Config: { type: "object", properties: { port: { $ref: "#/components/schemas/Port" } } },
    Port: { type: "integer", maximum: 65_535 },
  });
  const text = printMarkdown(configReference(config, "1"));
  assert.ok(text.indexOf("| `port` | [Port](#schema-port) |") < text.indexOf("### Port"));
  assert.ok(text.includes("Type: integer. At most 65535."));
});

it("the index links every reference", () => {
  assert.match(printIndex([{ file: "http.md", title: "The API" }]), /^- \[The API\]\(http\.md\)$/m);
});
