/** The cards that ask for a password or a secret: what is typed is never shown, nor how long it is. */
import type { SecretQuestion, SudoQuestion } from "../../state/state.ts";
import { cardTitle } from "./dialog.ts";
import type { CardLines } from "./clarify.ts";
import { BLANK, span, wrap, wrapText, type Line } from "../text/line.ts";
import type { CardUi } from "../ui-state.ts";

const INDENT: Line = [span("  ")];
const BODY: Line = [span("    ")];

export interface HiddenFacts {
  readonly question: SudoQuestion | SecretQuestion;
  readonly card: CardUi;
  readonly width: number;
  readonly nowMs: number;
}

export function hiddenCard({ question, card, width, nowMs }: HiddenFacts): CardLines {
  const facts = { ...question, nowMs, width };
  const head =
    question.kind === "sudo"
      ? [
          cardTitle("sudo", "needs your password for", facts),
          BLANK,
          ...wrapText(question.command, "strong", width, { first: BODY, rest: BODY }),
          BLANK,
        ]
      : [
          cardTitle("secret", question.envVar, facts),
          BLANK,
          ...wrapText(question.prompt.trim(), "plain", width, { first: INDENT, rest: INDENT }),
          BLANK,
        ];
  const shown = card.reply.text === "" ? "what you type is not shown" : "••••••••";
  const lines = [
    ...head,
    [span("  › ", "accent"), span(shown, "dim")],
    BLANK,
    ...wrap([span("enter sends · esc refuses", "dim")], width, { first: INDENT, rest: INDENT }),
  ];
  return { lines, cursor: { x: card.reply.text === "" ? 4 : 12, y: head.length } };
}
