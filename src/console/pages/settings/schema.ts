/** The settings that a JSON Schema of the configuration describes, and changes of them. Pure. */

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type JsonObject = { readonly [name: string]: Json };

/** The part of JSON Schema that the configuration uses. */
export interface Schema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly type?: string;
  readonly title?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly string[];
  readonly const?: Json;
  readonly default?: Json;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly "x-applies"?: "live" | "reload";
  readonly "x-secret"?: boolean;
  readonly "x-env"?: readonly string[];
}

export type SettingKind = "text" | "number" | "switch" | "choice" | "list" | "json" | "secret";

export interface Setting {
  readonly path: readonly string[];
  /** The path with dots. */
  readonly key: string;
  readonly kind: SettingKind;
  readonly description: string;
  readonly choices: readonly string[];
  readonly default: Json | undefined;
  /** Least and most; undefined: no bound. */
  readonly minimum: number | undefined;
  readonly maximum: number | undefined;
  /** When a change takes effect. */
  readonly applies: "live" | "reload" | "restart";
  /** The variable that also sets it. */
  readonly variable: string | undefined;
  readonly isNumeric: boolean;
}

export interface Section {
  readonly name: string;
  readonly description: string;
  readonly settings: readonly Setting[];
}

const GENERAL = "general";
/** Fields that stand beside it as well. */
const REPEATED = "extra";

/** Returns the sections of the file. Keys at its top are one section, the first. */
export function sectionsOf(root: Schema): readonly Section[] {
  const entries = Object.entries(root.properties ?? {}).map(
    ([name, schema]) => [name, resolved(root, schema)] as const,
  );
  const inSections = entries.filter(([, { properties }]) => properties !== undefined);
  const others = entries.filter(
    ([, { properties, const: fixed }]) => properties === undefined && fixed === undefined,
  );
  const general = others.flatMap(([name, schema]) =>
    settingsOf(root, schema, { path: [name], applies: "restart" }),
  );
  const sections = inSections.map(([name, schema]) => ({
    name,
    description: schema.description ?? "",
    settings: settingsOf(root, schema, { path: [name], applies: "restart" }),
  }));
  return [
    ...sections,
    { name: GENERAL, description: "What belongs to no other section.", settings: general },
  ];
}

function resolved(root: Schema, { $ref, ...own }: Schema): Schema {
  const target = $ref === undefined ? undefined : root.$defs?.[$ref.split("/").at(-1) ?? ""];
  return target ? { ...resolved(root, target), ...own } : own;
}

interface At {
  readonly path: readonly string[];
  readonly applies: Setting["applies"];
}

function settingsOf(root: Schema, schema: Schema, at: At): readonly Setting[] {
  const applies = schema["x-applies"] ?? at.applies;
  const { properties } = schema;
  if (!properties || schema["x-secret"]) return [settingOf(schema, { ...at, applies })];
  return Object.entries(properties)
    .filter(([name]) => name !== REPEATED)
    .flatMap(([name, child]) =>
      settingsOf(root, resolved(root, child), { path: [...at.path, name], applies }),
    );
}

function settingOf(schema: Schema, { path, applies }: At): Setting {
  return {
    path,
    key: path.join("."),
    kind: kindOf(schema),
    description: schema.description ?? "",
    choices: schema.enum ?? [],
    default: schema.default,
    minimum: schema.minimum,
    maximum: schema.maximum,
    applies,
    variable: schema["x-env"]?.[0],
    isNumeric: isNumber(schema.items?.type),
  };
}

function kindOf({ type, enum: choices, items, "x-secret": isSecret }: Schema): SettingKind {
  if (isSecret && type === "string") return "secret";
  if (choices) return "choice";
  if (type === "boolean") return "switch";
  if (isNumber(type)) return "number";
  if (type === "string") return "text";
  return type === "array" && (items?.type === "string" || isNumber(items?.type)) ? "list" : "json";
}

function isNumber(type: string | undefined): boolean {
  return type === "number" || type === "integer";
}

/** Returns the settings whose name or description has all words of the search. */
export function searched(settings: readonly Setting[], search: string): readonly Setting[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return settings.filter(({ key, description }) => {
    const text = `${key} ${description}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** Returns what is at the path; undefined: nothing. */
export function valueAt(value: unknown, path: readonly string[]): Json | undefined {
  return path.reduce<unknown>(
    (each, name) =>
      typeof each === "object" && each !== null ? (each as Record<string, unknown>)[name] : undefined,
    value,
  ) as Json | undefined;
}

/** Returns a value as its input shows it. */
export function textOf({ kind }: Setting, value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (kind === "list") return (value as readonly Json[]).map(String).join("\n");
  if (kind === "json") return JSON.stringify(value, null, 2);
  return String(value);
}

/** Returns the value of an input's text; undefined: none, so that the default applies. Throws SyntaxError. */
export function parsed({ kind, isNumeric }: Setting, text: string): Json | undefined {
  switch (kind) {
    case "switch":
      return text === "true";
    case "number":
      return text.trim() === "" ? undefined : Number(text);
    case "list": {
      const lines = text.split("\n").map((line) => line.trim());
      const items = lines.filter((line) => line !== "");
      return isNumeric ? items.map(Number) : items;
    }
    case "json":
      return text.trim() === "" ? undefined : (JSON.parse(text) as Json);
    default:
      return text === "" ? undefined : text;
  }
}

/** One key that the user changed. */
export interface Edit {
  readonly setting: Setting;
  /** Undefined: the key is removed from the file. */
  readonly value: Json | undefined;
}

/** Returns the merge patch of these edits against the file: exactly the changed keys. */
export function patchOf(edits: readonly Edit[], file: unknown): JsonObject {
  const patch: Record<string, Json> = {};
  for (const { setting, value } of edits) {
    const before = valueAt(file, setting.path);
    const change = value === undefined ? null : difference(before, value);
    if (change === undefined) continue;
    place(patch, setting.path, change);
  }
  return patch;
}

function place(patch: Record<string, Json>, path: readonly string[], value: Json): void {
  const [name = "", ...rest] = path;
  if (rest.length === 0) {
    patch[name] = value;
    return;
  }
  const inner = { ...(patch[name] as JsonObject | undefined) };
  place(inner, rest, value);
  patch[name] = inner;
}

/** The merge patch from one value to another; undefined when they are the same. Lists are replaced as a whole. */
function difference(before: Json | undefined, after: Json): Json | undefined {
  if (JSON.stringify(before) === JSON.stringify(after)) return undefined;
  if (!isObject(before) || !isObject(after)) return after;
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const changes: [string, Json][] = [];
  for (const name of names) {
    const next = after[name];
    const change = next === undefined ? null : difference(before[name], next);
    if (change !== undefined) changes.push([name, change]);
  }
  return Object.fromEntries(changes);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the keys that differ between two files, with both values. */
export function changedKeys(
  before: Json | undefined,
  after: Json | undefined,
  path: readonly string[] = [],
): readonly { readonly key: string; readonly before: Json | undefined; readonly after: Json | undefined }[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const [old, next] = [before ?? (isObject(after) ? {} : before), after ?? (isObject(before) ? {} : after)];
  if (!isObject(old) || !isObject(next)) return [{ key: path.join("."), before, after }];
  const names = new Set([...Object.keys(old), ...Object.keys(next)]);
  return [...names].flatMap((name) => changedKeys(old[name], next[name], [...path, name]));
}
