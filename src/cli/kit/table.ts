/** Rows as people read them. Pure. */

/** Columns as wide as their widest cell; the last one ends where its text does. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head
    .slice(0, -1)
    .map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return all.map((row) => line(row).trimEnd()).join("\n");
}
