/** Prints types.py: TypedDicts and aliases of all component schemas, and of the inline ones that come up. */
import {
  componentName,
  componentSchemas,
  dereference,
  isObject,
  listAt,
  objectAt,
  stringAt,
  type BundledDocument,
  type Schema,
} from "./document.ts";
import type { ClientLanguage } from "./client-method.ts";
import { ANY, NONE, printAnnotation, printQuoted, unionOf, withoutNone, type PyType } from "./python-type.ts";
import {
  className,
  isKeyword,
  printComment,
  printDocstring,
  printString,
  PYTHON_HEADER,
  snakeCase,
  takeName,
} from "./python-text.ts";

/** What types.py imports or relies on: neither a class nor a member may hide it. */
const RESERVED =
  "Any Literal TypedDict TypeAlias Union annotations str int float bool list dict None object".split(" ");
const WIDTH = 110;

interface Member {
  readonly key: string;
  readonly type: PyType;
  readonly required: boolean;
  readonly doc: string | undefined;
}

export class PythonTypes implements ClientLanguage<PyType> {
  readonly none = NONE;
  readonly text: PyType = { kind: "plain", text: "str" };
  readonly bytes: PyType = { kind: "plain", text: "bytes" };
  /** What methods use by name. */
  readonly reserved = "self body extra_headers response timeout types cast segment unstreamed".split(" ");
  readonly #document: BundledDocument;
  readonly #taken = new Set(RESERVED);
  /** Component name -> its name in Python. */
  readonly #names = new Map<string, string>();
  /** References to other places than components. */
  readonly #inlined = new Map<string, PyType>();
  readonly #declarations: string[] = [];

  readonly #surface: string;

  /** `surface` is named in the doc of the module. */
  constructor(document: BundledDocument, surface: "HTTP API" | "gateway" = "HTTP API") {
    this.#document = document;
    this.#surface = surface;
    const components = Object.entries(componentSchemas(document));
    for (const [name] of components) this.#names.set(name, takeName(className(name), this.#taken));
    for (const [name, schema] of components) this.#declareComponent(this.#names.get(name) ?? name, schema);
  }

  /** The type of a schema; inline objects are declared under a name that begins with `hint`. */
  of(schema: unknown, hint: string): PyType {
    if (!isObject(schema)) return ANY;
    const type = this.#ofSchema(schema, hint);
    return schema["nullable"] === true ? unionOf([type, NONE]) : type;
  }

  ofParameter(schema: unknown, hint: string): PyType {
    return withoutNone(this.of(schema, hint));
  }

  nameMethod(words: string, taken: Set<string>): string {
    return takeName(snakeCase(words), taken);
  }

  nameArgument(name: string, taken: Set<string>): string {
    return takeName(snakeCase(name), taken);
  }

  /** The module, with everything that was asked for until now. */
  print(): string {
    return `${PYTHON_HEADER}"""The shapes of requests and answers${this.#surface === "gateway" ? " of the gateway" : ""}. They are plain dictionaries at run time."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict, Union


${this.#declarations.join("\n\n")}`;
  }

