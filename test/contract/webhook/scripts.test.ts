/** What the script of a route does to an event, over real HTTP, with real scripts. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { chmod, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { WebhookService } from "../../harness/webhook.ts";
import { openWebhookAgent, type WebhookAgent } from "../../harness/webhook-agent.ts";

/** A service whose route `hook` has the first of `scripts`, which are written to its folder of scripts. */
async function openPlace(
  scripts: Readonly<Record<string, string>>,
  options: Partial<Parameters<typeof openWebhookAgent>[0]> = {},
): Promise<WebhookAgent & { readonly folder: string }> {
  const files = Object.fromEntries(Object.entries(scripts).map(([name, text]) => [`scripts/${name}`, text]));
  const routes = { hook: { script: Object.keys(scripts)[0] ?? "none" } };
  const agent = await openWebhookAgent({ routes, ...options, files });
  return {
    ...agent,
    folder: agent.path("scripts"),
    [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose](),
  };
}

const ignored = (route = "hook") => ({ status: "ignored", reason: "script", route });

async function assertIgnored(service: WebhookService, why: RegExp, route = "hook", body: unknown = {}) {
  const { status, body: answer } = await service.post(route, body);
  assert.deepEqual([status, answer], [200, ignored(route)]);
  const isIt = (row: { readonly route: string; readonly status: string }) =>
    row.route === route && row.status === "ignored";
  const rows = await service.recorded((all) => all.some(isIt));
  assert.match(rows.findLast(isIt)?.reason ?? "", why);
}

/** Whether a process still runs; a zombie does not. */
async function isRunning(pid: number): Promise<boolean> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    return !/\) [ZX] /.test(stat);
  } catch {
    return false;
  }
}

async function untilGone(pid: number): Promise<void> {
  const patience = AbortSignal.timeout(60_000);
  while (await isRunning(pid)) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function numberIn(file: string): Promise<number> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const text = await readFile(file, "utf8").catch(() => "");
    if (/^\d+\n/.test(text)) return Number(text);
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a JSON object from the script replaces the payload in the prompt, `deliver_extra` and `{__raw__}`", async () => {
  const script = 'echo \'{"title": "from the script", "n": 7}\'';
  const extra = { subject: "{title}", nested: { list: ["{n}", "{old}"] }, count: 3 };
  await using place = await openPlace(
    { "replace.sh": script },
    {
      routes: {
        hook: {
          script: "replace.sh",
          prompt: "{title} {old} {__raw__}",
          deliver_extra: extra,
          trusts_sender: true,
        },
      },
    },
  );
  const { service } = place;
  assert.equal((await service.post("hook", { title: "mine", old: "x" })).status, 202);
  const raw = JSON.stringify({ title: "from the script", n: 7 }, undefined, 2);
  assert.deepEqual(await place.asked(1), [`from the script {old} ${raw}`]);
  const run = await service.test.service.store.read.selectFrom("runs").select("reply_to").executeTakeFirst();
  const delivery = JSON.parse(run?.reply_to ?? "null") as { extra: unknown };
  assert.deepEqual(delivery.extra, {
    subject: "from the script",
    nested: { list: ["7", "{old}"] },
    count: 3,
  });
});

test("script output that is not an object becomes `{script_output}` beside the payload", async () => {
  const prompt = "{script_output} of {a}{payload.0}";
  await using place = await openPlace(
    { "text.sh": "echo; echo '  two words  '", "list.sh": "echo '[1, 2]'", "number.sh": "echo 42" },
    {
      routes: Object.fromEntries(
        ["text", "list", "number"].map((name) => [
          name,
          { script: `${name}.sh`, prompt, trusts_sender: true },
        ]),
      ),
    },
  );
  await place.service.post("text", { a: 1 });
  await place.asked(1);
  await place.service.post("list", { a: 2 });
  await place.asked(2);
  // A payload that is not an object moves to the field `payload`.
  await place.service.post("number", ["first"]);
  assert.deepEqual(await place.asked(3), [
    "two words of 1{payload.0}",
    "[1, 2] of 2{payload.0}",
    "42 of {a}first",
  ]);
});

