/**
 * What a sandboxed command may touch, and the arguments of the program that enforces it: bubblewrap on Linux, seatbelt
 * on macOS. Pure: the machine is read in sandbox.ts.
 */
/** What one command may touch. Paths are real and absolute; those that do not exist are left out. */
export interface SandboxProfile {
  /** Folders and files that the command may change. */
  readonly writable: readonly string[];
  /** Folders and files inside hidden ones that the command may read. */
  readonly readable: readonly string[];
  /** Folders and files that do not exist for the command. A deeper entry of `writable` or `readable` shows again. */
  readonly hidden: readonly string[];
  /** Folders and files inside writable ones that the command may only read. */
  readonly protected: readonly string[];
  /** Folders that the command sees instead of others, such as a private temporary folder instead of `/tmp`. */
  readonly replaced: readonly { readonly path: string; readonly by: string }[];
  /** Socket of the proxy through which the command reaches allowed hosts. Absent: no network at all. */
  readonly proxySocket?: string;
}

/** One mount, in the order in which it must be made: deeper paths hide what shallower ones showed. */
interface Mount {
  readonly path: string;
  readonly args: readonly string[];
}

/** The largest file that a command may write. */
const MAX_FILE_BYTES = 4_294_967_296;
/** Size of the shared memory of a command's processes. */
const SHARED_MEMORY_BYTES = 268_435_456;
/** Checks for the bridge to the proxy before the command starts without it. */
const MAX_LOOKS = 100_000;
/** Where the proxy listens inside the sandbox. */
const PROXY_PORT = 3128;
const PROXY_SOCKET = "/run/agentd-proxy.sock";

/**
 * Returns the arguments of `bwrap` (bubblewrap 0.8) up to the command: new namespaces for users, processes, IPC and the
 * network; a read-only view of the machine; the profile's folders on top; no capabilities.
 */
export function bubblewrapArguments(
  profile: SandboxProfile,
  { cwd, isFile }: { readonly cwd: string; readonly isFile: (path: string) => boolean },
): readonly string[] {
  const emptied = profile.hidden.filter((path) => !isFile(path) && !isCovered(path, profile));
  const mounts = [
    ...profile.hidden.map((path) => hide(path, isFile(path))),
    ...profile.readable.map((path) => ({ path, args: ["--ro-bind", path, path] })),
    ...profile.writable.map((path) => ({ path, args: ["--bind", path, path] })),
    ...profile.protected.map((path) => ({ path, args: ["--ro-bind", path, path] })),
    ...profile.replaced.map(({ path, by }) => ({ path, args: ["--bind", by, path] })),
  ];
  return [
    "--unshare-all",
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--size",
    String(SHARED_MEMORY_BYTES),
    "--tmpfs",
    "/dev/shm",
    "--proc",
    "/proc",
    // Other services keep their sockets here, and a read-only mount does not keep a command from connecting to them.
    "--tmpfs",
    "/run",
    ...inOrder(mounts).flatMap(({ args }) => args),
    ...(profile.proxySocket === undefined ? [] : ["--bind", profile.proxySocket, PROXY_SOCKET]),
    // Last, because other mounts may be inside them.
    ...emptied.flatMap((path) => ["--remount-ro", path]),
    "--chdir",
    cwd,
    "--",
  ];
}

function hide(path: string, file: boolean): Mount {
  if (file) return { path, args: ["--ro-bind", "/dev/null", path] };
  return { path, args: ["--tmpfs", path] };
}

/** Returns whether another mount covers the path of a hidden folder, or hides it together with its parent. */
function isCovered(path: string, { replaced, writable, readable }: SandboxProfile): boolean {
  return [...replaced.map((each) => each.path), ...writable, ...readable].includes(path);
}

/** Sorts shallow mounts first. Of two mounts on one path, the later kind in the list wins. */
function inOrder(mounts: readonly Mount[]): readonly Mount[] {
  return mounts.toSorted((a, b) => depthOf(a.path) - depthOf(b.path));
}

const depthOf = (path: string): number => path.split("/").filter(Boolean).length;

/**
 * What a sandbox prints first, when all mounts are made and the command is about to start. Whatever else comes first is
 * bubblewrap's own error: the command did not run.
 */
export const START_MARK = "agentd-sandbox-started\n";

/**
 * Returns the words that start `command` inside the sandbox: the mark, then limits that the kernel enforces (the size of
 * a file, and no core dumps). With `socat` the command runs behind a bridge from a local port to the proxy's socket,
 * since programs know proxies by address only.
 */
export function startWords(
  command: readonly string[],
  { socat }: { readonly socat?: string | undefined },
): readonly string[] {
  const script = [
    `echo ${START_MARK.trimEnd()}`,
    ...(socat === undefined ? [] : [BRIDGE]),
    // POSIX counts `ulimit -f` in units of 512 bytes.
    `ulimit -f ${MAX_FILE_BYTES / 512}; ulimit -c 0; exec "$@"`,
  ].join("; ");
  return ["/bin/sh", "-c", script, socat ?? "sh", ...command];
}

const PROXY_ADDRESS = `0100007F:${PROXY_PORT.toString(16).toUpperCase().padStart(4, "0")}`;
const BRIDGE =
  `{ "$0" TCP4-LISTEN:${PROXY_PORT},bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:${PROXY_SOCKET} 2>/dev/null & }; ` +
  // The command must not see a refused connection. Only shell built-ins: a process would take longer than the wait.
  `n=0; while [ $n -lt ${MAX_LOOKS} ]; do n=$((n + 1)); ` +
  `while read -r _ at _; do [ "$at" = ${PROXY_ADDRESS} ] && break 2; done < /proc/net/tcp; done`;

/** Returns the variables that point programs to the proxy. */
export function proxyVariables(): Readonly<Record<string, string>> {
  const url = `http://127.0.0.1:${PROXY_PORT}`;
  const names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"];
  return {
    ...Object.fromEntries(names.map((name) => [name, url])),
    no_proxy: "localhost,127.0.0.1,::1",
    NO_PROXY: "localhost,127.0.0.1,::1",
    // Node's own fetch and http modules use the variables only with this.
    NODE_USE_ENV_PROXY: "1",
  };
}

/**
 * Returns a seatbelt profile (`sandbox-exec -p`, macOS) with the same rules. Later rules win, so deeper paths come
 * later.
 */
export function seatbeltProfile(profile: SandboxProfile): string {
  const literal = (path: string) => JSON.stringify(path);
  const rules = [
    ...profile.hidden.map((path) => ({
      path,
      rule: `(deny file-read* file-write* (subpath ${literal(path)}))`,
    })),
    ...profile.readable.map((path) => ({ path, rule: `(allow file-read* (subpath ${literal(path)}))` })),
    ...[...profile.writable, ...profile.replaced.map(({ by }) => by)].map((path) => ({
      path,
      rule: `(allow file-read* file-write* (subpath ${literal(path)}))`,
    })),
    ...profile.protected.map((path) => ({ path, rule: `(deny file-write* (subpath ${literal(path)}))` })),
  ].toSorted((a, b) => depthOf(a.path) - depthOf(b.path));
  return [
    "(version 1)",
    "(allow default)",
    "(deny network*)",
    ...(profile.proxySocket === undefined
      ? []
      : [`(allow network-outbound (remote ip "localhost:${PROXY_PORT}"))`]),
    "(deny file-write*)",
    '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (subpath "/dev/fd"))',
    '(deny mach-lookup (global-name "com.apple.SecurityServer") (global-name "com.apple.securityd"))',
    ...rules.map(({ rule }) => rule),
  ].join("\n");
}
