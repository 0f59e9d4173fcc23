/** What the rules of single programs read from a call and report about it, and the tables of programs. */
import type { SyntaxNode } from "unbash";
import type { Risk } from "./risk.ts";
import { ANY } from "./words.ts";

/** Standard input of a program, unless it is the terminal. */
export interface Input {
  /** The commands that write it, in a pipeline or a substitution. */
  readonly from?: readonly SyntaxNode[];
  /** A here-document or here-string; contains a mark when it is unknown. */
  readonly text?: string;
  /** A file, or another unknown source. */
  readonly isOther?: boolean;
}

/** One program with its words: one of the alternatives that the shell may expand to. */
export interface Call {
  /** Without its folder. */
  readonly name: string;
  /** As written in the command. */
  readonly path: string;
  readonly args: readonly string[];
  readonly input: Input | undefined;
  /** True when the name is written literally, so that the variables it sets were collected before. */
  readonly isLiteral: boolean;
  ask(reason: string, risk?: Risk, shape?: string): void;
  deny(reason: string): void;
  /** Reports a word that may name a file to read: secrets and unknown files ask. */
  read(field: string): void;
  /** Reports a word of which only names, sizes and dates are read. */
  stat(field: string): void;
  /** Reports reading a whole tree. */
  readTree(field: string): void;
  write(field: string): void;
  /** Reports that the call changes something. */
  changes(): void;
  /** Reports a program that this one starts. */
  run(argv: readonly string[], input?: Input): void;
  /** Reports shell text that this one runs. */
  runText(text: string, parameters?: readonly string[]): void;
  enter(field: string | undefined): void;
  isVital(field: string): boolean;
  /** Returns the areas of the paths, for signatures. */
  areasOf(fields: readonly string[]): string;
  isOutside(field: string): boolean;
  /** Returns the text of the input where it is known. */
  inputText(): string | undefined;
  /** Returns the names that the input may contain, one per line. */
  inputNames(): readonly string[];
}

export type Rule = (call: Call) => void;

/** Returns the operands of a call. An unknown word counts as an operand. */
export function operandsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  const before = end === -1 ? args : args.slice(0, end);
  return [...before.filter((arg) => !/^-./.test(arg)), ...(end === -1 ? [] : args.slice(end + 1))];
}

function optionsOf(args: readonly string[]): readonly string[] {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).filter((arg) => /^-./.test(arg));
}

/** Returns the first option that matches, even in an unknown word. */
export const findOption = (args: readonly string[], pattern: RegExp): string | undefined =>
  optionsOf(args).find((option) => pattern.test(option));

/** Returns the values of an option: `-o F`, `-oF`, `--output F`, `--output=F`. */
export function valuesOfOption(
  args: readonly string[],
  short: string,
  long: readonly string[],
): readonly string[] {
  const attached = short === "" ? undefined : new RegExp(`^-[a-zA-Z]*?[${short}](.*)$`, "s");
  return args.flatMap((arg, index) => {
    const [name = "", value] = arg.split(/=(.*)/s);
    if (
      long.some(
        (option) => option === name || (name.length > 3 && option.startsWith(name) && name.startsWith("--")),
      )
    )
      return [value ?? args[index + 1] ?? ANY];
    const found = arg.startsWith("--") ? undefined : attached?.exec(arg)?.[1];
    if (found === undefined) return [];
    return [found === "" ? (args[index + 1] ?? ANY) : found];
  });
}

/**
 * Programs by name: which run without approval, which ask and why. Names in no table ask. Three kinds run: programs
 * that only read, programs that print their words, and programs that change files of the workspace without losing any.
 *
 * This table lists programs whose words name no files: they print, wait, or describe the machine.
 */
export const sayings =
  "echo true false : sleep pwd whoami id groups uname hostname uptime free nproc arch seq basename dirname tty cal locale " +
  "expr yes logname users who w exit return break continue shift wait times umask ulimit fg bg type which " +
  "whereis command-not-found ps pgrep lscpu lsblk lsusb lspci df dircolors getconf tput clear test [ set getopts popd";

