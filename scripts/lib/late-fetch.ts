/** An esbuild plugin: what starts loads Node's own implementation of `fetch` with the first request, not before. */
import { readFile } from "node:fs/promises";
import type { Plugin } from "esbuild";

type Change = readonly [from: string | RegExp, to: string];

/**
 * The requests, responses and headers of the server library get the prototypes of Node's, and touching those loads undici: a tenth of
 * what a gateway does until it listens. A class that is linked when the first instance is made behaves the same. The generated
 * client creates a default client, with headers, for callers that bring none: a seventh of what most commands do.
 */
const CHANGES: readonly (readonly [file: RegExp, changes: readonly Change[]])[] = [
  [
    /[\\/]srvx[\\/]dist[\\/]adapters[\\/]node\.mjs$/,
    [
      ...late("Headers", { native: "NativeHeaders", first: "this.#req = req;", field: "_headers" }),
      ...late("Request", { native: "NativeRequest", first: "this.#req = ctx.req;", field: "_request" }),
      ...late("NodeResponse", { native: "NativeResponse", first: "this.#body = body;", field: "_response" }),
    ],
  ],
  [
    /[\\/]generated[\\/]http[\\/]client[\\/]client\.gen\.ts$/,
    [
      [
        /export const client: Client = (.*);$/m,
        "let made: Client;\nexport const client = () => (made ??= $1);",
      ],
    ],
  ],
  [
    /[\\/]generated[\\/]http[\\/]client[\\/]sdk\.gen\.ts$/,
    [["args?.client ?? client;", "args?.client ?? client();"]],
  ],
  [
    /[\\/]crossws[\\/]dist[\\/]_chunks[\\/]_request\.mjs$/,
    [
      ["\tObject.setPrototypeOf(StubRequest.prototype, globalThis.Request.prototype);\n", ""],
      [
        "constructor(url, init = {}) {\n",
        "constructor(url, init = {}) {\n\t\t\tif (!(this instanceof globalThis.Request)) Object.setPrototypeOf(StubRequest.prototype, globalThis.Request.prototype);\n",
      ],
    ],
  ],
  [
    /[\\/]h3[\\/]dist[\\/]response\.mjs$/,
    [
      ["var FrozenHeaders = class extends Headers {", "const frozenHeaders = () => class extends Headers {"],
      [
        /const (empty|json)Headers = \/\* @__PURE__ \*\/ new FrozenHeaders\((.*)\);/g,
        "let $1Made;\nconst $1Headers = () => $1Made ??= new (frozenHeaders())($2);",
      ],
      [/(headers: (?:empty|json)Headers)$/gm, "$1()"],
      [
        "mergeHeaders(jsonHeaders, error.headers) : new Headers(jsonHeaders)",
        "mergeHeaders(jsonHeaders(), error.headers) : new Headers(jsonHeaders())",
      ],
    ],
  ],
];

export const lateFetch: Plugin = {
  name: "late-fetch",
  setup(bundler) {
    for (const [filter, changes] of CHANGES) {
      bundler.onLoad({ filter }, async ({ path }) => ({
        contents: changes.reduce(changed, await readFile(path, "utf8")),
        loader: path.endsWith(".ts") ? "ts" : "js",
      }));
    }
  },
};

interface LateClass {
  /** The variable that holds Node's class. */
  readonly native: string;
  /** The first statement of the constructor. */
  readonly first: string;
  /** The property that makes Node's own object. */
  readonly field: string;
}

/** The changes that link a class to Node's in its constructor, instead of where it is defined. */
function late(name: string, { native, first, field }: LateClass): readonly Change[] {
  const link = `link${native}`;
  return [
    [
      new RegExp(`\\tconst ${native} = (.*);\\n\\tclass ${name} \\{`),
      `\tlet ${native};\n\tconst ${link} = () => {\n\t\tif (${native}) return;\n\t\t${native} = $1;\n` +
        `\t\tlazyInherit(${name}.prototype, ${native}.prototype, "${field}");\n` +
        `\t\tObject.setPrototypeOf(${name}, ${native});\n` +
        `\t\tObject.setPrototypeOf(${name}.prototype, ${native}.prototype);\n\t};\n\tclass ${name} {`,
    ],
    [`\t\t\t${first}`, `\t\t\t${link}();\n\t\t\t${first}`],
    [
      new RegExp(`(static \\[Symbol\\.hasInstance\\]\\(val\\) \\{\\n)(.*instanceof ${native};)`),
      `$1\t\t\t${link}();\n$2`,
    ],
    [
      new RegExp(
        `\\tlazyInherit\\(${name}\\.prototype.*\\n(?:\\tObject\\.setPrototypeOf\\(${name}(?:\\.prototype)?,.*\\n)+\\treturn`,
      ),
      "\treturn",
    ],
  ];
}

/** A new version of the package may look different: then the build fails, and this file is to be looked at. */
function changed(text: string, [from, to]: Change): string {
  const result = text.replace(from, to);
  if (result === text) throw new Error(`late-fetch.ts finds nothing to change for ${String(from)}`);
  return result;
}
