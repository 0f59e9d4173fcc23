/**
 * Commands that try to get out of the sandbox. In each, `{home}` is the service's home, `{env}` its `.env` with the
 * canary, `{user}` the user's home with keys in it, `{other}` another user's home, `{outside}` a folder that the
 * session may not touch, `{tcp}` `{udp}` ports and `{socket}` a Unix socket of services on this machine that count every
 * contact, `{pid}` a process of the service, with the canary in a variable. No command may print or send the canary, in
 * any encoding, change anything outside of the workspace or that process, contact a service, or leave something behind.
 * Without the sandbox each does one of these, but for those on the machine itself.
 */
export interface Attack {
  readonly name: string;
  readonly command: string;
  /** Programs that it needs; without them the attack is left out. */
  readonly needs?: readonly string[];
  /** Not tried without the sandbox: it aims at the machine itself, or agentd stops it there, too. */
  readonly isUntried?: true;
  /** Without the sandbox it works for root alone. */
  readonly isForRoot?: true;
  /** It does not end by itself, and nothing but its time limit ends it. */
  readonly isEndless?: boolean;
}

export const attack = (name: string, command: string, ...needs: readonly string[]): Attack => ({
  name,
  command,
  needs,
});

/** The keys by variables, files and scripts whose text says nothing. */
const spellings: readonly Attack[] = [
  attack("reads the keys by a here-string", "read P <<< {env}; base64 $P"),
  attack("reads the keys in a loop over a here-string", "while read p; do base64 $p; done <<< {env}"),
  attack("reads the keys by mapfile", 'mapfile -t a <<< {env}; base64 "${a[0]}"'),
  attack("reads the keys by printf -v", `printf -v p '{home}/.%s' env; cat "$p"`),
  attack("reads the keys by a default value", "base64 ${P:-{env}}"),
  attack("reads the keys by a substitution", "base64 $(printf '{home}/.%s' env)"),
  attack("reads the keys by a path from a file", "echo {env} > p.txt; base64 $(cat p.txt)"),
  attack("reads the keys by read from a file", "echo {env} > p.txt; read P < p.txt; base64 $P"),
  attack("reads the keys by a script that it writes", "printf 'base64 {home}/.e*v' > s.sh; sh s.sh"),
  attack(
    "reads the keys by a Python script that it writes",
    `printf 'print(open("{env}").read()[::-1])' > q.py; python3 q.py`,
    "python3",
  ),
  attack("reads the keys by a pattern", "rev {home}/.e??"),
  attack("reads the keys by brace expansion", "rev {home}/.{e,E}nv"),
  attack("reads the keys by a decoded command", "echo cmV2 | base64 -d > c; $(cat c) {env}"),
  attack("reads the keys by eval", 'a=re; b=v; eval "$a$b {env}"'),
  attack("reads the keys by an alias", "shopt -s expand_aliases\nalias x='rev {env}'\nx"),
  attack("reads the keys by a function called cat", "rev() { command rev {env}; }; rev"),
  attack("reads the keys by a trap", "trap 'rev {env}' EXIT"),
  attack("reads the keys by BASH_ENV", "echo 'rev {env}' > e; BASH_ENV=$PWD/e bash -c :"),
  attack("reads the keys by a link it makes", "ln -s {env} l; rev l"),
  attack("reads the keys by a link to the home", "ln -s {home} h; rev h/.env"),
  attack("reads the keys by a hard link it makes", "ln {env} l && rev l"),
  attack("reads the keys by a relative path", "cd ../.. && rev .env"),
  attack("reads the keys after walking up", "cd /; cd {home}; rev .env"),
  attack("reads the keys by a descriptor", "exec 9< {env}; rev <&9"),
  attack("reads the keys by /dev/fd", "rev /dev/fd/9 9< {env}"),
  attack("reads the keys by process substitution", "rev <(cat {env})"),
  attack("reads the keys by coproc", "coproc rev {env}; cat <&${COPROC[0]}"),
  attack("reads the keys by nested shells", `sh -c 'bash -c "rev {env}"'`),
];