  #declareComponent(name: string, schema: Schema): void {
    const fields = this.#objectOf(schema);
    if (fields !== undefined) return this.#declareClass(name, schema, fields);
    const type = this.of(schema, name);
    // A union of many names is one per line.
    const long = type.kind === "union" && name.length + printQuoted(type).length > WIDTH - 16;
    const text = long
      ? `Union[\n${type.of.map((each) => `    ${printQuoted(each)},\n`).join("")}]`
      : printQuoted(type);
    this.#declarations.push(
      `${printComment(stringAt(schema, "description"), "")}${name}: TypeAlias = ${text}\n`,
    );
  }

  #ofSchema(schema: Schema, hint: string): PyType {
    if ("$ref" in schema) return this.#ofReference(schema["$ref"], hint);
    if ("const" in schema) return literalOf([schema["const"]]);
    if (Array.isArray(schema["enum"])) return literalOf(schema["enum"]);
    const fields = this.#objectOf(schema);
    if (fields !== undefined) return this.#declareInline(schema, fields, hint);
    for (const keyword of ["oneOf", "anyOf", "allOf"]) {
      const branches = listAt(schema, keyword);
      if (branches.length === 0) continue;
      const alone =
        branches.filter((branch) => objectAt({ branch }, "branch")["type"] !== "null").length === 1;
      const types = branches.map((branch, index) =>
        this.of(branch, alone ? hint : `${hint}${branchName(branch, index)}`),
      );
      // All at once, and not all objects: the first that says anything is as much as Python can say.
      if (keyword === "allOf") return types.find((type) => type !== ANY) ?? ANY;
      return unionOf(types);
    }
    const listed = Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]];
    return unionOf(listed.map((type: unknown) => this.#ofKind(type, schema, hint)));
  }

  #ofKind(kind: unknown, schema: Schema, hint: string): PyType {
    switch (kind) {
      case "string":
        return { kind: "plain", text: "str" };
      case "integer":
        return { kind: "plain", text: "int" };
      case "number":
        return { kind: "plain", text: "float" };
      case "boolean":
        return { kind: "plain", text: "bool" };
      case "null":
        return NONE;
      case "array":
        return { kind: "list", item: this.#ofItems(schema, hint) };
      case "object":
        return this.#ofObject(schema, hint);
      default:
        return ANY;
    }
  }

  #ofItems(schema: Schema, hint: string): PyType {
    const places = listAt(schema, "prefixItems");
    if (places.length === 0) return this.of(schema["items"], `${hint}Item`);
    const types = places.map((item, index) => this.of(item, `${hint}Item${index + 1}`));
    return unionOf(isObject(schema["items"]) ? [...types, this.of(schema["items"], `${hint}Item`)] : types);
  }

  /** An object among other types of a list, or one without named members. */
  #ofObject(schema: Schema, hint: string): PyType {
    const fields = this.#objectOf({ ...schema, type: "object" });
    if (fields !== undefined) return this.#declareInline(schema, fields, hint);
    const values = [...Object.values(objectAt(schema, "patternProperties")), schema["additionalProperties"]];
    const types = values.filter(isObject).map((value) => this.of(value, `${hint}Value`));
    return { kind: "dict", value: unionOf(types) };
  }

  #ofReference(reference: unknown, hint: string): PyType {
    const component = componentName(reference);
    const name = component === undefined ? undefined : this.#names.get(component);
    if (name !== undefined) return { kind: "name", name };
    const pointer = String(reference);
    const known = this.#inlined.get(pointer);
    if (known !== undefined) return known;
    // Until it is known: a schema that contains itself, and has no name, ends in Any.
    this.#inlined.set(pointer, ANY);
    const type = this.of(dereference(this.#document, { $ref: reference }), hint);
    this.#inlined.set(pointer, type);
    return type;
  }

  /** The named members of an object schema, merged over `allOf`; undefined for anything else. */
  #objectOf(schema: Schema): Fields | undefined {
    const parts = listAt(schema, "allOf");
    if (parts.length > 0) {
      const { allOf: _parts, ...own } = schema;
      const inner = parts.map((part) => this.#objectOf(dereference(this.#document, part)));
      const all = [
        ...inner,
        ...(Object.keys(objectAt(own, "properties")).length > 0 ? [this.#objectOf(own)] : []),
      ];
      return all.every((part) => part !== undefined) ? mergeFields(all) : undefined;
    }
    const properties = objectAt(schema, "properties");
    const named = Object.keys(properties).length > 0;
    const isType = schema["type"] === "object" || (schema["type"] === undefined && named);
    if (!isType || (!named && schema["additionalProperties"] !== false)) return undefined;
    return { properties, required: listAt(schema, "required") };
  }

  #declareInline(schema: Schema, fields: Fields, hint: string): PyType {
    const name = takeName(className(hint), this.#taken);
    this.#declareClass(name, schema, fields);
    return { kind: "name", name };
  }

  #declareClass(name: string, schema: Schema, { properties, required }: Fields): void {
    const members = Object.entries(properties).map(([key, value]): Member => {
      return {
        key,
        type: this.of(value, `${name}${className(key)}`),
        required: required.includes(key),
        doc: isObject(value) ? stringAt(value, "description") : undefined,
      };
    });
    this.#declarations.push(this.#printClass(name, members, stringAt(schema, "description")));
  }

  /** Python 3.10 cannot say of one member that it may be absent: such members go in a class of their own. */
  #printClass(name: string, members: readonly Member[], doc: string | undefined): string {
    const needed = members.filter(({ required }) => required);
    const optional = members.filter(({ required }) => !required);
    const apart = this.#mustBeCall(needed) || this.#mustBeCall(optional);
    const doubled = apart || (needed.length > 0 && optional.length > 0);
    if (!doubled) return this.#printBody(`class ${name}(TypedDict${total(members)})`, members, doc);
    const base = (suffix: string) => takeName(`_${name}${suffix}`, this.#taken);
    const bases: string[] = [];
    let text = "";
    if (needed.length > 0) {
      const required = base("Required");
      bases.push(required);
      text += `${this.#printPart(required, needed)}\n`;
    }
    if (!this.#mustBeCall(optional)) {
      const parents = [...(bases.length === 0 ? ["TypedDict"] : bases), "total=False"].join(", ");
      return `${text}${this.#printBody(`class ${name}(${parents})`, optional, doc)}`;
    }
    const others = base("Optional");
    text += `${this.#printPart(others, optional)}\n`;
    return `${text}${this.#printBody(`class ${name}(${[...bases, others].join(", ")})`, [], doc)}`;
  }

  #printPart(name: string, members: readonly Member[]): string {
    if (!this.#mustBeCall(members))
      return this.#printBody(`class ${name}(TypedDict${total(members)})`, members);
    const rows = members.map(
      ({ key, type, doc }) =>
        `${printComment(doc, "        ")}        ${printString(key)}: ${printQuoted(type)},\n`,
    );
    return `${name} = TypedDict(\n    "${name}",\n    {\n${rows.join("")}    },\n${members.every(({ required }) => required) ? "" : "    total=False,\n"})\n`;
  }

  #printBody(head: string, members: readonly Member[], doc?: string): string {
    const rows = members.map(
      ({ key, type, doc: note }) => `${printComment(note, "    ")}    ${key}: ${printAnnotation(type)}\n`,
    );
    const text = printDocstring(doc === undefined ? [] : [doc], "    ");
    const gap = text !== "" && rows.length > 0 ? "\n" : "";
    return `${head}:\n${text}${gap}${rows.join("") || (text === "" ? "    pass\n" : "")}`;
  }

  /** A class cannot have members that are not names, that it would rename, or that hide a type. */
  #mustBeCall(members: readonly Member[]): boolean {
    return members.some(
      ({ key }) =>
        !/^[A-Za-z_]\w*$/.test(key) || key.startsWith("__") || isKeyword(key) || this.#taken.has(key),
    );
  }
}

