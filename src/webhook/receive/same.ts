import { isExactNumber } from "../../base/json/exact-json.ts";

/**
 * Whether two JSON values are the same: types count, the order of names does not. Between a number in its own digits and
 * one of the language, what the language can hold of both is compared.
 */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (isExactNumber(a)) return isExactNumber(b) ? a.rawJSON === b.rawJSON : Number(a.rawJSON) === b;
  if (isExactNumber(b)) return a === Number(b.rawJSON);
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every(
    (name) => Object.hasOwn(b, name) && isSameJson(a[name as keyof typeof a], b[name as keyof typeof b]),
  );
}