test("a request is ignored when its script prints nothing, `[SILENT]` or the ignore marker, fails, times out or is missing", async () => {
  const files = {
    "empty.sh": "echo '  '",
    "silent.sh": "echo '[SILENT]'",
    "fails.sh": "echo 'never mind'; echo 'no such tenant' >&2; exit 3",
    "killed.sh": "kill -9 $$",
    "marker.sh": 'echo \'{"__agent_ignore__": true, "a": 1}\'',
    "silent-key.sh": "echo '{\"[SILENT]\": true}'",
    "unmarked.sh": 'echo \'{"__agent_ignore__": "true"}\'',
  };
  const routes = Object.fromEntries([
    ...Object.keys(files).map((name) => [name.replace(".sh", ""), { script: name }]),
    ["missing", { script: "missing.sh" }],
  ]);
  await using place = await openPlace(files, { routes });
  const { service } = place;
  await assertIgnored(service, /printed nothing/, "empty");
  await assertIgnored(service, /printed \[SILENT\]/, "silent");
  await assertIgnored(service, /ended with code 3: no such tenant/, "fails");
  await assertIgnored(service, /ended with signal SIGKILL/, "killed");
  await assertIgnored(service, /no such file in the folder of scripts/, "missing");
  await assertIgnored(service, /printed __agent_ignore__/, "marker");
  await assertIgnored(service, /printed \[SILENT\]/, "silent-key");
  assert.equal((await service.post("unmarked")).status, 202, "only the boolean is the mark");
  assert.equal((await place.asked(1)).length, 1, "nothing of the rest reached the agent");
  const slow = { routes: { slow: { script: "slow.sh" } }, settings: { script_timeout_seconds: 1 } };
  await using other = await openPlace({ "slow.sh": "sleep 600" }, slow);
  await assertIgnored(other.service, /took longer than 1 seconds/, "slow");
});

test("a script outside the scripts folder does not run, whether named by `..`, an absolute path or a symlink", async () => {
  const outside = { above: "../outside.sh", link: "link.sh", folder: "linked/outside.sh", itself: "." };
  const inside = {
    plain: "inside.sh",
    dotted: "sub/../inside.sh",
    home: "<home>/scripts/inside.sh",
    inner: "inner.sh",
  };
  const routes = Object.fromEntries(
    Object.entries({ ...outside, ...inside }).map(([name, script]) => [name, { script }]),
  );
  await using place = await openPlace({ "inside.sh": "echo in" }, { routes });
  const { service, folder } = place;
  const target = join(folder, "..", "outside.sh");
  await writeFile(target, "echo out > escaped; echo out");
  await symlink(target, join(folder, "link.sh"));
  await symlink(join(folder, ".."), join(folder, "linked"));
  await symlink(join(folder, "inside.sh"), join(folder, "inner.sh"));
  await mkdir(join(folder, "sub"));
  for (const name of Object.keys(outside)) await assertIgnored(service, /no such file/, name);
  for (const name of Object.keys(inside)) assert.equal((await service.post(name)).status, 202, name);
  await assert.rejects(readFile(join(folder, "..", "escaped")));

  const absolute = { out: target, in: join(folder, "inside.sh"), sibling: `${folder}-other/x.sh` };
  await mkdir(`${folder}-other`);
  await writeFile(`${folder}-other/x.sh`, "echo out");
  const more = Object.fromEntries(Object.entries(absolute).map(([name, script]) => [name, { script }]));
  await using next = await service.restart({ routes: more });
  await assertIgnored(next, /no such file/, "out");
  await assertIgnored(next, /no such file/, "sibling");
  assert.equal((await next.post("in")).status, 202);
});

test("with `retry_on_script_failure` a failed script answers 503 and frees the delivery id, and a veto answers 200", async () => {
  await using place = await openPlace(
    { "check.sh": "cat >&2; exit 1", "veto.sh": "echo '[SILENT]'" },
    {
      routes: {
        hook: { script: "check.sh", retry_on_script_failure: true },
        veto: { script: "veto.sh", retry_on_script_failure: true },
      },
    },
  );
  const { service, folder } = place;
  const send = () =>
    service.post("hook", { note: "between-us" }, { headers: { "x-github-delivery": "delivery-1" } });
  const refused = await send();
  const { request_id: _, ...body } = refused.body;
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.headers.get("retry-after")) > 0);
  assert.deepEqual(
    { ...body, error: undefined },
    { status: "error", reason: "script_failed", route: "hook", code: "script_failed", error: undefined },
  );
  await writeFile(join(folder, "check.sh"), "echo fixed");
  const again = await send();
  assert.deepEqual([again.status, again.body.delivery_id], [202, "delivery-1"]);
  assert.equal((await send()).body.status, "duplicate");
  const veto = await service.post("veto", {});
  assert.deepEqual([veto.status, veto.body], [200, ignored("veto")]);
  const failures = service.logged("a webhook's script failed");
  assert.deepEqual(
    failures.map(({ level, script, reason }) => [level, script, reason]),
    [["warn", "check.sh", "it ended with code 1"]],
  );
  assert.ok(service.test.logLines.every((line) => !line.includes("between-us")));
});

