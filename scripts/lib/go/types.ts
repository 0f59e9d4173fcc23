/** Prints the Go types of all component schemas, and of the inline ones that come up. */
import type { ClientLanguage } from "../client-method.ts";
import {
  componentName,
  componentSchemas,
  dereference,
  isObject,
  listAt,
  objectAt,
  SpecError,
  stringAt,
  type BundledDocument,
  type Schema,
} from "../document.ts";
import {
  alignRows,
  docComment,
  exportedName,
  goString,
  localName,
  printFields,
  takeGoName,
  type GoField,
} from "./text.ts";
import { KINDS, printMixed, printTagged, type Variant } from "./unions.ts";

export interface GoType {
  /** As it is written where a value must be. */
  readonly text: string;
  /** `nil` is a value of it: slices, maps and any. */
  readonly hasNil: boolean;
  /** Its zero value is none of its values: enums of texts. */
  readonly hasNoZero: boolean;
  /** A struct is returned by pointer. */
  readonly isStruct: boolean;
  /** null is one of its values. */
  readonly nullable: boolean;
}

const plain = (text: string, more: Partial<GoType> = {}): GoType => ({
  text,
  hasNil: false,
  hasNoZero: false,
  isStruct: false,
  nullable: false,
  ...more,
});
const ANY = plain("any", { hasNil: true, nullable: true });
const SCALARS: Readonly<Record<string, GoType>> = {
  string: plain("string"),
  integer: plain("int64"),
  number: plain("float64"),
  boolean: plain("bool"),
};
/** Keywords that change which values fit, and that no Go type here can express. */
const UNKNOWN = ["anyOf", "not", "if", "prefixItems", "patternProperties", "$dynamicRef", "dependentSchemas"];

interface Fields {
  readonly properties: Readonly<Record<string, unknown>>;
  readonly required: readonly unknown[];
}

export class GoTypes implements ClientLanguage<GoType> {
  readonly none = plain("");
  readonly text = plain("string");
  readonly bytes = plain("[]byte", { hasNil: true });
  readonly reserved = ["c", "ctx", "body", "params", "options", "request"];
  readonly #document: BundledDocument;
  /** Stands before the names of the shared runtime, such as `agentd.`. */
  readonly #prefix: string;
  readonly #taken: Set<string>;
  readonly #components = new Map<string, GoType>();
  readonly #pending = new Set<string>();
  readonly #unions = new Map<string, GoType>();
  readonly #declarations: string[] = [];
  readonly #problems: string[] = [];

