import { ToolError } from "../../tool/tool.ts";

export interface Replacement {
  readonly old: string;
  readonly new: string;
  readonly all: boolean;
}

const MAX_LISTED_LINES = 10;

/**
 * `text` with `old` exchanged for `new`. Throws ToolError when `old` is not there, or is there more than once and
 * `all` is not set. In a file whose lines end with CRLF, `old` and `new` may be given with plain line feeds.
 */
export function replaceExactly(text: string, replacement: Replacement): string {
  if (replacement.old === "") throw new ToolError("old is empty. Use write_file for a new file.");
  if (replacement.old === replacement.new)
    throw new ToolError("old and new are the same: nothing would change.");
  const wanted = text.includes(replacement.old) ? replacement : withCarriageReturns(text, replacement);
  const places = findAll(text, wanted.old);
  if (places.length === 0)
    throw new ToolError(`old was not found in the file.${similarPlaces(text, wanted.old)}`);
  if (places.length > 1 && !wanted.all) {
    throw new ToolError(
      `old is there ${places.length} times, at ${listLines(text, places)}. Make it longer so that it is there once, ` +
        "or set replace_all.",
    );
  }
  return text.split(wanted.old).join(wanted.new);
}

function withCarriageReturns(text: string, replacement: Replacement): Replacement {
  if (!text.includes("\r\n")) return replacement;
  const convert = (part: string) => part.replace(/\r?\n/g, "\r\n");
  return { ...replacement, old: convert(replacement.old), new: convert(replacement.new) };
}

/** Places may overlap: "aa" is twice in "aaa", and either could be meant. */
function findAll(text: string, part: string): readonly number[] {
  const places: number[] = [];
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) places.push(at);
  return places;
}

function listLines(text: string, places: readonly number[]): string {
  const numbers = places.slice(0, MAX_LISTED_LINES).map((place) => text.slice(0, place).split("\n").length);
  const more = places.length > MAX_LISTED_LINES ? " and more" : "";
  return `lines ${[...new Set(numbers)].join(", ")}${more}`;
}

/** Where the first line of what is wanted stands but for its spaces, the usual reason for a miss. */
function similarPlaces(text: string, part: string): string {
  const bare = (line: string) => line.replace(/\s+/g, "");
  const first = part
    .split("\n")
    .map(bare)
    .find((line) => line !== "");
  if (first === undefined) return "";
  const numbers = text.split("\n").flatMap((line, index) => (bare(line) === first ? [index + 1] : []));
  if (numbers.length === 0) return " Read the file again and copy the text exactly.";
  const listed = numbers.slice(0, MAX_LISTED_LINES).join(", ");
  return ` Its first line is much like line ${listed}: compare the spaces and the lines that follow.`;
}
