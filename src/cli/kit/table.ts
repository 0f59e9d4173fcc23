/** Rows in aligned columns. Pure. */

/** Returns a table with a header. */
export function toTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return alignColumns([head, ...rows]).join("\n");
}

/** Pads every column but the last to its widest cell. Returns a line per row. */
export function alignColumns(rows: readonly (readonly string[])[]): readonly string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length - 1));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
