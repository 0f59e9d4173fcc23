/** Which paths hold secrets or steer what runs later. Pure: paths are absolute and already normal. */

export interface SensitivePlaces {
  readonly home: string;
  readonly agentHome: string;
  /** May lie in the agent's home, and is then no secret. */
  readonly workspace?: string;
}

const secretNames: readonly RegExp[] = [
  /^\.env(\.(?!example$|sample$|template$|dist$).*)?$/,
  /^\.envrc$/,
  /^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/,
  /.\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)$/,
  /^(\.(credentials|secrets?)|\.?(credentials|secrets?)\.(json|ya?ml|toml|ini|txt))$/,
  /^(service[-_]?account|client[-_]secret|application_default_credentials).*\.json$/,
  /^\.(netrc|_netrc|npmrc|pypirc|pgpass|my\.cnf|git-credentials|htpasswd|vault-token|boto|s3cfg)$/,
  /^(shadow-?|gshadow-?|sudoers|master\.passwd)$/,
  /^\.(bash|zsh|python|node_repl|psql|mysql|sqlite)_history$/,
];

/** Folders of which everything counts, wherever they stand. */
const secretFolders = new Set([
  ".ssh",
  ".gnupg",
  ".aws",
  ".azure",
  ".kube",
  ".docker",
  ".password-store",
  ".oci",
]);
const secretFolderPairs = [
  ".config/gcloud",
  ".config/gh",
  ".config/op",
  ".config/hub",
  ".local/share/keyrings",
  ".config/git/credentials",
  ".config/rclone",
  ".config/sops",
  ".config/google-chrome",
  ".config/chromium",
  ".mozilla/firefox",
  ".cargo/credentials",
  ".gem/credentials",
  ".m2/settings.xml",
  ".gradle/gradle.properties",
  "library/keychains",
  "run/secrets",
  "etc/ssl/private",
];
const startUpNames =
  /^\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|cshrc|tcshrc|kshrc|inputrc|gitconfig|vimrc|xprofile|xinitrc)$/;
const rawMemory =
  /^\/dev\/(mem|kmem|port|sd[a-z]|hd[a-z]|vd[a-z]|xvd|nvme|mmcblk|dm-|mapper\/)|^\/proc\/kcore$/;
const processSecrets = /^\/proc\/[^/]+\/(environ|mem|maps|fd|root|cwd|task)(\/|$)/;

/** Why reading `path` needs a question; undefined when it does not. */
export function secretReason(path: string, places: SensitivePlaces): string | undefined {
  if (isOfAgent(path, places)) return `${path} belongs to the agent's own home`;
  const lower = path.toLowerCase();
  const segments = lower.split("/");
  const name = segments.at(-1) ?? "";
  if (secretNames.some((pattern) => pattern.test(name))) return `${path} may hold secrets`;
  const inFolder = segments.some((segment) => secretFolders.has(segment));
  if (inFolder || secretFolderPairs.some((pair) => `${lower}/`.includes(`/${pair}/`)))
    return `${path} may hold secrets`;
  if (processSecrets.test(lower)) return `${path} shows another process's secrets`;
  if (rawMemory.test(lower)) return `${path} is a whole disk or the memory`;
  return undefined;
}

/** Why writing `path` needs a question, besides what {@link secretReason} says. */
export function startUpReason(path: string, places: SensitivePlaces): string | undefined {
  const lower = path.toLowerCase();
  const name = lower.split("/").at(-1) ?? "";
  if (startUpNames.test(name)) return `${path} is run when a shell or a tool starts`;
  if (isWithin(path, `${places.home}/.config`)) return `${path} changes the user's settings`;
  if (/\/\.git\/(hooks|config)(\/|$)/.test(lower)) return `${path} changes what git runs`;
  return undefined;
}

/** Whether `path` is `folder` or lies in it. */
export function isWithin(path: string, folder: string): boolean {
  if (folder === "/") return path.startsWith("/");
  return path === folder || path.startsWith(`${folder}/`);
}

/** `path` as seen from `folder`, absolute and without `.` and `..`; a trailing slash is dropped. */
export function joinPath(folder: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${folder}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

function isOfAgent(path: string, { agentHome, workspace }: SensitivePlaces): boolean {
  if (!isWithin(path, agentHome)) return false;
  const worksInside = workspace !== undefined && workspace !== agentHome && isWithin(workspace, agentHome);
  return !(worksInside && isWithin(path, workspace));
}
