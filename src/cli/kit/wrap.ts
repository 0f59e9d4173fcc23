/** Text in lines of a width. Pure. */

/**
 * Wraps text at spaces, so that no line is longer than `width` unless one word is. Keeps line breaks and the spaces at the
 * start of a line; lines that it starts itself begin with `indent`. Text in backticks stays on one line if it fits.
 */
export function wrapText(
  text: string,
  width: number,
  { indent = "" }: { readonly indent?: string } = {},
): string {
  return text
    .split("\n")
    .map((line) => wrapLine(line, width, indent))
    .join("\n");
}

function wrapLine(line: string, width: number, indent: string): string {
  if (line.length <= width) return line;
  const [, start = "", rest = ""] = /^( *)(.*)$/s.exec(line) ?? [];
  const lines: string[] = [];
  let current = start;
  let isEmpty = true;
  for (const word of wordsOf(rest, width - indent.length)) {
    const next = isEmpty ? current + word : `${current} ${word}`;
    if (isEmpty || next.length <= width) {
      current = next;
    } else {
      lines.push(current);
      current = indent + word;
    }
    isEmpty = false;
  }
  return [...lines, current].join("\n");
}

/** Returns words, where a command in backticks is one word. */
function wordsOf(text: string, width: number): readonly string[] {
  const words = text.match(/[^\s`]*`[^`]*`[^\s`]*|\S+/g) ?? [];
  return words.flatMap((word) => (word.length > width ? word.split(/\s+/) : [word]));
}