/** Programs that show names, sizes and dates of files, which are not secret. */
export const statings = "ls stat du tree realpath readlink dir vdir pathchk";

/**
 * Programs that show the content of files. `output` matches options whose value is written, `odd` options that do more.
 */
export interface Reader {
  readonly output?: readonly [short: string, long: readonly string[]];
  readonly odd?: RegExp;
  /** Options with which it reads whole trees; true: always. */
  readonly trees?: RegExp | true;
  /** Operands after the first are written. */
  readonly writesSecond?: true;
}

export const readers: Readonly<Record<string, Reader>> = {
  ...Object.fromEntries(
    (
      "cat head tail tac nl wc cut cmp comm join paste rev fold column fmt pr expand unexpand od hexdump strings base64 " +
      "base32 md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum md5 zcat bzcat xzcat zstdcat " +
      "zgrep more tsort numfmt factor look nm objdump readelf size zipinfo shellcheck colordiff getfacl lsattr lsof tr hexyl bc"
    )
      .split(" ")
      .map((name) => [name, {}] as const),
  ),
  grep: { trees: /^-[a-zA-Z]*[rR]|^--(recursive|dereference-recursive|directories)/ },
  egrep: { trees: /^-[a-zA-Z]*[rR]|^--recursive/ },
  fgrep: { trees: /^-[a-zA-Z]*[rR]|^--recursive/ },
  rg: { trees: true, odd: /^--(pre|hostname-bin)(=|$)/ },
  ag: { trees: true, odd: /^--pager/ },
  ack: { trees: true, odd: /^--(pager|ackrc)/ },
  diff: { trees: /^-[a-zA-Z]*r|^--recursive/, output: ["", ["--output"]] },
  sort: { output: ["o", ["--output"]], odd: /^--(compress-p|files0|random-source)|^-T/ },
  uniq: { writesSecond: true },
  xxd: { writesSecond: true },
  shuf: { output: ["o", ["--output"]] },
  less: { odd: /^\+|^-[koO]|^--(lesskey|log|LOG)/ },
  bat: { odd: /^--pager|^--config/ },
  batcat: { odd: /^--pager|^--config/ },
  man: { odd: /^-[PHC]|^--(pager|html|browser|config)/ },
  file: { odd: /^-\w*C|^--compile/ },
  iconv: { output: ["o", ["--output"]] },
};