  /** `taken` are the exported names of the runtime. Throws SpecError for schemas that it does not understand. */
  constructor(document: BundledDocument, { prefix, taken }: { prefix: string; taken: readonly string[] }) {
    this.#document = document;
    this.#prefix = prefix;
    this.#taken = new Set(taken);
    const names = Object.keys(componentSchemas(document));
    // Before anything inline, so that components keep their names.
    for (const name of names) if (this.#isNamed(name)) this.#taken.add(exportedName(name));
    for (const name of names) this.#ofComponent(name);
  }

  of(schema: unknown, hint: string): GoType {
    if (!isObject(schema)) return ANY;
    if ("$ref" in schema) return this.#ofReference(schema["$ref"], hint);
    const type = this.#ofSchema(schema, hint, undefined);
    return schema["nullable"] === true ? { ...type, nullable: true } : type;
  }

  ofParameter(schema: unknown, hint: string): GoType {
    return { ...this.of(schema, hint), nullable: false };
  }

  nameMethod(words: string, taken: Set<string>): string {
    return takeGoName(exportedName(words), taken);
  }

  nameArgument(name: string, taken: Set<string>): string {
    return takeGoName(localName(name), taken);
  }

  /** A name for a declaration of the caller. */
  takeName(wanted: string): string {
    return takeGoName(wanted, this.#taken);
  }

  /** Records what the caller does not understand. */
  refuse(at: string, what: string): void {
    this.#problems.push(`${at}: ${what}; teach scripts/lib/go how to print it`);
  }

  /** All declarations that were asked for. Throws SpecError for what could not be printed. */
  print(): string {
    if (this.#problems.length > 0) throw new SpecError(this.#problems);
    return this.#declarations.join("\n");
  }

  /** A field of a struct: its name, its type and its tag. */
  printField(name: string, key: string, type: GoType, required: boolean): readonly string[] {
    const option = required ? "" : ",omitempty";
    return [name, this.#printFieldType(type, required), `\`json:"${key}${option}"\``];
  }

  #printFieldType(type: GoType, required: boolean): string {
    if (type.text === "any") return "any";
    if (required) return type.nullable && !type.hasNil ? `*${type.text}` : type.text;
    if (type.nullable) return `${this.#prefix}Nullable[${type.text}]`;
    return type.hasNil || type.hasNoZero ? type.text : `*${type.text}`;
  }

  #ofComponent(name: string): GoType {
    const known = this.#components.get(name);
    if (known !== undefined) return known;
    const schema = componentSchemas(this.#document)[name] ?? {};
    if (this.#isNamed(name)) {
      // Known before its members are read: it may contain itself.
      const type = plain(exportedName(name), {
        isStruct: !isEnum(schema),
        hasNoZero: isEnum(schema),
        nullable: allowsNull(schema),
      });
      this.#components.set(name, type);
      this.#ofSchema(schema, name, type.text);
      return type;
    }
    if (this.#pending.has(name)) {
      this.refuse(`schema ${name}`, "a list or map that contains itself");
      return ANY;
    }
    this.#pending.add(name);
    const type = this.of(schema, name);
    this.#components.set(name, type);
    return type;
  }

  /** Whether the component is a struct, a union or an enum, and not only another name of a list or a text. */
  #isNamed(name: string): boolean {
    const schema = componentSchemas(this.#document)[name] ?? {};
    if (isEnum(schema) || this.#fieldsOf(schema) !== undefined) return true;
    return this.#branchesOf(schema).length > 1;
  }

  #ofReference(reference: unknown, hint: string): GoType {
    const component = componentName(reference);
    if (component !== undefined) return this.#ofComponent(component);
    return this.of(dereference(this.#document, { $ref: reference }), hint);
  }

  /** `name` is that of the component; undefined for an inline schema. */
  #ofSchema(schema: Schema, hint: string, name: string | undefined): GoType {
    for (const keyword of UNKNOWN) if (keyword in schema) this.refuse(hint, `the keyword ${keyword}`);
    const nullable = allowsNull(schema);
    if (isEnum(schema)) return this.#declareEnum(schema, hint, name);
    if ("const" in schema) return this.#ofConst(schema["const"], hint);
    const fields = this.#fieldsOf(schema);
    if (fields !== undefined) return { ...this.#declareStruct(schema, fields, hint, name), nullable };
    const branches = this.#branchesOf(schema);
    if (branches.length > 1) return { ...this.#ofUnion(schema, branches, hint, name), nullable };
    const [only] = branches;
    if (only === undefined) return ANY;
    if (only !== schema) {
      const type = this.of(only, hint);
      return { ...type, nullable: nullable || type.nullable };
    }
    return { ...this.#ofKind(kindsOf(schema)[0], schema, hint), nullable };
  }

  #ofKind(kind: string | undefined, schema: Schema, hint: string): GoType {
    if (kind === "array")
      return plain(`[]${this.#element(this.of(schema["items"], `${hint}-item`))}`, { hasNil: true });
    if (kind === "object") {
      const { additionalProperties: values } = schema;
      const value = isObject(values) ? this.#element(this.of(values, `${hint}-value`)) : "any";
      return plain(`map[string]${value}`, { hasNil: true });
    }
    const scalar = kind === undefined ? ANY : SCALARS[kind];
    if (scalar === undefined) this.refuse(hint, `the type ${kind}`);
    return scalar ?? ANY;
  }

  #element(type: GoType): string {
    return type.nullable && !type.hasNil ? `*${type.text}` : type.text;
  }

  #ofConst(value: unknown, hint: string): GoType {
    if (typeof value === "string") return plain("string");
    if (typeof value === "boolean") return plain("bool");
    if (typeof value === "number") return plain(Number.isInteger(value) ? "int64" : "float64");
    this.refuse(hint, `the constant ${JSON.stringify(value)}`);
    return ANY;
  }

  #declareEnum(schema: Schema, hint: string, known: string | undefined): GoType {
    const name = known ?? this.takeName(exportedName(hint));
    const values = listAt(schema, "enum").filter((value) => typeof value === "string");
    const rows = values.map((value) => {
      const constant = this.takeName(`${name}${exportedName(value.replaceAll("*", "all"))}`);
      return [constant, name, `= ${goString(value)}`];
    });
    this.#declarations.push(
      `${docComment(name, stringAt(schema, "description") ?? `one of ${values.map(goString).join(", ")}. A newer server may send others.`)}type ${name} string\n\n` +
        `// The values of ${name}.\nconst (\n${alignRows(rows)})\n`,
    );
    return plain(name, { hasNoZero: true, nullable: listAt(schema, "enum").includes(null) });
  }

  #declareStruct(schema: Schema, { properties, required }: Fields, hint: string, known?: string): GoType {
    const name = known ?? this.takeName(exportedName(hint));
    const taken = new Set<string>(["MarshalJSON"]);
    const constants: string[] = [];
    const fields = Object.entries(properties).map(([key, value]): GoField => {
      const field = takeGoName(exportedName(key), taken);
      const resolved = dereference(this.#document, value);
      const isRequired = required.includes(key);
      if (isRequired && typeof resolved["const"] === "string")
        constants.push(`\tv.${field} = ${goString(resolved["const"])}\n`);
      const type = this.of(value, `${name}-${key}`);
      const doc = stringAt(objectAt(properties, key), "description");
      return { doc, cells: this.printField(field, key, type, isRequired) };
    });
    const body = fields.length === 0 ? "{}\n" : ` {\n${printFields(fields)}}\n`;
    const doc = docComment(name, stringAt(schema, "description"));
    this.#declarations.push(`${doc}type ${name} struct${body}${printConstants(name, constants)}`);
    return plain(name, { isStruct: true });
  }

  /** The named members of an object schema, merged over `allOf`; undefined for anything else. */
  #fieldsOf(schema: Schema): Fields | undefined {
    const parts = listAt(schema, "allOf");
    if (parts.length > 0) {
      const { allOf: _parts, ...own } = schema;
      const all = [...parts.map((part) => dereference(this.#document, part)), own]
        .filter((part, at) => at < parts.length || Object.keys(objectAt(part, "properties")).length > 0)
        .map((part) => this.#fieldsOf(part));
      const found = all.filter((part) => part !== undefined);
      if (found.length < all.length) return undefined;
      return {
        properties: Object.assign({}, ...found.map((part) => part.properties)) as Fields["properties"],
        required: [...listAt(own, "required"), ...found.flatMap((part) => part.required)],
      };
    }
    if ("oneOf" in schema) return undefined;
    const properties = objectAt(schema, "properties");
    const hasNames = Object.keys(properties).length > 0;
    const kinds = kindsOf(schema);
    const isType = kinds.length === 1 ? kinds[0] === "object" : kinds.length === 0 && hasNames;
    if (!isType || (!hasNames && schema["additionalProperties"] !== false)) return undefined;
    return { properties, required: listAt(schema, "required") };
  }

  /** What a value may be, without null: the branches of a union, or one for each type that is listed. */
  #branchesOf(schema: Schema): readonly Schema[] {
    const parts = listAt(schema, "oneOf").filter(isObject);
    const flat = parts.flatMap((part) => {
      const resolved = dereference(this.#document, part);
      // A union within a union of other kinds is one of them all.
      const isMixed = "oneOf" in resolved && this.#variantsKind(resolved) !== "object";
      return isMixed ? this.#branchesOf(resolved) : [part];
    });
    if (parts.length > 0) return flat.filter((part) => part["type"] !== "null");
    if (listAt(schema, "allOf").length > 0) return listAt(schema, "allOf").filter(isObject).slice(0, 1);
    const kinds = kindsOf(schema);
    return kinds.length <= 1 ? [schema] : kinds.map((type) => ({ ...schema, type }));
  }

  /** The kind of all branches, or "mixed". */
  #variantsKind(schema: Schema): string {
    const kinds = new Set(this.#branchesOf(schema).map((branch) => this.#kindOf(branch)));
    return kinds.size === 1 ? ([...kinds][0] ?? "mixed") : "mixed";
  }

  #kindOf(branch: Schema): string {
    const schema = dereference(this.#document, branch);
    if ("oneOf" in schema) return this.#variantsKind(schema);
    if (this.#fieldsOf(schema) !== undefined) return "object";
    if ("const" in schema) return typeof schema["const"];
    return kindsOf(schema)[0] ?? "any";
  }

  #ofUnion(schema: Schema, branches: readonly Schema[], hint: string, known?: string): GoType {
    const kinds = new Map<string, Schema[]>();
    for (const branch of branches) {
      const kind = this.#kindOf(branch).replace("integer", "number");
      kinds.set(kind, [...(kinds.get(kind) ?? []), branch]);
    }
    if (kinds.has("any") || kinds.has("mixed")) return ANY;
    const signature = JSON.stringify(branches);
    const same = known === undefined ? this.#unions.get(signature) : undefined;
    if (same !== undefined) return same;
    if (kinds.size === 1 && known === undefined) {
      const [kind = ""] = kinds.keys();
      if (kind === "string") return plain("string");
      if (kind === "number") return plain("float64");
    }
    const name = known ?? this.takeName(exportedName(hint));
    const isTagged = kinds.size === 1 && kinds.has("object");
    if (isTagged) this.#declareTagged(schema, branches, name);
    else this.#declareMixed(schema, kinds, name);
    const type = plain(name, { isStruct: true });
    this.#unions.set(signature, type);
    return type;
  }

  /** A union of values of several kinds, such as a text or a list of parts. */
  #declareMixed(schema: Schema, kinds: ReadonlyMap<string, readonly Schema[]>, name: string): void {
    const rows = [...kinds].map(([kind, branches]) => {
      const [first] = branches;
      const merged = branches.length === 1 ? first : { oneOf: branches };
      // Texts of an enum, or any text.
      const type =
        kind === "string" ? plain("string") : this.of(merged, `${name}-${kind === "array" ? "list" : kind}`);
      const marker = KINDS[kind];
      if (marker === undefined) this.refuse(name, `a branch of the kind ${kind}`);
      return { marker, text: type.isStruct ? `*${type.text}` : type.text };
    });
    this.#declarations.push(printMixed(name, stringAt(schema, "description"), rows));
  }

  /** A union of objects, which are recognised by a tag or else by the members that they must have. */
  #declareTagged(schema: Schema, branches: readonly Schema[], name: string): void {
    const value = this.takeName(`${name}Value`);
    const tag = this.#tagOf(branches);
    const variants = branches.map((branch, at): Variant => {
      const resolved = dereference(this.#document, branch);
      const type = this.of(branch, `${name}-option${at + 1}`);
      const fields = this.#fieldsOf(resolved);
      if (!type.isStruct || fields === undefined) this.refuse(name, `branch ${at + 1} of its union`);
      const required = (fields?.required ?? []).map(String).toSorted();
      return { text: type.text, required, tags: tag === undefined ? [] : this.#tagsOf(branch, tag) };
    });
    if (tag === undefined) this.#checkMembers(name, variants);
    this.#declarations.push(
      printTagged(name, value, { doc: stringAt(schema, "description"), tag, variants }),
    );
  }

  /** The member that has other constants in each branch. */
  #tagOf(branches: readonly Schema[]): string | undefined {
    const [first = {}] = branches;
    const names = Object.keys(this.#fieldsOf(dereference(this.#document, first))?.properties ?? {});
    return names.find((name) => {
      const tags = branches.map((branch) => this.#tagsOf(branch, name));
      const all = tags.flat();
      return tags.every((each) => each.length > 0) && new Set(all).size === all.length;
    });
  }

  #tagsOf(branch: Schema, name: string): readonly string[] {
    const fields = this.#fieldsOf(dereference(this.#document, branch));
    const member = dereference(this.#document, fields?.properties[name]);
    const values = "const" in member ? [member["const"]] : listAt(member, "enum");
    return values.filter((value) => typeof value === "string");
  }

  #checkMembers(name: string, variants: readonly Variant[]): void {
    const sets = variants.map(({ required }) => required.join());
    if (new Set(sets).size < sets.length || sets.includes(""))
      this.refuse(name, "a union of objects with neither a tag nor required members that differ");
  }
}

function isEnum(schema: Schema): boolean {
  const values = listAt(schema, "enum").filter((value) => value !== null);
  return values.length > 0 && values.every((value) => typeof value === "string");
}

function kindsOf(schema: Schema): readonly string[] {
  const { type } = schema;
  const listed: readonly unknown[] = Array.isArray(type) ? type : [type];
  return listed.filter((each) => typeof each === "string").filter((each) => each !== "null");
}

function allowsNull(schema: Schema): boolean {
  const { type } = schema;
  return (
    (Array.isArray(type) && type.includes("null")) ||
    listAt(schema, "enum").includes(null) ||
    listAt(schema, "oneOf").some((branch) => isObject(branch) && branch["type"] === "null")
  );
}

/** Callers need not write what can only have one value. */
function printConstants(name: string, rows: readonly string[]): string {
  if (rows.length === 0) return "";
  return `
// MarshalJSON implements json.Marshaler. It sets the members that can only have one value.
func (v ${name}) MarshalJSON() ([]byte, error) {
	type plain ${name}
${rows.join("")}	return json.Marshal(plain(v))
}
`;
}
