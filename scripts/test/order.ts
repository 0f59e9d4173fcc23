/** The order in which the files of a suite run: a file that begins last and takes longest keeps one core busy alone. */

/**
 * The files that take longest, longest first, as `npm run test:process -- --slowest 15` lists them. The order of the
 * others matters little.
 */
export const slowestFiles: readonly string[] = [
  "test/process/sandbox/attacks.test.ts",
  "test/process/sdk/go.test.ts",
  "test/process/conformance/conformance.test.ts",
  "test/process/package/smoke.test.ts",
  "test/process/docs/pages.test.ts",
  "test/process/scripts/codegen.test.ts",
  "test/process/acp/mcp.test.ts",
  "test/process/package/binary.test.ts",
  "test/process/acp/load.test.ts",
];

/** The slowest first, the others as they come. */
export function slowestFirst(files: readonly string[]): string[] {
  const slow = slowestFiles.filter((file) => files.includes(file));
  return [...slow, ...files.filter((file) => !slow.includes(file))];
}
