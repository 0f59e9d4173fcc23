import { plainWords, type Mark, type Piece } from "./document.ts";
import { layOut, type LayoutStyle } from "./layout.ts";

/** SMS has no other bullet than the hyphen in its own alphabet; one other sign would halve what fits in. */
const PLAIN: LayoutStyle = { bullet: "-", rule: "---", quotes: "sign", hasCode: false };

/** Words without any mark, links as `words (address)`. */
export function renderPlain(pieces: readonly Piece[]): string {
  return renderSignal(pieces).text;
}

/** The names of signal-cli (manual page, `--text-style`). */
const STYLES: Readonly<Record<Mark, string>> = {
  bold: "BOLD",
  italic: "ITALIC",
  strike: "STRIKETHROUGH",
  code: "MONOSPACE",
};

/** As {@link renderPlain}, with `start:length:STYLE` for what is marked, in UTF-16 code units. */
export function renderSignal(pieces: readonly Piece[]): {
  readonly text: string;
  readonly styles: readonly string[];
} {
  const styles: string[] = [];
  let text = "";
  for (const item of layOut(pieces, PLAIN)) {
    if (item.kind === "raw") text += item.text;
    if (item.kind !== "words") continue;
    for (const mark of item.words.marks)
      styles.push(`${text.length}:${item.words.text.length}:${STYLES[mark]}`);
    text += plainWords(item.words);
  }
  return { text, styles };
}
