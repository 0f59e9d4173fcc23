/** What the cards of questions have in common. */
import { BLANK, cutLine, span, wrap, type Line } from "../text/line.ts";
import { durationText } from "../text/quantity.ts";

const INDENTED = { first: [span("  ")], rest: [span("  ")] };

export interface CardFacts {
  /** Unix milliseconds. */
  readonly expiresAtMs?: number;
  readonly nowMs: number;
  readonly width: number;
}

/** `▌ approval  terminal asks to run  4:32 left` */
export function cardTitle(kind: string, about: string, { expiresAtMs, nowMs, width }: CardFacts): Line {
  const seconds =
    expiresAtMs === undefined ? undefined : Math.max(0, Math.round((expiresAtMs - nowMs) / 1000));
  const left = seconds === undefined ? "" : `  ${seconds < 10 ? `${seconds} s` : durationText(seconds)} left`;
  return cutLine(
    [span("▌ ", "warning"), span(kind, "warning"), span(about === "" ? "" : `  ${about}`), span(left, "dim")],
    width,
  );
}

/** One choice; the chosen one is marked, so that it is seen without colour too. */
export function choiceRow(index: number, text: string, isSelected: boolean, width: number): Line {
  const mark = isSelected ? "› " : "  ";
  const number = index < 9 ? `${index + 1}  ` : "   ";
  const role = isSelected ? "strong" : "plain";
  return cutLine(
    [span("  "), span(mark, "accent"), span(number, isSelected ? "accent" : "dim"), span(text, role)],
    width,
  );
}

/** The keys of a card, under it. */
export function cardHints(first: string, last: string, width: number): readonly Line[] {
  return [BLANK, ...wrap([span(`${first} · ↑↓ and enter · ${last}`, "dim")], width, INDENTED)];
}
