/** What the agent may use when a stranger's event asks for it. Pure. */

/** The web and pictures, to read: nothing that changes, runs or remembers anything. */
const NARROW_TOOLSETS = ["web", "vision", "clarify"];

/**
 * The toolsets of a route's runs: those that it names by hand in place of the narrow ones. Names that this service does
 * not offer are left out, and `warn` is told of them.
 */
export function toolsetsOf(
  route: { readonly name: string; readonly toolsets: readonly string[] | undefined },
  offered: readonly string[],
  warn: (unknown: readonly string[]) => void,
): readonly string[] {
  if (route.toolsets === undefined) return NARROW_TOOLSETS;
  const unknown = route.toolsets.filter((name) => !offered.includes(name));
  if (unknown.length > 0) warn(unknown);
  return route.toolsets.filter((name) => offered.includes(name));
}
