import type { Risk } from "./risk.ts";
import type { Word } from "./shell-word.ts";

/** What is known of commands by their names. Names that stand nowhere here are ordinary programs. */

/** Commands that always need a question, and why. */
export const riskyCommands: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "runs as another user":
      "sudo su doas pkexec runuser gosu sudoedit run0 chroot nsenter unshare newgrp sg setpriv capsh",
    "changes disks or file systems":
      "dd fdisk sfdisk gdisk sgdisk cfdisk parted wipefs mkswap swapon swapoff mount umount losetup cryptsetup blkdiscard hdparm lvremove vgremove pvremove zpool zfs",
    "destroys files": "shred truncate srm wipe rimraf trash",
    "ends processes": "kill pkill killall xkill skill fuser",
    "stops the machine": "shutdown reboot halt poweroff init telinit",
    "changes services":
      "systemctl service launchctl rc-service update-rc.d initctl sv supervisorctl pm2 loginctl",
    "changes users or rights":
      "useradd userdel usermod adduser deluser groupadd groupdel passwd chpasswd visudo chown chgrp setfacl setcap chattr chsh",
    "changes the network or the kernel":
      "iptables ip6tables nft ufw firewall-cmd ifconfig route insmod rmmod modprobe sysctl kexec tc",
    "runs something later or out of sight":
      "crontab at batch setsid disown screen tmux systemd-run daemonize dtach",
    "reaches another machine": "ssh scp sftp ftp tftp nc ncat netcat socat telnet rclone sshpass mosh",
    "changes cloud resources":
      "aws gcloud az gsutil doctl heroku fly flyctl vercel netlify terraform tofu pulumi ansible ansible-playbook helm",
    "installs software for the whole machine":
      "apt apt-get dpkg yum dnf rpm pacman zypper apk brew snap flatpak port",
    "changes what commands mean": "alias unalias enable hash bind complete",
    "shows or changes secrets":
      "gpg ssh-add ssh-keygen ssh-agent security pass secret-tool keyctl vault op bw",
    "runs what cannot be seen here":
      "osascript expect script debugfs gdb lldb strace ltrace vim vi nvim emacs ed ex nano parallel entr watch",
  }).flatMap(([reason, names]) => names.split(" ").map((name) => [name, reason] as const)),
);

/** What is risky about one of {@link riskyCommands}, by its reason. */
const riskOfReason: Readonly<Record<string, Risk>> = {
  "runs as another user": "escalating",
  "changes disks or file systems": "destructive",
  "destroys files": "destructive",
  "ends processes": "process",
  "stops the machine": "destructive",
  "changes services": "system",
  "changes users or rights": "system",
  "changes the network or the kernel": "system",
  "runs something later or out of sight": "code",
  "reaches another machine": "outward",
  "changes cloud resources": "outward",
  "installs software for the whole machine": "system",
  "changes what commands mean": "code",
  "shows or changes secrets": "sensitive",
};
const destroying =
  /(^|[\s;&|(])(rm|rmi|rmdir|rb|delete|destroy|prune|purge|drop|dd|mkfs\S*|shred|truncate|wipe|down|uninstall|autoremove)($|[\s;&|)])|^(delete|terminate|destroy)-|^--(delete|prune|purge|force)/;
const secretWord = /^(auth|secrets?|tokens?|secretsmanager|ssm|kms|get-secret\S*|print-access-token)($|\/)/;

/** What is risky about a command that acts beyond the workspace: its words may say that it destroys. */
export function riskOf(name: string, rest: readonly Word[]): Risk {
  const risk =
    riskOfReason[riskyCommands.get(name) ?? ""] ?? (riskyCommands.has(name) ? "unclear" : "outward");
  if (name.startsWith("mkfs") || rest.some(({ text }) => destroying.test(text))) return "destructive";
  return rest.some(({ text }) => secretWord.test(text)) ? "sensitive" : risk;
}

/** Commands that run the rest of their words; the options listed take a value. */
export const wrappers: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    command: "",
    builtin: "",
    exec: "-a",
    nohup: "",
    time: "-f -o --format --output",
    nice: "-n --adjustment",
    ionice: "-c -n -p",
    env: "-u -C --unset --chdir",
    // -i, -l, -e, --replace and --max-lines take their value attached or not at all.
    xargs: "-I -n -P -L -d -s -a -E -J -R -S --max-args --max-procs --max-chars --delimiter --arg-file",
    timeout: "-k -s --kill-after --signal",
    stdbuf: "-i -o -e",
    chrt: "-p",
    taskset: "-c -p",
    setarch: "",
    prlimit: "",
    flock: "-w -E --timeout --conflict-exit-code",
    fakeroot: "-l -s -i",
    eatmydata: "",
    chronic: "",
    valgrind: "",
    rlwrap: "",
    "xvfb-run": "-n -f -p -s -w",
    "systemd-inhibit": "",
    "cross-env": "",
    dotenv: "-f -e",
    firejail: "",
    bwrap: "",
    proot: "",
    jobs: "",
    "run-parts": "",
    busybox: "",
    toybox: "",
    unbuffer: "",
    caffeinate: "-t -w",
    faketime: "",
    npx: "-p --package",
    bunx: "-p --package",
    pnpx: "-p --package",
    uvx: "--from --with -p --python",
    "dbus-run-session": "",
  }).map(([name, options]) => [name, new Set(options.split(" "))] as const),
);

/** How many words stand before the command that a wrapper runs. */
export const wrapperOperands: Readonly<Record<string, number>> = {
  taskset: 1,
  chrt: 1,
  timeout: 1,
  setarch: 1,
  flock: 1,
  faketime: 1,
};

