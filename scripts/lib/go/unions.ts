/** Prints the Go types of unions. */
import { alignRows, docComment, goString } from "./text.ts";

/** Kinds of JSON values, as the package wire names them. */
export const KINDS: Readonly<Record<string, string>> = {
  string: "wire.String",
  integer: "wire.Number",
  number: "wire.Number",
  boolean: "wire.Bool",
  array: "wire.Array",
  object: "wire.Object",
};

/** A branch of a union of objects, and how it is recognised. */
export interface Variant {
  /** The name of its struct. */
  readonly text: string;
  /** Values of the tag; none when it is recognised by its members. */
  readonly tags: readonly string[];
  readonly required: readonly string[];
}

interface Branch {
  readonly marker: string | undefined;
  readonly text: string;
}

/** A union of values of several kinds, such as a text or a list of parts. */
export function printMixed(name: string, doc: string | undefined, branches: readonly Branch[]): string {
  const types = branches.map(({ text }) => text).join(", ");
  const cases = branches.map(
    ({ marker, text }) => `\tcase ${marker}:\n\t\tv.Value, err = wire.Decode[${text}](data)\n`,
  );
  return `${docComment(name, doc ?? "a value of several kinds")}type ${name} struct {
	// Value is nil or one of: ${types}.
	Value any
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *${name}) UnmarshalJSON(data []byte) (err error) {
	switch wire.KindOf(data) {
${cases.join("")}	default:
		v.Value = nil
	}
	return err
}

// MarshalJSON implements json.Marshaler.
func (v ${name}) MarshalJSON() ([]byte, error) {
	switch v.Value.(type) {
	case nil, ${types}:
		return json.Marshal(v.Value)
	}
	return nil, fmt.Errorf("${name} cannot hold a %T", v.Value)
}
`;
}

interface TaggedUnion {
  readonly doc: string | undefined;
  /** The member that names the kind; undefined when the branches are recognised by their members. */
  readonly tag: string | undefined;
  readonly variants: readonly Variant[];
}

/** A union of objects. `value` is the name of the interface that its branches implement. */
export function printTagged(name: string, value: string, { doc, tag, variants }: TaggedUnion): string {
  const unique = [...new Map(variants.map((variant) => [variant.text, variant])).values()];
  const markers = unique.map(({ text }) => [`func (*${text}) is${name}()`, "{}"]);
  const decide = tag === undefined ? memberSwitch(variants) : tagSwitch(variants);
  return `${docComment(name, doc ?? "an object of several kinds")}type ${name} struct {
	// Value is nil for an object of a kind that this version does not know: then Raw has it.
	Value ${value}

	// Raw is the JSON that the object was read from.
	Raw json.RawMessage
}

// ${value} is one of: ${unique.map(({ text }) => `*${text}`).join(", ")}.
type ${value} interface{ is${name}() }

${alignRows(markers, "")}${tag === undefined ? "" : printKind(name, tag, unique)}
// UnmarshalJSON implements json.Unmarshaler.
func (v *${name}) UnmarshalJSON(data []byte) error {
	v.Raw, v.Value = wire.Clone(data), nil
	switch ${tag === undefined ? "" : `wire.Member(data, ${goString(tag)}) `}{
${decide}	default:
		return nil
	}
	return json.Unmarshal(data, v.Value)
}

// MarshalJSON implements json.Marshaler.
func (v ${name}) MarshalJSON() ([]byte, error) {
	if v.Value == nil && v.Raw != nil {
		return v.Raw, nil
	}
	return json.Marshal(v.Value)
}
`;
}

function printKind(name: string, tag: string, variants: readonly Variant[]): string {
  const rows = variants.flatMap(({ text, tags }) =>
    tags.length === 1 ? [`\tcase *${text}:\n\t\treturn ${goString(tags[0] ?? "")}\n`] : [],
  );
  const body = rows.length === 0 ? "" : `\tswitch v.Value.(type) {\n${rows.join("")}\t}\n`;
  return `
// Kind returns the member \`${tag}\`.
func (v ${name}) Kind() string {
${body}	return wire.Member(v.Raw, ${goString(tag)})
}
`;
}

function tagSwitch(variants: readonly Variant[]): string {
  return variants
    .map(({ text, tags }) => `\tcase ${tags.map(goString).join(", ")}:\n\t\tv.Value = new(${text})\n`)
    .join("");
}

/** The branch that asks for most comes first. */
function memberSwitch(variants: readonly Variant[]): string {
  return variants
    .toSorted((a, b) => b.required.length - a.required.length)
    .map(({ text, required }) => {
      const names = required.map(goString).join(", ");
      return `\tcase wire.Has(data, ${names}):\n\t\tv.Value = new(${text})\n`;
    })
    .join("");
}
