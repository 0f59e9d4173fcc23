/** What was printed last: Ink writes it above everything else, once, and forgets it. */
import { Static } from "ink";
import { createElement as h, type ReactNode } from "react";
import { LineView } from "./text/line-view.ts";
import type { Line } from "./text/line.ts";

export interface TranscriptProps {
  /** Another one prints again. */
  readonly serial: number;
  readonly lines: readonly Line[];
}

export function Transcript({ serial, lines }: TranscriptProps): ReactNode {
  // A new list for each batch, so that nothing of a long session stays in memory.
  return h(Static<Line>, {
    key: serial,
    items: lines as Line[],
    children: (line, index) => h(LineView, { key: index, line }),
  });
}