test("a script gets the payload on stdin and the event and delivery id in its environment, but no API keys", async () => {
  const look =
    'printf \'{"got": %s, "cwd": "%s", "names": "%s", "event": "%s", "id": "%s"}\' "$(cat)" "$PWD" ' +
    '"$(env | cut -d= -f1 | tr "\\n" " ")" "$AGENT_WEBHOOK_EVENT_TYPE" "$AGENT_WEBHOOK_DELIVERY_ID"';
  await using place = await openPlace(
    { "look.sh": look },
    {
      routes: {
        hook: { script: "look.sh", prompt: "{got.text} {event} {id} {cwd}|{names}", trusts_sender: true },
      },
      env: { ANTHROPIC_API_KEY: "sk-ant-of-the-service-0123456789" },
    },
  );
  const headers = { "x-github-event": "push", "x-github-delivery": "delivery-7" };
  await place.service.post("hook", { text: 'é " \\ \u{1F600}' }, { headers });
  const [said = ""] = await place.asked(1);
  assert.ok(said.startsWith(`é " \\ \u{1F600} push delivery-7 ${place.folder}|`), said);
  const allowed = /^(PATH|HOME|LANG|TMPDIR|USER|SHELL|TZ|TERM|LC_\w+|PWD|OLDPWD|SHLVL|_|AGENT_WEBHOOK_\w+)$/;
  for (const name of said
    .slice(said.indexOf("|") + 1)
    .trim()
    .split(" "))
    assert.match(name, allowed);
  assert.ok(
    Object.keys(process.env).some((name) => !allowed.test(name)),
    "the environment has variables to remove",
  );
});

test("scripts run with bash, the service's runtime or Python by file extension, and secrets in their output are redacted", async () => {
  const files = {
    "a.bash": 'echo "bash ${BASH_VERSION:+yes}"',
    "b.mjs": 'console.log("runtime", typeof globalThis.process?.version)',
    "c.ts": 'const said: string = "typed"; console.log(said)',
    "d.py": 'print("python")',
    "e.rb": 'print("python, too")',
    "f.sh": `echo '{"key": "sk-ant-0123456789abcdef0123", "text": "token ghp_0123456789abcdef0123456789"}'`,
  };
  const routes = Object.fromEntries(
    Object.keys(files).map((script, index) => [
      `r${index}`,
      { script, prompt: "{script_output}{key}{text}", trusts_sender: true },
    ]),
  );
  await using place = await openPlace(files, { routes });
  for (const index of Object.keys(files).keys()) {
    assert.equal((await place.service.post(`r${index}`)).status, 202);
    await place.asked(index + 1);
  }
  assert.deepEqual(await place.asked(6), [
    "bash yes{key}{text}",
    "runtime string{key}{text}",
    "typed{key}{text}",
    "python{key}{text}",
    "python, too{key}{text}",
    "{script_output}[redacted]token [redacted]",
  ]);
});

test("a script that hangs is killed with all its child processes, even those that ignore SIGTERM", async () => {
  const hang = [
    "trap '' TERM",
    "sleep 600 & echo $! > child.pid",
    "(trap '' TERM; while :; do sleep 1; done) & echo $! > stubborn.pid",
    "echo $$ > own.pid",
    "while :; do sleep 1; done",
  ].join("\n");
  // With longer and longer limits, until it could start all of them.
  for (const seconds of [1, 10, 60]) {
    await using place = await openPlace(
      { "hang.sh": hang },
      { settings: { script_timeout_seconds: seconds } },
    );
    await assertIgnored(place.service, new RegExp(`longer than ${seconds} seconds`));
    const files = ["child", "stubborn", "own"].map((name) => join(place.folder, `${name}.pid`));
    if (!files.every((file) => statSync(file, { throwIfNoEntry: false })?.size)) continue;
    for (const file of files) await untilGone(await numberIn(file));
    return;
  }
  assert.fail("the script did not begin");
});