/** Programs that start, act or change more than their words show, and why. */
export const risky: readonly (readonly [reason: string, risk: Risk, names: string])[] = [
  [
    "runs as another user",
    "escalating",
    "su pkexec runuser gosu sudoedit run0 chroot nsenter unshare newgrp sg setpriv capsh",
  ],
  [
    "changes disks or file systems",
    "destructive",
    "dd fdisk sfdisk gdisk sgdisk cfdisk parted wipefs mkswap swapon swapoff mount umount losetup cryptsetup blkdiscard hdparm lvremove vgremove pvremove zpool zfs diskutil",
  ],
  ["destroys files", "destructive", "shred truncate srm wipe rimraf trash"],
  ["destroys a database", "destructive", "dropdb dropuser"],
  ["ends processes", "process", "kill pkill killall xkill skill fuser"],
  ["stops the machine", "destructive", "shutdown reboot halt poweroff init telinit"],
  [
    "changes services",
    "system",
    "systemctl service launchctl rc-service update-rc.d initctl sv supervisorctl pm2 loginctl",
  ],
  [
    "changes users or rights",
    "system",
    "useradd userdel usermod adduser deluser groupadd groupdel passwd chpasswd visudo chown chgrp setfacl setcap chattr chsh",
  ],
  [
    "changes the network or the kernel",
    "system",
    "iptables ip6tables nft ufw firewall-cmd ifconfig ip route insmod rmmod modprobe sysctl kexec tc",
  ],
  ["runs something later or in the background", "code", "disown screen tmux daemonize dtach"],
  ["runs commands at a later time, without approval", "steering", "crontab at batch"],
  [
    "reaches another machine",
    "outward",
    "ssh scp sftp ftp tftp nc ncat netcat socat telnet rclone sshpass mosh aria2c http https xh fetch lynx w3m links elinks mail mailx sendmail mutt msmtp swaks dig nslookup host ping traceroute nmap websocat grpcurl ngrok cloudflared",
  ],
  [
    "changes cloud resources",
    "outward",
    "aws gcloud az gsutil bq doctl heroku fly flyctl vercel netlify wrangler terraform tofu terragrunt pulumi ansible ansible-playbook helm kustomize argocd eksctl supabase firebase railway render",
  ],
  [
    "administers a database",
    "outward",
    "psql createdb createuser pg_dump pg_restore pg_ctl pgcli mysql mysqladmin mysqldump mariadb mongosh mongo mongodump mongorestore redis-cli valkey-cli sqlcmd cqlsh influx clickhouse clickhouse-client duckdb etcdctl",
  ],
  [
    "installs software for the whole machine",
    "system",
    "apt apt-get aptitude dpkg yum dnf rpm pacman yay zypper apk brew snap flatpak port nix-env winget choco",
  ],
  ["changes what commands mean", "code", "unalias enable hash bind complete compgen"],
  [
    "shows or changes secrets",
    "sensitive",
    "gpg gpg2 ssh-add ssh-keygen ssh-agent security pass secret-tool keyctl vault op bw age sops",
  ],
  [
    "runs what cannot be seen here",
    "code",
    "osascript expect script debugfs gdb lldb strace ltrace vim vi nvim emacs ed ex nano parallel entr watch fzf dc ldd coproc",
  ],
  [
    "fetches code and runs it",
    "fetching",
    "npx bunx pnpx uvx pipx degit create-react-app nix nix-shell nix-build",
  ],
  [
    "runs commands that are passed to it as text",
    "code",
    "concurrently hyperfine watchexec nodemon npm-run-all run-s run-p run-parts firejail bwrap proot cross-env dotenv valgrind doppler direnv mise asdf",
  ],
  [
    "runs code from the workspace, which may do anything that you can",
    "task",
    "pytest tox nox jest vitest mocha ava playwright cypress eslint prettier webpack rollup vite next astro turbo nx lerna rspec rake phpunit ctest ninja meson bazel just task tsup esbuild gradlew mvnw sbt lein",
  ],
  ["sends files to another machine", "outward", "rsyncd wormhole croc transfer"],
];

/** Subcommands that only read, and why every other subcommand asks. */
export interface Administration {
  readonly looks: RegExp;
  readonly reason: string;
  readonly risk: Risk;
}

const onContainers = { reason: "acts beyond the workspace", risk: "outward" } as const;
export const administrations: Readonly<Record<string, Administration>> = {
  docker: { looks: /^(ps|images|logs|version|info|top|stats|port|history)$/, ...onContainers },
  podman: { looks: /^(ps|images|logs|version|info|top|stats|port|history)$/, ...onContainers },
  nerdctl: { looks: /^(ps|images|logs|version|info|top|stats|port|history)$/, ...onContainers },
  "docker-compose": { looks: /^(ps|logs|version|images)$/, ...onContainers },
  kubectl: { looks: /^(version|explain|api-resources)$/, ...onContainers },
  gh: { looks: /^(status|version)$/, ...onContainers },
  glab: { looks: /^version$/, ...onContainers },
};

/** Words with which package managers and builders run the workspace's code, fetch code, publish, or only read. */
export interface Builder {
  readonly looks: RegExp;
  readonly tasks: RegExp;
  readonly runs?: RegExp;
  readonly publishes: RegExp;
}