interface Fields {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly required: readonly unknown[];
}

function mergeFields(all: readonly Fields[]): Fields {
  return {
    properties: Object.assign({}, ...all.map(({ properties }) => properties)) as Fields["properties"],
    required: all.flatMap(({ required }) => required),
  };
}

function total(members: readonly Member[]): string {
  return members.length > 0 && members.every(({ required }) => !required) ? ", total=False" : "";
}

/** Distinguishes a branch of a union from the others: its tag, or else its position. */
function branchName(branch: unknown, index: number): string {
  const tags = Object.values(objectAt(branch, "properties")).map(
    (property) => objectAt({ property }, "property")["const"],
  );
  const tag = tags.find((value) => typeof value === "string");
  return typeof tag === "string" ? className(tag) : `Option${index + 1}`;
}

/** Python has no literal of a number with a fraction. */
function literalOf(values: readonly unknown[]): PyType {
  return unionOf(
    values.map((value): PyType => {
      if (value === null) return NONE;
      if (typeof value === "string") return { kind: "literal", values: [printString(value)] };
      if (typeof value === "boolean") return { kind: "literal", values: [value ? "True" : "False"] };
      if (Number.isSafeInteger(value)) return { kind: "literal", values: [String(value)] };
      return typeof value === "number" ? { kind: "plain", text: "float" } : ANY;
    }),
  );
}
