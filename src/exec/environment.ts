import process from "node:process";

/** The last two lead a command of agentd to the home of the service that runs it. */
const inherited = new Set("PATH HOME LANG TMPDIR USER SHELL TZ AGENTD_HOME AGENTD_PROFILE".split(" "));

/**
 * What commands see of the environment. The server's own holds its keys, so they get a short list by name, never the
 * whole; `shared` are the variables that were given to this session's commands.
 */
export function commandEnvironment(
  passthrough: readonly string[],
  shared: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const extra = new Set(passthrough);
  const kept = Object.entries(own).filter(
    ([name, value]) =>
      value !== undefined && (inherited.has(name) || name.startsWith("LC_") || extra.has(name)),
  );
  return { ...(Object.fromEntries(kept) as Record<string, string>), ...shared, TERM: "dumb" };
}
