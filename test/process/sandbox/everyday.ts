/**
 * Commands of a developer's day. In each, the working folder is a project with sources, tests and a repository;
 * `{registry}` is a package registry and `{git}` a repository over HTTP, both on an allowed host. Each must succeed
 * inside the sandbox, and nobody is asked.
 */
export interface EverydayCommand {
  readonly command: string;
  /** Programs that it needs; without them it is left out. */
  readonly needs: readonly string[];
}

function of(needs: string, commands: string): readonly EverydayCommand[] {
  const lines = commands.trim().split("\n");
  return lines.map((line) => ({ command: line.trim(), needs: needs.split(" ").filter(Boolean) }));
}

const looking = of(
  "",
  `
  pwd
  ls -la
  ls -R src | head
  tree -L 2 2>/dev/null || find . -maxdepth 2 -not -path './.git/*'
  cat README.md
  head -n 5 src/sum.js
  tail -n 5 src/sum.js
  wc -l src/*.js
  grep -rn sum src
  grep -rl --include='*.js' sum .
  find . -name '*.js' -newer README.md
  find src -type f -exec wc -l {} +
  find . -name '*.js' -print0 | xargs -0 wc -l
  stat README.md
  file README.md 2>/dev/null || true
  du -sh .
  df -h .
  date
  uname -a
  id
  env | sort | head
  which node
  echo $HOME $TMPDIR
  ps aux | head
  uptime
  cat /etc/os-release
  cat /proc/cpuinfo | head -5
  free -m || true
  getconf _NPROCESSORS_ONLN
  sha256sum README.md
  md5sum README.md
  diff README.md src/sum.js || true
  cmp README.md README.md
  sort README.md | uniq -c
  cut -d' ' -f1 README.md
  tr a-z A-Z < README.md
  sed -n '1,3p' README.md
  awk '{ print NR, $0 }' README.md
  rev README.md | tac | nl
  xxd README.md 2>/dev/null | head -2 || od -c README.md | head -2
  base64 README.md
  comm README.md README.md
  `,
);

const changing = of(
  "",
  `
  echo hello > notes.txt
  echo more >> notes.txt; cat notes.txt
  mkdir -p build/deep/er
  touch build/a build/b
  cp src/sum.js build/sum.js
  cp -r src build/src
  mv build/a build/c
  ln -s ../src build/link
  chmod +x scripts/run.sh
  sed -i 's/one/two/' data.txt
  printf 'a\\nb\\n' | tee build/list.txt
  install -m 644 README.md build/README.md
  patch -p0 < change.diff
  split -l 1 data.txt build/part
  tar czf build/src.tar.gz src
  tar xzf build/src.tar.gz -C build
  gzip -c build/list.txt > build/list2.gz
  gunzip -c build/list.txt.gz
  cat > build/here.txt <<< here
  mktemp
  f=$(mktemp) && echo x > $f && cat $f
  d=$(mktemp -d) && cd $d && touch y && ls
  echo x > /tmp/scratch && cat /tmp/scratch
  echo cached > ~/.cache-file && cat ~/.cache-file
  mkdir -p ~/.cache/tool && touch ~/.cache/tool/x
  for f in src/*.js; do basename $f; done
  if [ -f README.md ]; then echo yes; fi
  while read -r line; do echo "$line"; done < data.txt
  seq 5 | xargs -n1 -P2 echo
  (cd src && ls)
  sleep 0.1 & wait
  timeout 5 true
  nice -n 5 true
  time true
  x=$((1 + 2)); echo $x
  set -euo pipefail; echo strict
  bash scripts/run.sh
  sh -c 'echo nested'
  bash -c 'cat < /dev/null; echo > /dev/null'
  `,
);

