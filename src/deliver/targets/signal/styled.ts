import type { Part } from "../../text/part.ts";

const marks: Readonly<Record<string, string>> = {
  BOLD: "**",
  ITALIC: "*",
  STRIKETHROUGH: "~",
  SPOILER: "||",
  MONOSPACE: "`",
};

interface Span {
  readonly start: number;
  readonly end: number;
  readonly mark: string;
}

/**
 * A part with its styles as marks, for `text_mode: styled` of signal-cli-rest-api. Undefined: it goes out plain, since
 * nothing is styled, or what stands in the text would be taken for marks, or spans overlap.
 */
export function styledText({ text, styles = [] }: Pick<Part, "text" | "styles">): string | undefined {
  if (styles.length === 0 || /[*~|`\\]/.test(text)) return undefined;
  const spans = styles.map(readSpan).toSorted((a, b) => a.start - b.start);
  let styled = "";
  let at = 0;
  for (const { start, end, mark } of spans) {
    if (start < at || mark === "") return undefined;
    styled += `${text.slice(at, start)}${mark}${text.slice(start, end)}${mark}`;
    at = end;
  }
  return styled + text.slice(at);
}

function readSpan(style: string): Span {
  const [start = "0", length = "0", name = ""] = style.split(":");
  return { start: Number(start), end: Number(start) + Number(length), mark: marks[name] ?? "" };
}
