/** Which paths a sandboxed command sees: the rules, and the profile that they make for one command. Touches the machine. */
import { existsSync, readdirSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join, parse } from "node:path";
import { isInside } from "../../base/text.ts";
import type { SandboxProfile } from "./profile.ts";

/** The folders of one service, from its configuration. */
export interface SandboxFolders {
  /** The service's home, with its keys, database and configuration. Never readable. */
  readonly home: string;
  /** Folders inside the home that commands may read, such as the skills. */
  readonly readableInHome: readonly string[];
  /** The home of the user that the service runs as. */
  readonly userHome: string;
  /** Additional folders and files that commands may not read (`terminal.sandbox_hidden`). */
  readonly hidden: readonly string[];
  /** Additional folders that commands may change (`terminal.sandbox_writable`). */
  readonly writable: readonly string[];
  /** Additional folders inside hidden ones that commands may read (`terminal.sandbox_readable`). */
  readonly readable: readonly string[];
  /** The search path of commands: programs in hidden folders stay usable. */
  readonly searchPath: string;
}

/** What one command gets on top of the rules. */
export interface CommandFolders {
  /** The workspace and the session's working folder. Empty for plan mode, which changes nothing. */
  readonly writable: readonly string[];
  /** Folders that the command may read although they are hidden for others. */
  readonly readable?: readonly string[];
  /** A folder of this session alone, with the folders `tmp` and `home`: the command's temporary folder and its home. */
  readonly own: string;
  readonly proxySocket?: string | undefined;
}

/** Credentials below the home of a user. Hidden even where the home itself is the working folder. */
const credentials = [
  ".ssh",
  ".gnupg",
  ".aws",
  ".azure",
  ".kube",
  ".docker",
  ".netrc",
  ".npmrc",
  ".pypirc",
  ".pgpass",
  ".my.cnf",
  ".git-credentials",
  ".vault-token",
  ".terraform.d",
  ".oci",
  ".boto",
  ".s3cfg",
  ".cargo/credentials",
  ".cargo/credentials.toml",
  ".gem/credentials",
  ".m2/settings.xml",
  ".gradle/gradle.properties",
  ".config/gcloud",
  ".config/gh",
  ".config/hub",
  ".config/op",
  ".config/sops",
  ".config/rclone",
  ".config/containers",
  ".config/google-chrome",
  ".config/chromium",
  ".mozilla",
  ".thunderbird",
  ".password-store",
  ".local/share/keyrings",
  ".claude",
  ".codex",
  ".gemini",
  ".bash_history",
  ".zsh_history",
  ".python_history",
  ".node_repl_history",
  ".psql_history",
  ".mysql_history",
  ".lesshst",
  ".viminfo",
  "Library/Keychains",
  "Library/Cookies",
] as const;

/** Tool chains below the home of a user that commands may read. */
const toolchains = [
  ".nvm",
  ".fnm",
  ".volta",
  ".asdf",
  ".local/bin",
  ".local/lib",
  ".local/share/fnm",
  ".local/share/mise",
  ".local/share/pipx",
  ".local/share/pnpm",
  ".local/share/uv",
  ".cargo/bin",
  ".cargo/env",
  ".cargo/registry",
  ".rustup",
  ".pyenv",
  ".rbenv",
  ".sdkman",
  ".bun/bin",
  ".deno/bin",
  ".m2/repository",
  ".gradle/caches",
  ".gradle/wrapper",
  ".cache/pip",
  ".cache/uv",
  ".cache/go-build",
  ".cache/yarn",
  ".cache/pnpm",
  "go",
  ".config/git",
] as const;

const userHomes = ["/root", "/home", "/Users"] as const;

