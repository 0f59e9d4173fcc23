/** What editors have to be told to start this program. Pure. */

/** A command that starts the program, without what it is to do. */
export interface Launcher {
  /** Absolute: what an editor was started with seldom has the PATH of a shell. */
  readonly command: string;
  readonly args: readonly string[];
  /** What the program must find in its environment. */
  readonly env: Readonly<Record<string, string>>;
}

export interface SnippetOptions {
  /** What the editor calls the agent. */
  readonly name: string;
  readonly launcher: Launcher;
  readonly package: PackageMetadata;
}

/** Of the published package. */
interface PackageMetadata {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

export const EDITORS = ["zed", "jetbrains", "vscode", "registry"] as const;
export type Editor = (typeof EDITORS)[number];

interface SnippetLocation {
  /** Heading of the block. */
  readonly title: string;
  /** Where the block belongs, a clause. */
  readonly where: string;
}

export const snippetLocations: Readonly<Record<Editor, SnippetLocation>> = {
  zed: {
    title: "Zed",
    where:
      "~/.config/zed/settings.json (on Windows %APPDATA%\\Zed\\settings.json); then choose it in the agent panel",
  },
  jetbrains: { title: "JetBrains IDEs", where: "~/.jetbrains/acp.json; then choose it in the AI chat" },
  vscode: {
    title: "VS Code with the extension ACP Client",
    where: "the user's settings.json (command `Preferences: Open User Settings (JSON)`)",
  },
  registry: {
    title: "ACP registry",
    where:
      "<id>/agent.json of the registry, beside an icon.svg; it starts the published package, not this copy",
  },
};

/** The block of each editor, as it stands in the editor's file. */
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
    id: toId(name) || toId(own.name),
    name,
    version: own.version,
    description: own.description,
    license: own.license,
    distribution: { npx: { package: `${own.name}@${own.version}`, args: ["acp"] } },
  };
}

/** Lower-case letters, digits and hyphens, a letter first; "" when nothing of the name can stand in one. */
function toId(name: string): string {
  const hyphened = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  return hyphened.replace(/^[^a-z]+/, "").replace(/-+$/, "");
}
