/** A Python type as data, and how it is written in the two places where one can stand. */

export type PyType =
  /** A class or alias of types.py. */
  | { readonly kind: "name"; readonly name: string }
  /** `str`, `Any`, `None` and their like. */
  | { readonly kind: "plain"; readonly text: string }
  | { readonly kind: "literal"; readonly values: readonly string[] }
  | { readonly kind: "list"; readonly item: PyType }
  | { readonly kind: "dict"; readonly value: PyType }
  | { readonly kind: "union"; readonly of: readonly PyType[] };

export const ANY: PyType = { kind: "plain", text: "Any" };
export const NONE: PyType = { kind: "plain", text: "None" };

/** The union of `types`: flat, each member once, literals together, None last; Any swallows the others. */
export function unionOf(types: readonly PyType[]): PyType {
  const flat = types.flatMap((type) => (type.kind === "union" ? type.of : [type]));
  if (flat.length === 0 || flat.some((type) => printQuoted(type) === "Any")) return ANY;
  const values = [...new Set(flat.flatMap((type) => (type.kind === "literal" ? type.values : [])))];
  const merged = flat.map((type): PyType => (type.kind === "literal" ? { kind: "literal", values } : type));
  const unique = [...new Map(merged.map((type) => [printQuoted(type), type])).values()];
  const ordered = [...unique.filter((type) => !isNone(type)), ...unique.filter(isNone)];
  const [only] = ordered;
  return ordered.length === 1 && only !== undefined ? only : { kind: "union", of: ordered };
}

/** Without None. */
export function withoutNone(type: PyType): PyType {
  return type.kind === "union" ? unionOf(type.of.filter((member) => !isNone(member))) : type;
}

/** For annotations, which are never evaluated. `prefix` stands before names, such as `types.`. */
export function printAnnotation(type: PyType, prefix = ""): string {
  switch (type.kind) {
    case "name":
      return prefix + type.name;
    case "plain":
      return type.text;
    case "literal":
      return `Literal[${type.values.join(", ")}]`;
    case "list":
      return `list[${printAnnotation(type.item, prefix)}]`;
    case "dict":
      return `dict[str, ${printAnnotation(type.value, prefix)}]`;
    case "union":
      return type.of.map((member) => printAnnotation(member, prefix)).join(" | ");
  }
}

/** For expressions, which are evaluated: names may not exist yet, so they stand in quotes. */
export function printQuoted(type: PyType): string {
  switch (type.kind) {
    case "name":
      return `"${type.name}"`;
    case "list":
      return `list[${printQuoted(type.item)}]`;
    case "dict":
      return `dict[str, ${printQuoted(type.value)}]`;
    case "union":
      return `Union[${type.of.map(printQuoted).join(", ")}]`;
    case "plain":
    case "literal":
      return printAnnotation(type);
  }
}

function isNone(type: PyType): boolean {
  return type.kind === "plain" && type.text === "None";
}
