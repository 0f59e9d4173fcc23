/** The beginning of a value as indented JSON. Pure. */
import { headOf } from "../../base/text.ts";
import { isExactNumber } from "../../base/json/exact-json.ts";

const INDENT = "  ";

/**
 * The first `max` characters of `JSON.stringify(value, undefined, 2)`, never ending between the halves of a character.
 * What lies behind them is not looked at: a long payload costs no more than a short one.
 */
export function jsonExcerpt(value: unknown, max: number): string {
  const excerpt = new Excerpt(max);
  excerpt.write(value, "\n");
  return headOf(excerpt.text, max);
}

class Excerpt {
  readonly #max: number;
  text = "";

  constructor(max: number) {
    this.#max = max;
  }

  get #left(): number {
    return this.#max - this.text.length;
  }

  /** `line` begins the lines of what encloses the value: a line break and its indent. */
  write(value: unknown, line: string): void {
    if (typeof value === "string") this.#string(value);
    else if (Array.isArray(value)) this.#list(value, line);
    else if (typeof value === "object" && value !== null && !isExactNumber(value)) this.#object(value, line);
    else this.text += JSON.stringify(value) ?? "null";
  }

  /** JSON text is never shorter than the string: beyond what is left, and a half character, nothing counts. */
  #string(value: string): void {
    this.text += JSON.stringify(value.slice(0, Math.max(0, this.#left + 2)));
  }

  #list(list: readonly unknown[], line: string): void {
    if (list.length === 0) {
      this.text += "[]";
      return;
    }
    let before = "[";
    for (const each of list) {
      if (this.#left < 0) return;
      this.text += before + line + INDENT;
      this.write(each, line + INDENT);
      before = ",";
    }
    this.text += `${line}]`;
  }

  #object(object: object, line: string): void {
    let before = "{";
    // Unlike `Object.entries`, this does not copy all of a large object for the few names that are shown.
    for (const name in object) {
      if (!Object.hasOwn(object, name)) continue;
      if (this.#left < 0) return;
      this.text += before + line + INDENT;
      this.#string(name);
      this.text += ": ";
      this.write(object[name as keyof typeof object], line + INDENT);
      before = ",";
    }
    this.text += before === "{" ? "{}" : `${line}}`;
  }
}