export const ofNode: Builder = {
  looks: /^(ls|list|outdated|root|prefix|bin|why|explain|view|info)$/,
  tasks: /^(test|t|tst|start|stop|restart|run|run-script|build)$/,
  runs: /^(exec|x|dlx)$/,
  publishes:
    /^(publish|unpublish|deprecate|owner|token|login|logout|adduser|access|dist-tag|profile|team|hook|config|set|get|whoami)$/,
};
const NOTHING = /^$(?!)/;
export const builders: Readonly<Record<string, Builder>> = {
  npm: ofNode,
  pnpm: ofNode,
  yarn: ofNode,
  cnpm: ofNode,
  cargo: {
    looks: /^(tree|locate-project|version|verify-project|search|fmt)$/,
    tasks: /^(test|t|build|b|run|r|check|c|clippy|bench|doc|nextest)$/,
    publishes: /^(publish|yank|login|owner)$/,
  },
  go: {
    looks: /^(version|list|doc|vet|fmt)$/,
    tasks: /^(test|build|run|generate|tool)$/,
    publishes: NOTHING,
  },
  make: { looks: NOTHING, tasks: /./, publishes: NOTHING },
  gmake: { looks: NOTHING, tasks: /./, publishes: NOTHING },
  cmake: { looks: NOTHING, tasks: /./, publishes: NOTHING },
  mvn: {
    looks: NOTHING,
    tasks: /^(test|verify|compile|package|clean|validate)$/,
    publishes: /^(deploy|release:\w+)$/,
  },
  gradle: {
    // Even a list of tasks runs the build script.
    looks: NOTHING,
    tasks: /^(tasks|projects|properties|dependencies|test|build|check|assemble|clean|run)$/,
    publishes: /^publish/,
  },
  dotnet: { looks: NOTHING, tasks: /^(test|build|run|format)$/, publishes: /^(nuget|publish)$/ },
  swift: { looks: NOTHING, tasks: /^(test|build|run)$/, publishes: NOTHING },
  mix: { looks: NOTHING, tasks: /^(test|compile|format)$/, publishes: /^hex/ },
  // Every command of these runs code of the workspace: plugins, the Gemfile.
  composer: {
    looks: NOTHING,
    tasks: /^(show|outdated|validate|test|run|run-script)$/,
    publishes: NOTHING,
  },
  bundle: { looks: NOTHING, tasks: /^(list|show|outdated|check)$/, runs: /^exec$/, publishes: NOTHING },
  gem: { looks: /^(list|which)$/, tasks: NOTHING, publishes: /^(push|yank|owner|signin)$/ },
  poetry: { looks: /^(show|check|version)$/, tasks: NOTHING, runs: /^run$/, publishes: /^(publish|config)$/ },
  uv: { looks: /^version$/, tasks: NOTHING, runs: /^run$/, publishes: /^publish$/ },
  hatch: { looks: NOTHING, tasks: /^(version|test)$/, runs: /^run$/, publishes: /^publish$/ },
  pipenv: { looks: NOTHING, tasks: NOTHING, runs: /^run$/, publishes: NOTHING },
  rye: { looks: NOTHING, tasks: /^test$/, runs: /^run$/, publishes: /^publish$/ },
  conda: { looks: /^(list|info)$/, tasks: NOTHING, runs: /^run$/, publishes: NOTHING },
  pip: { looks: /^(list|show|freeze|check)$/, tasks: NOTHING, publishes: /^config$/ },
  twine: { looks: /^check$/, tasks: NOTHING, publishes: /^(upload|register)$/ },
  rustup: { looks: /^(show|which)$/, tasks: NOTHING, runs: /^run$/, publishes: NOTHING },
};

export const destroying =
  /(^|[\s;&|(:])(rm|rmi|rmdir|rb|del|delete|destroy|prune|purge|drop|drain|dd|mkfs\S*|shred|truncate|wipe|down|uninstall|autoremove|flushall|flushdb)($|[\s;&|():])|\.(drop|remove|delete)\w*\(|dropDatabase|flush(all|db)|^(delete|terminate|destroy)-|^--(delete|prune|purge|force|clean|drop)|^--?auto-approve/i;
export const secretWord =
  /^(auth|ssm|kms|--raw|env:\w+)($|\/)|(^|[-_/])(secrets?|tokens?|passwords?|credentials?|access[-_]keys?|secretsmanager)($|[-_/])/i;
