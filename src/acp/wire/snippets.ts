/** The settings with which editors start this program. Pure. */

/** The command that starts the program, without a subcommand. */
export interface Launcher {
  /** Absolute: editors rarely have the PATH of a shell. */
  readonly command: string;
  readonly args: readonly string[];
  /** The variables that the program needs. */
  readonly env: Readonly<Record<string, string>>;
}

export interface SnippetOptions {
  /** The name of the agent in the editor. */
  readonly name: string;
  readonly launcher: Launcher;
  readonly package: PackageMetadata;
}

/** Metadata of the published package. */
interface PackageMetadata {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

export const EDITORS = ["zed", "jetbrains", "vscode", "registry"] as const;
export type Editor = (typeof EDITORS)[number];

interface SnippetLocation {
  /** The heading of the block. */
  readonly title: string;
  /** Where the block belongs, as a clause. */
  readonly where: string;
}

export const snippetLocations: Readonly<Record<Editor, SnippetLocation>> = {
  zed: {
    title: "Zed",
    where:
      "~/.config/zed/settings.json (on Windows %APPDATA%\\Zed\\settings.json); then select it in the agent panel",
  },
  jetbrains: { title: "JetBrains IDEs", where: "~/.jetbrains/acp.json; then select it in the AI chat" },
  vscode: {
    title: "VS Code with the extension ACP Client",
    where: "the user's settings.json (command `Preferences: Open User Settings (JSON)`)",
  },
  registry: {
    title: "ACP registry",
    where:
      "<id>/agent.json of the registry, beside an icon.svg; it starts the published package, not this installation",
  },
};

/** Returns the settings block of each editor. */
export function snippets(options: SnippetOptions): Readonly<Record<Editor, object>> {
  const { name, launcher } = options;
  const start = { ...launcher, args: [...launcher.args, "acp"] };
  return {
    zed: { agent_servers: { [name]: { type: "custom", ...start } } },
    jetbrains: {
      default_mcp_settings: { use_custom_mcp: true, use_idea_mcp: true },
      agent_servers: { [name]: start },
    },
    vscode: { "acp.agents": { [name]: start } },
    registry: registryEntry(options),
  };
}

function registryEntry({ name, package: own }: SnippetOptions): object {
  return {
    id: toId(name) || "agentd",
    name,
    version: own.version,
    description: own.description,
    license: own.license,
    distribution: { npx: { package: `${own.name}@${own.version}`, args: ["acp"] } },
  };
}

/** Returns an id of lowercase letters, digits and hyphens that starts with a letter, or "" if none remains. */
function toId(name: string): string {
  const hyphened = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return hyphened.replace(/^[^a-z]+/, "").replace(/-+$/, "");
}