/** Secrets and data of other services. */
const machineSecrets = [
  "/etc/shadow",
  "/etc/shadow-",
  "/etc/gshadow",
  "/etc/gshadow-",
  "/etc/sudoers",
  "/etc/sudoers.d",
  "/etc/ssh",
  "/etc/ssl/private",
  "/etc/letsencrypt",
  "/etc/kubernetes",
  "/etc/docker",
  "/etc/wireguard",
  "/etc/openvpn",
  "/etc/NetworkManager/system-connections",
  "/etc/krb5.keytab",
  "/var/lib/docker",
  "/var/lib/containerd",
  "/var/lib/kubelet",
  "/var/lib/postgresql",
  "/var/lib/mysql",
  "/var/lib/mongodb",
  "/var/lib/redis",
  "/var/lib/private",
  "/var/lib/sudo",
  "/var/backups",
  "/var/log",
  "/var/mail",
  "/var/spool",
] as const;

/** Files in a writable folder that programs outside of the sandbox run or obey later. */
const obeyedLater = [
  ".git/hooks",
  ".git/config",
  ".git/info/attributes",
  ".gitmodules",
  ".husky",
  ".vscode",
  ".idea",
  ".zed",
  ".envrc",
  ".mcp.json",
  ".agents",
  ".claude",
  ".codex",
  ".cursor",
  "AGENTS.md",
  "AGENTD.md",
  "CLAUDE.md",
] as const;

/** Returns the profile of a command. Paths that do not exist are left out; links are resolved. */
export function commandProfile(service: SandboxFolders, command: CommandFolders): SandboxProfile {
  const secrets = secretsOf(service);
  const named = (paths: readonly string[]) => real(paths.filter((path) => !leadsToSecret(path, secrets)));
  const changed = command.writable.length > 0 ? service.writable : [];
  const writable = named([...command.writable, ...changed]).filter((path) => !isHome(path, service));
  const readable = named([...service.readable, ...(command.readable ?? [])]);
  const secret = secrets.map(({ target }) => target);
  const hidden = real([service.userHome, ...userHomes, ...secret]);
  const tools = real([
    ...toolchains.map((path) => join(service.userHome, path)),
    ...programFolders(service, hidden),
  ]);
  const shown = [
    ...named(service.readableInHome),
    // A link among them may lead anywhere.
    ...tools.filter((path) => !secret.some((each) => isInside(path, each))),
    ...readable,
  ].filter((path) => !isHome(path, service));
  const reopened = [...named(service.writable), ...readable];
  const stillHidden = hidden.filter((path) => !isReopened(path, reopened, service));
  const isOpen = (path: string) => isChangeable(path, { writable, hidden: stillHidden });
  // What a link of the command's own leads to must not become visible by its protection.
  const obeyed = real(writable.flatMap(obeyedPaths)).filter(isOpen);
  // A folder that a mount stands on cannot be renamed: nothing can take the place of what is protected or hidden below
  // it, and nothing hidden can move to where a later command sees it.
  const between = [...obeyed, ...stillHidden]
    .flatMap((path) => foldersBetween(path, writable))
    .filter(isOpen);
  const own = realpathSync(command.own);
  const [userHome] = real([service.userHome]);
  return {
    writable: [...new Set([...writable, ...between])],
    readable: [...new Set(shown)],
    hidden: stillHidden,
    protected: obeyed,
    replaced: [
      ...["/tmp", "/var/tmp"].map((path) => ({ path, by: join(own, "tmp") })),
      // A working folder may be the user's home itself.
      ...(userHome === undefined || writable.includes(userHome)
        ? []
        : [{ path: userHome, by: join(own, "home") }]),
    ],
    ...(command.proxySocket === undefined ? {} : { proxySocket: command.proxySocket }),
  };
}

/** A hidden path as it is named, and what it leads to. */
interface Secret {
  readonly path: string;
  readonly target: string;
}

function secretsOf({ home, userHome, hidden }: SandboxFolders): readonly Secret[] {
  const paths = [home, ...credentials.map((path) => join(userHome, path)), ...machineSecrets, ...hidden];
  return paths.filter((path) => existsSync(path)).map((path) => ({ path, target: realpathSync(path) }));
}