test("processes that a script leaves running are killed when it ends", async () => {
  const files = {
    "forks.sh": "for i in 1 2 3; do sleep 600 & done; echo $! > last.pid; echo forked",
    // Outside the process group and with open output: the service does not wait for it.
    "leaves.sh":
      "setsid sh -c 'echo $$ > left.pid; exec sleep 600' & while [ ! -s left.pid ]; do sleep 0.02; done; echo left",
  };
  const routes = Object.fromEntries(
    Object.keys(files).map((script) => [script.replace(".sh", ""), { script }]),
  );
  await using place = await openPlace(files, { routes });
  assert.equal((await place.service.post("forks")).status, 202);
  await untilGone(await numberIn(join(place.folder, "last.pid")));
  assert.equal((await place.service.post("leaves")).status, 202);
  const left = await numberIn(join(place.folder, "left.pid"));
  assert.ok(await isRunning(left), "the answer waited for what had left");
  process.kill(left, "SIGKILL");
});

test("a script that floods stdout is killed, and a flood on stderr is dropped", async () => {
  const files = {
    "flood.sh": "echo $$ > flood.pid; yes flood",
    "errors.sh": "head -c 5000000 /dev/zero >&2; echo fine",
    "deep.py": "print('{\"a\":' + '[' * 10000 + ']' * 10000 + '}')",
    "deaf.sh": "exec <&-; echo heard nothing",
  };
  const routes = Object.fromEntries(Object.keys(files).map((script) => [script.split(".")[0], { script }]));
  await using place = await openPlace(files, { routes });
  const { service } = place;
  await assertIgnored(service, /printed more than 1048576 bytes/, "flood");
  await untilGone(await numberIn(join(place.folder, "flood.pid")));
  assert.equal((await service.post("errors")).status, 202);
  await assertIgnored(service, /nested too deeply/, "deep");
  assert.equal((await service.post("deaf", { text: "x".repeat(900_000) })).status, 202);
});

test("values that senders choose cannot keep a script from starting", async () => {
  await using place = await openPlace(
    { "echo.sh": 'echo "got ${#AGENT_WEBHOOK_EVENT_TYPE}"' },
    { routes: { hook: { script: "echo.sh", prompt: "{script_output}", trusts_sender: true } } },
  );
  await place.service.post("hook", { event_type: "x\u0000y" });
  await place.asked(1);
  await place.service.post("hook", { event_type: "x".repeat(500_000) });
  const [nul = "", long = ""] = await place.asked(2);
  assert.match(nul, /^got [23]$/);
  assert.ok(Number(long.slice("got ".length)) <= 1_000, long);
});

test("numbers beyond the range of doubles pass through a script as written", async () => {
  await using place = await openPlace(
    { "pass.sh": "cat", "one.sh": "cat >/dev/null; echo 9007199254740995" },
    {
      routes: {
        hook: { script: "pass.sh", prompt: "{id} {far} {list}", trusts_sender: true },
        one: { script: "one.sh", prompt: "{script_output} {payload}", trusts_sender: true },
      },
    },
  );
  await place.service.post(
    "hook",
    '{"id": 9007199254740993, "far": 1e400, "list": [-12345678901234567890, 1.5]}',
  );
  await place.asked(1);
  await place.service.post("one", "9007199254740997");
  assert.deepEqual(await place.asked(2), [
    "9007199254740993 1e400 [\n  -12345678901234567890,\n  1.5\n]",
    "9007199254740995 9007199254740997",
  ]);
});

test("many simultaneous scripts all run", async () => {
  await using place = await openPlace({ "slow.sh": "sleep 0.05; echo done" });
  const answers = await Promise.all(Array.from({ length: 40 }, () => place.service.post("hook")));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
});

test("a script need not be executable, and without the folder every script is missing", async () => {
  await using place = await openPlace({ "plain.sh": "echo hello" });
  await chmod(join(place.folder, "plain.sh"), 0o600);
  assert.equal((await place.service.post("hook")).status, 202);
  await rm(place.folder, { recursive: true });
  await assertIgnored(place.service, /no such file/);
});

test("what a failing script complains of is in the record, and not in the log", async () => {
  await using place = await openPlace({ "fail.sh": "cat >&2; exit 3\n" });
  await assertIgnored(place.service, /^it ended with code 3: .*private-title/, "hook", {
    title: "private-title",
  });
  assert.ok(!place.service.test.logLines.join("").includes("private-title"));
});