const versionControl = of(
  "git",
  `
  git status
  git status --short --branch
  git log --oneline -5
  git diff
  git diff --stat HEAD
  git show HEAD --stat
  git add -A && git status --short
  git commit -q --allow-empty -m 'a change'
  git branch feature
  git switch -q -c topic
  git switch -q -c other && git switch -q -
  git tag v1
  git stash list
  git blame README.md
  git grep sum
  git ls-files
  git rev-parse HEAD
  git merge-base HEAD HEAD
  git worktree list
  git cat-file -p HEAD
  git format-patch -1 --stdout
  git apply --check change.patch
  git bisect log || true
  git shortlog -sn HEAD
  git describe --always
  git reflog -3
  git config --get user.name
  git hash-object README.md
  git clone -q . build/clone
  git init -q build/fresh
  `,
);

const javascript = of(
  "node npm",
  `
  node --version
  node -e 'console.log(1 + 1)'
  node src/sum.js
  node --test
  node --check src/sum.js
  npm --version
  npm test
  npm run build
  npm run lint --if-present
  npm pkg get name
  npm ls || true
  npm pack --dry-run
  npm init -y --silent --prefix build
  npm prefix
  node -e 'require("fs").writeFileSync("build/x.json", "{}")'
  node -e 'require("http").createServer().listen(0, function () { this.close(); })'
  node --input-type=module -e 'import "node:fs/promises"'
  node -p 'os.tmpdir()'
  node -e 'require("child_process").execSync("git status")'
  node -e 'new Worker(new URL("data:text/javascript,"))' || true
  `,
);

const python = of(
  "python3",
  `
  python3 --version
  python3 -c 'print(1 + 1)'
  python3 tool.py
  python3 -m unittest -q test_tool.py
  python3 -m py_compile tool.py
  python3 -m json.tool package.json
  python3 -c 'import tempfile; print(tempfile.mkdtemp())'
  python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))'
  python3 -c 'import subprocess; subprocess.check_call(["git", "status"])'
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()'
  python3 -c 'import pathlib; pathlib.Path("build/p").write_text("x")'
  python3 -c 'import sqlite3; sqlite3.connect("build/db").execute("create table t(x)")'
  `,
);

const building = [
  ...of(
    "make gcc",
    "make -f Makefile.c\nmake -f Makefile.c -n\ngcc -O1 -o build/hello hello.c && build/hello",
  ),
  ...of("make", "make\nmake -j2 all\nmake --version"),
  ...of("g++", "g++ --version"),
  ...of("cmake", "cmake --version"),
  ...of("go", "go version\ngo env GOPATH"),
  ...of("java", "java -version"),
  ...of("perl", "perl -e 'print 42'"),
  ...of("jq", "jq .name package.json"),
  ...of("rg", "rg sum\nrg --files"),
  ...of("sqlite3", "sqlite3 build/x.db 'create table t(x); select 1'"),
  ...of("openssl", "openssl rand -hex 8\nopenssl dgst -sha256 README.md"),
  ...of("zip unzip", "zip -qr build/x.zip src && unzip -l build/x.zip"),
  ...of("rsync", "rsync -a src/ build/copy/"),
  ...of("tmux", "tmux -V"),
];

// Older versions of Node know no proxy.
const network = [
  ...of("curl", "curl -fsS {registry}/left\ncurl -fsSL -o build/left.json {registry}/left"),
  ...of("wget", "wget -q -O build/left.txt {registry}/left"),
  ...of(
    "npm",
    "npm view left version --registry {registry}\nnpm install left --registry {registry} --no-audit --no-fund",
  ),
  ...of(
    "npm",
    "npm install left --registry {registry} --no-audit --no-fund && node -e 'console.log(require(\"left\"))'",
  ),
  ...of("git", "git ls-remote {git}\ngit clone -q {git} build/cloned && ls build/cloned"),
  ...of(
    "node",
    "node -e 'parseInt(process.versions.node) < 24 || fetch(\"{registry}/left\").then((r) => r.text()).then(console.log)'",
  ),
  ...of("python3", "python3 -c 'import urllib.request as u; print(u.urlopen(\"{registry}/left\").read())'"),
];

export const everydayCommands: readonly EverydayCommand[] = [
  ...looking,
  ...changing,
  ...versionControl,
  ...javascript,
  ...python,
  ...building,
  ...network,
];