/**
 * Returns whether a path leads to a secret by a link. Its text does not say so: a command may have put the link in the
 * place of a folder that was named.
 */
function leadsToSecret(path: string, secrets: readonly Secret[]): boolean {
  if (!existsSync(path)) return false;
  const target = realpathSync(path);
  return secrets.some(
    (secret) =>
      isInside(target, secret.target) && !isInside(path, secret.path) && !isInside(path, secret.target),
  );
}

/** The service's home itself is never shown, not even as a working folder; folders in it may be. */
function isHome(path: string, { home }: SandboxFolders): boolean {
  return real([home]).includes(path);
}

/** Returns whether a command sees the path as part of a folder that it may change: nothing in that folder hides it. */
function isChangeable(
  path: string,
  { writable, hidden }: { readonly writable: readonly string[]; readonly hidden: readonly string[] },
): boolean {
  return writable.some(
    (root) =>
      isInside(path, root) &&
      !hidden.some((each) => each !== root && isInside(path, each) && isInside(each, root)),
  );
}

const MAX_SEARCHED_FOLDERS = 256;
const MAX_SEARCH_DEPTH = 3;

/** The obeyed paths of `root` and of the projects below it, as far as a bounded search finds them. */
function obeyedPaths(root: string): readonly string[] {
  const found: string[] = [];
  let level = [root];
  let left = MAX_SEARCHED_FOLDERS;
  for (let depth = 0; depth <= MAX_SEARCH_DEPTH && level.length > 0; depth += 1) {
    const next: string[] = [];
    for (const folder of level.slice(0, left)) {
      const entries = namesIn(folder);
      found.push(
        ...obeyedLater.filter((path) => entries.has(firstOf(path))).map((path) => join(folder, path)),
      );
      for (const [name, isFolder] of entries) {
        if (isFolder && !name.startsWith(".") && name !== "node_modules") next.push(join(folder, name));
      }
    }
    left -= Math.min(left, level.length);
    level = next;
  }
  return found;
}

const firstOf = (path: string): string => path.split("/")[0] ?? path;

/** Names in a folder, and whether each is a folder itself. Empty for what cannot be read. */
function namesIn(folder: string): ReadonlyMap<string, boolean> {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return new Map(entries.map((entry) => [entry.name, entry.isDirectory()]));
  } catch {
    return new Map();
  }
}

/** The folders between a path and the writable folder that contains it, both left out. */
function foldersBetween(path: string, roots: readonly string[]): readonly string[] {
  const root = roots.find((each) => isInside(path, each));
  const folders: string[] = [];
  for (let at = dirname(path); root !== undefined && at !== root && isInside(at, root); at = dirname(at)) {
    folders.push(at);
  }
  return folders;
}

/** A hidden path that the configuration names is not hidden. The service's home cannot be named. */
function isReopened(path: string, named: readonly string[], service: SandboxFolders): boolean {
  const [home = service.home] = real([service.home]);
  if (isInside(path, home) || isInside(home, path)) return false;
  return named.includes(path);
}

/** The folders of programs on the search path that would be hidden, with the libraries beside them. */
function programFolders({ searchPath, userHome, home }: SandboxFolders, hidden: readonly string[]) {
  const folders = searchPath.split(delimiter).filter((path) => path.startsWith("/"));
  return real(folders)
    .filter((folder) => hidden.some((path) => isInside(folder, path)))
    .filter((folder) => !isInside(folder, home))
    .flatMap((folder) => {
      const prefix = dirname(folder);
      // `~/bin`, `~/.local/bin` and `~/.cargo/bin` stand beside private files.
      const isShared = isInside(userHome, prefix) || [".local", ".cargo"].includes(basename(prefix));
      return [isShared ? folder : prefix];
    });
}

/** Existing paths with links resolved, each once, and never the root of the file system. */
function real(paths: readonly string[]): readonly string[] {
  const found = paths.filter((path) => existsSync(path)).map((path) => realpathSync(path));
  return [...new Set(found)].filter((path) => path !== parse(path).root);
}
