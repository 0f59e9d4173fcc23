/** Renders a unified diff as lines. The signs stay, so that it is readable without colours. */
import { MAX_DIFF_LINES } from "../../../client/conversation/viewer.ts";
import { moreLinesText } from "./quantity.ts";
import { span, wrap, type Line, type Role } from "./line.ts";

/** Wrapped lines are indented past the signs. */
const MARGIN = { first: [], rest: [span("   ")] };

export function diffLines(diff: string, width: number, max = MAX_DIFF_LINES): readonly Line[] {
  const sources = diff.replace(/\n$/, "").split("\n");
  const shown = sources.slice(0, max);
  let isInHunk = false;
  const lines = shown.flatMap((source) => {
    if (source.startsWith("@@")) isInHunk = true;
    if (/^(diff |Index: )/.test(source)) isInHunk = false;
    return wrap([span(source, roleOf(source, isInHunk))], width, MARGIN);
  });
  const hidden = sources.length - shown.length;
  return hidden === 0 ? lines : [...lines, [span(moreLinesText(hidden), "dim")]];
}

/** `---` and `+++` name files only before a hunk; inside one they are normal lines. */
function roleOf(source: string, isInHunk: boolean): Role {
  if (source.startsWith("@@")) return "accent";
  if (!isInHunk) return "dim";
  if (source.startsWith("+")) return "added";
  return source.startsWith("-") ? "removed" : "plain";
}
