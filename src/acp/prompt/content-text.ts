/** How the blocks of a prompt stand in one text. Pure. */
import { shorten, toOneLine } from "../../base/text.ts";

/** A stretch of the text: what somebody wrote, or a reference in its place. */
export interface Stretch {
  readonly kind: "text" | "reference";
  readonly text: string;
}

const MAX_NAME_CHARACTERS = 200;
const MAX_URI_CHARACTERS = 2_000;

/** Editors put references into sentences: they stand where they were put. Texts are paragraphs of their own. */
export function joined(stretches: readonly Stretch[]): string {
  let whole = "";
  let before: Stretch | undefined;
  for (const stretch of stretches) {
    if (stretch.text === "") continue;
    whole += (before ? between(before, stretch) : "") + stretch.text;
    before = stretch;
  }
  return whole;
}

/** `[@name](uri)` on one line, whatever the two hold. */
export function reference(name: string, uri: string): string {
  const shown = shorten(toOneLine(name), MAX_NAME_CHARACTERS).replaceAll(/[[\]]/g, "");
  const target = shorten(toOneLine(uri), MAX_URI_CHARACTERS)
    .replaceAll(" ", "%20")
    .replaceAll(/[()<>]/g, percent);
  return `[@${shown === "" ? "resource" : shown}](${target})`;
}

/** The last segment of a URI's path, for those that come without a name. */
export function nameOf(uri: string): string {
  const path = uri.replace(/[?#].*$/s, "").replace(/\/+$/, "");
  return path.slice(path.lastIndexOf("/") + 1) || uri;
}

function between(before: Stretch, after: Stretch): string {
  if (before.kind === "text" && after.kind === "text") return "\n\n";
  if (before.kind === "reference" && after.kind === "reference") return " ";
  const touches =
    before.kind === "text" ? /[\p{L}\p{N}]$/u.test(before.text) : /^[\p{L}\p{N}]/u.test(after.text);
  return touches ? " " : "";
}

const percent = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
