/** Finds changes that the differ calls breaking, with which clients of the older contract still work. */
import { isDeepStrictEqual } from "node:util";

/** A change in the differ's report, as far as it is read here. */
export interface DiffChange {
  readonly path: string;
  readonly impact: string;
  readonly verdicts: readonly {
    readonly ruleId: string;
    readonly impact: string;
    readonly message: string;
  }[];
  readonly base?: { readonly pointer: string; readonly value: unknown };
}

/** The documents that were compared. */
export interface Compared {
  readonly base: unknown;
  readonly revision: unknown;
}

/** What became of the changes that the differ calls major. */
export interface Decision {
  /** Number of the changes that break clients. */
  readonly breaking: number;
  /** Each of the others, and why it breaks no client. */
  readonly compatible: readonly string[];
}

/** Looks at each major change between two documents. */
export function decideChanges(changes: readonly DiffChange[], compared: Compared): Decision {
  const reasons = changes.flatMap((change) =>
    change.verdicts
      .filter(({ impact }) => impact === "major")
      .map(({ ruleId, message }) => {
        const why = becameList(change, compared) ?? grewAsAnnounced(ruleId, change, compared);
        return why === undefined ? undefined : `${message} ${why}`;
      }),
  );
  const compatible = reasons.filter((reason) => reason !== undefined);
  return { breaking: reasons.length - compatible.length, compatible };
}

function grewAsAnnounced(ruleId: string, { base }: DiffChange, compared: Compared): string | undefined {
  if (ruleId !== "enum-values-added" || !base) return undefined;
  const schema = asRecord(find(compared.base, base.pointer.replace(/\/enum$/, "")));
  return schema["x-open-enum"] === true
    ? "Its description said that values may be added (x-open-enum)."
    : undefined;
}

/** The differ says so in several ways, by where the parameter stands now. */
function becameList({ path, base }: DiffChange, compared: Compared): string | undefined {
  const [, place, index] = /^(#\/paths\/[^/]+\/[^/]+\/parameters)\/(\d+)(?:\/|$)/.exec(path) ?? [];
  if (place === undefined) return undefined;
  const [older, newer] = [compared.base, compared.revision].map((document) => {
    const list = find(document, place);
    return Array.isArray(list) ? list.map((each) => resolved(each, document)) : [];
  });
  const isRemoved = path === `${place}/${index}` && base !== undefined;
  const { name, in: where } = (isRemoved ? older : newer)?.[Number(index)] ?? {};
  const isIt = (each: JsonObject) => each["name"] === name && each["in"] === where;
  const [before, now] = [older?.find(isIt), newer?.find(isIt)];
  return before && now && takesListOf(before, now, compared)
    ? "It takes a list, and what was sent before is one of a single value."
    : undefined;
}

/** Whether a parameter of one value became one of several of the same, separated by commas. */
function takesListOf(before: JsonObject, now: JsonObject, { base, revision }: Compared): boolean {
  const schema = resolved(now["schema"], revision);
  if (now["in"] !== "query" || now["style"] !== "form" || now["explode"] !== false) return false;
  if (schema["type"] !== "array" || now["required"] !== before["required"]) return false;
  const [one, item] = [resolved(before["schema"], base), resolved(schema["items"], revision)];
  const { enum: values, ...rest } = item;
  const { enum: earlier, ...others } = one;
  const keepsValues =
    values === undefined || (Array.isArray(earlier) && earlier.every((each) => includes(values, each)));
  return keepsValues && isDeepStrictEqual(withoutWords(rest), withoutWords(others));
}

type JsonObject = Readonly<Record<string, unknown>>;

const includes = (values: unknown, value: unknown): boolean =>
  Array.isArray(values) && values.includes(value);

/** What a schema says to people changes nothing for programs. */
function withoutWords({ description: _, title: __, ...rest }: JsonObject): JsonObject {
  return rest;
}

function resolved(part: unknown, document: unknown): JsonObject {
  const { $ref: reference } = asRecord(part);
  return typeof reference === "string" ? resolved(find(document, reference), document) : asRecord(part);
}

function asRecord(value: unknown): JsonObject {
  return typeof value === "object" && value !== null ? (value as JsonObject) : {};
}

/** The part of a document that a JSON pointer names, as `#/...`. */
function find(document: unknown, pointer: string): unknown {
  const names = pointer.slice("#/".length).split("/");
  return names.reduce<unknown>(
    (part, name) => asRecord(part)[name.replaceAll("~1", "/").replaceAll("~0", "~")],
    document,
  );
}
