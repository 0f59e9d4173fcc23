/** Long pastes: the draft contains a label, the prompt the whole text. Pure. */
import type { Paste } from "../ui-state.ts";

/** A paste is collapsed from this many lines, or characters. */
const MIN_LINES = 6;
const MIN_CHARACTERS = 1_000;
const MAX_PASTES = 50;
/** The rest of a longer paste is dropped, as in a typed draft. */
const MAX_CHARACTERS = 500_000;

/** Returns the label for a long paste, unlike the labels of earlier ones; undefined for a short paste. */
export function collapsePaste(earlier: readonly Paste[], pasted: string): Paste | undefined {
  const text = pasted.slice(0, MAX_CHARACTERS);
  const lines = text.replace(/\n$/, "").split("\n").length;
  if ((lines < MIN_LINES && text.length < MIN_CHARACTERS) || earlier.length >= MAX_PASTES) return undefined;
  const what = lines > 1 ? `${lines} lines pasted` : `${text.length} characters pasted`;
  const count = earlier.filter(({ label }) => label.startsWith(`[${what}`)).length;
  return { label: count === 0 ? `[${what}]` : `[${what}, ${count + 1}]`, text };
}

/** Returns the text with every label replaced by its paste. */
export function expandPastes(text: string, pastes: readonly Paste[]): string {
  const texts = new Map(pastes.map((paste) => [paste.label, paste.text]));
  // In one pass: a paste may contain the label of another one.
  return text.replaceAll(/\[[^[\]]* pasted[^[\]]*\]/g, (label) => texts.get(label) ?? label);
}

/** Returns the label at the end of the text, if any. */
export function labelBefore(pastes: readonly Paste[], text: string): string | undefined {
  return pastes.find(({ label }) => text.endsWith(label))?.label;
}