/** Subcommands that run the rest of their words. */
export const runners: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    uv: /^run$/,
    poetry: /^run$/,
    pipenv: /^run$/,
    hatch: /^run$/,
    rye: /^run$/,
    pixi: /^run$/,
    conda: /^run$/,
    bundle: /^exec$/,
    npm: /^(exec|x)$/,
    pnpm: /^(exec|dlx)$/,
    yarn: /^(exec|dlx)$/,
    bun: /^x$/,
    mise: /^(exec|x)$/,
    direnv: /^exec$/,
    doppler: /^run$/,
    rustup: /^run$/,
  }),
);

/** Commands whose words are commands as text. */
export const textTakers = new Set(
  "concurrently hyperfine watchexec nodemon nix-shell nix npm-run-all".split(" "),
);

export const shells = new Set(
  "sh bash dash zsh ksh mksh fish ash csh tcsh rbash pwsh yash posh osh nu xonsh elvish".split(" "),
);

/** Interpreters and the options by which they take code as an argument. */
export const interpreters: ReadonlyMap<string, RegExp> = new Map(
  Object.entries({
    python: /^-[A-Za-z]*c/,
    perl: /^-[A-Za-z0-9]*[eE]/,
    ruby: /^-[A-Za-z]*e/,
    node: /^(-[a-z]*[ep]|--eval|--print|(--(import|require|loader)=)?data:)/,
    bun: /^(-[ep]|--eval|--print)/,
    deno: /^(eval$|https?:|data:)/,
    php: /^-[rRBEF]/,
    lua: /^-e/,
    luajit: /^-e/,
    Rscript: /^-e/,
    R: /^-e/,
    groovy: /^-e/,
    elixir: /^(-e|--eval)/,
    psql: /\\!|\bprogram\b/i,
    mysql: /\\!|^system\s/i,
    tclsh: /^-c/,
    julia: /^-[eE]/,
    sqlite3: /^\.(shell|system|load|import|output|once|read)|load_extension/,
  }),
);

/** Which words of a command name files that it writes. */
export type WriteRule = "all" | "last";
export const writers: ReadonlyMap<string, WriteRule> = new Map(
  Object.entries({
    all: "rm mv rmdir mkdir touch tee unlink mkfifo mknod chmod",
    last: "cp ln install rsync ditto",
  }).flatMap(([rule, names]) =>
    names
      .split(" ")
      .filter(Boolean)
      .map((name) => [name, rule as WriteRule] as const),
  ),
);

/** Options of any command that are followed by, or hold, the name of a file to write. */
export const outputOptions = new Set([
  "-o",
  "-O",
  "--output",
  "--output-document",
  "--target-directory",
  "--outfile",
]);

/** Commands whose `-o` names no file. */
export const notOutput = new Set(
  "grep egrep fgrep rg ag ls ps set test [ [[ pgrep unzip stat ssh mount shopt".split(" "),
);

/** Commands that only look, whatever their words (options that write are checked apart). */
export const readers = new Set(
  (
    "ls cat head tail grep egrep fgrep rg ag wc pwd echo printf stat file which type whoami id date du df ps tree sort uniq cut " +
    "diff cmp true false test [ [[ basename dirname realpath readlink nl od xxd hexdump strings md5sum sha1sum sha256sum " +
    "cksum uname hostname tr rev fold column comm join paste seq less more jq yq find cd : sleep uptime free nproc arch tac"
  ).split(" "),
);

/** Subcommands that only look; every other one of these programs needs a question. */
export const onlyLooking: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    docker: "ps images logs inspect version info top stats port history",
    podman: "ps images logs inspect version info top stats port history",
    nerdctl: "ps images logs inspect version info top stats port history",
    "docker-compose": "ps logs config version images",
    kubectl: "get describe logs version explain top api-resources cluster-info",
    gh: "status version",
  }).map(([name, words]) => [name, new Set(words.split(" "))] as const),
);

/** Subcommands of package managers that publish or that touch accounts. */
export const publishers: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    npm: "publish unpublish deprecate owner token login logout adduser access dist-tag profile team hook",
    pnpm: "publish unpublish deprecate owner token login adduser access",
    yarn: "publish unpublish npm login owner tag",
    bun: "publish",
    deno: "publish deploy",
    cargo: "publish yank login owner",
    gem: "push yank owner signin",
    twine: "upload register",
    poetry: "publish",
    uv: "publish",
    flit: "publish",
    hatch: "publish",
    mvn: "deploy release:perform",
    gradle: "publish",
    dotnet: "nuget",
    jsr: "publish",
    vsce: "publish",
    lerna: "publish",
  }).map(([name, words]) => [name, new Set(words.split(" "))] as const),
);

/** Variables that make an ordinary command run something else. */
export const riskyVariables =
  /^(LD_\w+|DYLD_\w+|PATH|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|HOME|PWD|CDPATH|GIT_(SSH\w*|EXTERNAL_DIFF|EDITOR|PAGER|ASKPASS|CONFIG\w*|DIR|EXEC_PATH|PROXY_COMMAND|SEQUENCE_EDITOR)|PAGER|EDITOR|VISUAL|BROWSER|NODE_OPTIONS|PYTHON(PATH|STARTUP|HOME)|PERL5(OPT|LIB|DB)|RUBY(OPT|LIB)|JAVA_TOOL_OPTIONS|LESSOPEN|LESSCLOSE|MAKEFLAGS)$/;
