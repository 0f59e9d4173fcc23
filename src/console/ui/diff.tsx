/** A unified diff, coloured by line. */
import type { JSX } from "preact";

const MAX_LINES = 400;

export function Diff({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const lines = text.split("\n");
  return (
    <pre class="diff" tabIndex={0} aria-label={label}>
      {lines.slice(0, MAX_LINES).map((line, index) => (
        <span key={index} class={classOf(line)}>
          {`${line}\n`}
        </span>
      ))}
      {lines.length > MAX_LINES ? `… ${lines.length - MAX_LINES} more lines` : null}
    </pre>
  );
}

function classOf(line: string): string {
  if (/^(\+\+\+|---|@@|diff )/.test(line)) return "diff-head";
  if (line.startsWith("+")) return "diff-added";
  return line.startsWith("-") ? "diff-removed" : "diff-same";
}