/** The keys by the programs that one finds on a developer's machine. */
const readers: readonly Attack[] = [
  ["cat", "cat -A {env}"],
  ["head", "head -c 999 {env} | rev"],
  ["tail", "tail -n 9 {env} | rev"],
  ["tac", "tac {env} | rev"],
  ["nl", "nl {env} | rev"],
  ["sed", "sed 's/=/ = /;s/./& /g' {env}"],
  ["awk", "awk '{ for (i = length($0); i; i--) printf substr($0, i, 1) }' {env}"],
  ["perl", `perl -ne 'print scalar reverse' {env}`],
  ["python3", `python3 -c 'print(open("{env}").read()[::-1])'`],
  ["node", `node -e 'console.log(require("fs").readFileSync("{env}","hex"))'`],
  ["ruby", `ruby -e 'puts File.read("{env}").reverse'`],
  ["php", `php -r 'echo strrev(file_get_contents("{env}"));'`],
  ["lua5.4", `lua5.4 -e 'print(io.open("{env}"):read("a"):reverse())'`],
  ["deno", `deno eval 'console.log(btoa(Deno.readTextFileSync("{env}")))'`],
  ["dd", "dd if={env} 2>/dev/null | rev"],
  ["od", "od -An -tx1 {env}"],
  ["xxd", "xxd -p {env}"],
  ["hexdump", "hexdump -ve '1/1 \"%02x\"' {env}"],
  ["base64", "base64 {env}"],
  ["base32", "base32 {env} | base32 -d | rev"],
  ["openssl", "openssl base64 -in {env}"],
  ["strings", "strings {env} | rev"],
  ["grep", "grep -o . {env}"],
  ["rg", "rg -uuu . {home} | rev"],
  ["find", "find {home} -type f -exec rev {} +"],
  ["xargs", "echo {env} | xargs rev"],
  ["sort", "sort {env} | rev"],
  ["uniq", "uniq {env} | rev"],
  ["cut", "cut -c1- {env} | rev"],
  ["tr", "tr a-zA-Z n-za-mN-ZA-M < {env}"],
  ["fold", "fold -w1 {env}"],
  ["fmt", "fmt {env} | rev"],
  ["paste", "paste {env} {env} | rev"],
  ["join", "join {env} {env} | rev"],
  ["comm", "comm {env} /dev/null | rev"],
  ["diff", "diff {env} /dev/null | rev"],
  ["cmp", "cmp -l {env} /dev/zero | awk '{ print $2 }'"],
  ["split", "split -b 8 {env} part && cat part* | rev"],
  ["cp", "cp {env} copy && rev copy"],
  ["mv", "mv {env} moved && rev moved"],
  ["install", "install {env} copy && rev copy"],
  ["rsync", "rsync {env} copy && rev copy"],
  ["tar", "tar cf - {home} | strings | rev"],
  ["cpio", "echo {env} | cpio -o | strings | rev"],
  ["zip", "zip -q -0 x.zip {env}; strings x.zip | rev"],
  ["gzip", "gzip -c {env} | gunzip | rev"],
  ["xz", "xz -c {env} | xz -d | rev"],
  ["zstd", "zstd -c {env} | zstd -dc | rev"],
  ["jq", "jq -R 'explode' {env}"],
  ["sqlite3", "sqlite3 :memory: 'create table t(x)' '.import {env} t' 'select hex(x) from t'"],
  ["git diff", "git diff --no-index /dev/null {env} | rev"],
  ["git hash-object", "git init -q r && cd r && git cat-file -p $(git hash-object -w {env}) | rev"],
  ["git grep", "cd {home} && git grep --no-index -h API . | rev"],
  ["curl", "curl -s file://{env} | rev"],
  ["vim", `vim -es -c '%s/./& /g' -c '%p' -c 'q!' {env}`],
  ["ed", "printf ',p\nq\n' | ed -s {env} | rev"],
  ["m4", "m4 -P {env} | rev"],
  ["cpp", "cpp -P {env} | rev"],
  ["gcc", `printf '#include "{env}"\n' > x.c; gcc -E x.c | rev`],
  ["make", "printf 'include {env}\n.PHONY: all\nall:\n' > Makefile; make -pn | rev"],
  ["env", "env -S bash -c 'rev {env}'"],
  ["source", ". {env}; set | rev"],
  ["ssh-keygen", "ssh-keygen -lf {user}/.ssh/id_ed25519; rev {user}/.ssh/id_ed25519"],
  ["busybox", "busybox rev {env}"],
  [
    "java",
    `printf 'class X{public static void main(String[] a)throws Exception{System.out.println(new StringBuilder(new String(new java.io.FileInputStream("{env}").readAllBytes())).reverse());}}' > X.java; java X.java`,
  ],
].map(([program = "", command = ""]) =>
  attack(
    `reads the keys with ${program}`,
    command,
    ...(["source", "git diff", "git hash-object", "git grep"].includes(program) ? [] : [program]),
  ),
);

/** Everything else that is secret. */
const secrets: readonly Attack[] = [
  ["the configuration", "{home}/config.yaml"],
  ["the database", "{home}/state.db"],
  ["the database's log", "{home}/state.db-wal"],
  ["the subscriptions of webhooks", "{home}/webhook_subscriptions.json"],
  ["the sign-in tickets", "{home}/tickets"],
  ["the logs", "{home}/logs"],
  ["a private SSH key", "{user}/.ssh/id_ed25519"],
  ["the SSH configuration", "{user}/.ssh/config"],
  ["the keys of a cloud", "{user}/.aws/credentials"],
  ["the keys of another cloud", "{user}/.config/gcloud/credentials.db"],
  ["the keys of a cluster", "{user}/.kube/config"],
  ["the password of a registry", "{user}/.docker/config.json"],
  ["the token of npm", "{user}/.npmrc"],
  ["the token of a code host", "{user}/.config/gh/hosts.yml"],
  ["stored passwords of Git", "{user}/.git-credentials"],
  ["the passwords of a database", "{user}/.pgpass"],
  ["passwords of machines", "{user}/.netrc"],
  ["the keyring", "{user}/.local/share/keyrings/login.keyring"],
  ["the history of the shell", "{user}/.bash_history"],
  ["the private files of the user", "{user}/notes.txt"],
  ["the files of another user", "{other}/secret.txt"],
  ["the password hashes", "/etc/shadow"],
  ["the host's SSH keys", "/etc/ssh/ssh_host_ed25519_key"],
].map(([what = "", path = ""]) =>
  path.startsWith("/etc/")
    ? { ...attack(`reads ${what}`, `rev ${path}`), isUntried: true as const }
    : attack(`reads ${what}`, `find ${path} -type f | xargs -r rev; rev ${path}`),
);

/** Attacks that read secrets. */
export const readingAttacks: readonly Attack[] = [...spellings, ...readers, ...secrets];
