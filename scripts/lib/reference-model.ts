/** What a reference is made of, before it is Markdown or a page: sections of blocks of spans. */

/** A piece of a line: words, something to type, or a link to the section `to`. */
export type Span =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "link"; readonly text: string; readonly to: string };

export type Line = readonly Span[];

export type Block =
  | { readonly kind: "paragraph"; readonly line: Line }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | { readonly kind: "table"; readonly head: readonly string[]; readonly rows: readonly (readonly Line[])[] };

export interface Section {
  /** Anchor, unique in its document. */
  readonly id: string;
  readonly title: string;
  /** The method of an operation: a badge on the page. */
  readonly badge?: string;
  /** What the navigation says, when the section has a place there. */
  readonly nav?: string;
  readonly blocks: readonly Block[];
  readonly sections?: readonly Section[];
}

export interface Reference {
  readonly title: string;
  readonly version: string;
  readonly blocks: readonly Block[];
  readonly sections: readonly Section[];
}

export function text(words: string): Span {
  return { kind: "text", text: words };
}

export function code(typed: string): Span {
  return { kind: "code", text: typed };
}

/** JSON data as one would type it. */
export function data(value: unknown): Span {
  return code(JSON.stringify(value) ?? "undefined");
}

export function link(words: string, to: string): Span {
  return { kind: "link", text: words, to };
}

/** One line of prose: what stands between backticks is code. */
export function prose(words: string): Line {
  return words
    .trim()
    .replaceAll(/\s+/g, " ")
    .split(/(`[^`]+`)/)
    .filter((piece) => piece !== "")
    .map((piece) => (/^`[^`]+`$/.test(piece) ? code(piece.slice(1, -1)) : text(piece)));
}

/** The paragraphs of a description; none for no description. */
export function paragraphs(words: string | undefined): readonly Block[] {
  return (words ?? "")
    .split(/\n\s*\n/)
    .filter((part) => part.trim() !== "")
    .map((part) => paragraph(...prose(part)));
}

export function paragraph(...line: Line): Block {
  return { kind: "paragraph", line };
}

export function table(head: readonly string[], rows: readonly (readonly Line[])[]): readonly Block[] {
  return rows.length === 0 ? [] : [{ kind: "table", head, rows }];
}

/** The lines one after the other, `separator` between those that are not empty. */
export function join(lines: readonly Line[], separator: string): Line {
  return lines
    .filter((line) => line.length > 0)
    .flatMap((line, index) => (index === 0 ? line : [text(separator), ...line]));
}

/** An anchor: lower-case letters, digits, dashes. */
export function anchor(...words: readonly string[]): string {
  return words
    .join("-")
    .replaceAll(/([a-z\d])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .replaceAll(/[^a-z\d]+/g, "-")
    .replaceAll(/^-|-$/g, "");
}

/** Every section of the reference, an outer one before those inside. */
export function allSections(sections: readonly Section[]): readonly Section[] {
  return sections.flatMap((section) => [section, ...allSections(section.sections ?? [])]);
}
