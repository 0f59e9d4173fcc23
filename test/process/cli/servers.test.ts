import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { CommandDef } from "citty";
import { subCommandNames, subCommandOf, worksOnServers } from "../../../src/cli/kit/command.ts";
import { rootCommand } from "../../../src/cli/root.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace, type GatewayPlace } from "../../harness/gateway.ts";
import { sign } from "../../harness/webhook.ts";
import { freePort } from "./free-port.ts";
import { atHome, changes, exceptions, readsOf, settled, type Server } from "./server-commands.ts";
import { createHome } from "../../unit/config/home-folder.ts";

interface ShownDelivery {
  readonly id: string;
  readonly ended_at: number | null;
}

/**
 * Returns the outcome without the name of who asked, since the user of this machine has no key, ids of requests, and the file of
 * the configuration, which a server does not name.
 */
function comparable({ code, stdout, stderr }: Outcome): Outcome {
  const who = /(?<=\b(?:tested|replayed) by )[\w-]+/g;
  const file = /(?<="path": )(?:null|"[^"]*config\.yaml")/g;
  const shown = stdout
    .replaceAll(who, "KEY")
    .replaceAll(/\breq_\w+/g, "REQUEST")
    .replaceAll(file, "FILE");
  return { code, stdout: shown, stderr };
}

/** Ids, secrets and times, and who asked: the user of this machine has no key. */
const OWN =
  /\b(?:agk_[\w.-]+|(?:[a-z]+_)+[0-9a-z]{20,}|[0-9a-f]{12}|\d{8}_\d{6}_[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+))|(?<="path": )(?:null|"[^"]*config\.yaml")|(?<=_at": )\d[\d.]*|(?<="(?:secret|answered_by|created_by)": ")[^"]+/g;

/** Returns what a change printed, without what belongs to this one. Only a server can tell that it must restart for it. */
function withoutOwn({ stdout }: Outcome, own: readonly string[]): string {
  return own.reduce((left, each) => left.replaceAll(each, "THING"), stdout).replaceAll(OWN, "OWN");
}

/** Returns the names of each command that works on a server; an alias is the same command. */
async function commandsOnServers(
  command: CommandDef,
  path: readonly string[] = [],
  found = new Map<CommandDef, string[]>(),
): Promise<ReadonlyMap<CommandDef, readonly string[]>> {
  const below = await subCommandNames(command);
  if (below.length === 0 && worksOnServers(command))
    found.set(command, [...(found.get(command) ?? []), path.join(" ")]);
  for (const name of below) {
    const next = (await subCommandOf(command, name)) ?? assert.fail(name);
    await commandsOnServers(next, [...path, name], found);
  }
  return found;
}

/** Runs the commands one after the other. */
async function outcomesOf(
  commands: readonly (readonly string[])[],
  env: Readonly<Record<string, string>>,
): Promise<readonly Outcome[]> {
  return Promise.all(commands.map((words) => keptAgentd(words, env)));
}

/** A key that may only read. */
const READER = "reader-key-0123456789abcdef";

describe("agentd on a server", () => {
  let place: GatewayPlace;
  let client: Awaited<ReturnType<typeof createHome>>;
  let store: Store;
  let url = "";
  let key = "";

  before(async () => {
    place = await createGatewayPlace();
    const hooks = await freePort();
    const keys = `[{ name: reader, owner: default, key: ${READER}, scopes: [read] }]`;
    await writeFile(
      join(place.home, "config.yaml"),
      `cron: { enabled: false }\napi_server: { keys: ${keys}, key: "env:API_SERVER_KEY" }\nplatforms: { webhook: { enabled: true, extra: { host: 127.0.0.1, port: ${hooks} } } }\n`,
    );
    await writeFile(join(place.home, ".env"), "API_SERVER_KEY=home-key-0123456789abcdef\n", { mode: 0o600 });
    ({ url } = await place.start());
    key = await place.key();
    client = await createHome();
    store = await openStore({ url: place.database });
  });
  after(async () => {
    await store.close();
    await client[Symbol.asyncDispose]();
    await place[Symbol.asyncDispose]();
  });

  /** Runs a command on the machine of the gateway. */
  function here(...words: readonly string[]): Promise<Outcome> {
    return keptAgentd(words, { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database });
  }

  /** Runs a command with the home of somebody else, whose environment has the key. */
  function there(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Outcome> {
    return keptAgentd(words, { AGENTD_HOME: client.home, API_SERVER_KEY: key, ...env });
  }

  it("each CLI command prints the same JSON with and without --url", async () => {
    const created = await there([
      "cron",
      "create",
      "every 2h",
      "Look around.",
      "--name",
      "Tea",
      "--url",
      url,
    ]);
    assert.equal(created.code, 0, created.stderr);
    assert.equal((await here("cron", "create", "in 3h", "Once.", "--name", "Once", "--paused")).code, 0);
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const body = JSON.stringify({ input: "Hello." });
    const started = await fetch(`${url}/v1/runs`, { method: "POST", headers, body });
    const { run_id: run } = (await started.json()) as { readonly run_id: string };
    const ended = await (await fetch(`${url}/v1/runs/${run}?wait=60`, { headers })).json();
    const { session_id: session } = ended as { readonly session_id: string };
    assert.equal((await there(["keys", "create", "ci", "--scopes", "read", "--url", url])).code, 0);
    const words = ["webhook", "subscribe", "pushes", "--events", "push", "--prompt", "see {a}", "--json"];
    const subscribed = await there([...words, "--url", url]);
    assert.equal(subscribed.code, 0, subscribed.stderr);
    const route = JSON.parse(subscribed.stdout) as { readonly url: string; readonly secret: string };
    const delivery = await deliver(route);
    const id = /^Created job: (\w+)$/m.exec(created.stdout)?.[1] ?? assert.fail(created.stdout);
    const commands = readsOf({ job: id, run, session, delivery, ...(await settled({ call, store })) });
    const [locals, remotes] = await Promise.all([
      outcomesOf(
        commands.map((words) => atHome(words, url)),
        { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database },
      ),
      outcomesOf(
        commands.map((words) => [...words, "--url", url]),
        { AGENTD_HOME: client.home, API_SERVER_KEY: key },
      ),
    ]);
    for (const [index, words] of commands.entries()) {
      const [local, remote] = [locals[index], remotes[index]];
      assert.ok(local && remote);
      assert.deepEqual(comparable(remote), comparable(local), words.join(" "));
      assert.notEqual(local.stdout + local.stderr, "", words.join(" "));
    }
  });

  it("each CLI command that changes something prints the same JSON with and without --url", async () => {
    let count = 0;
    for (const { words, make } of changes) {
      const outcomeOf = async (run: (words: readonly string[]) => Promise<Outcome>) => {
        const name = `thing-${++count}`;
        const thing = (await make?.({ call, store }, name)) ?? name;
        const outcome = await run([...words.map((word) => (word === "THING" ? thing : word)), "--json"]);
        assert.equal(outcome.code, 0, `${words.join(" ")}: ${outcome.stderr}`);
        return withoutOwn(outcome, [thing, name]);
      };
      const local = await outcomeOf((given) => here(...atHome(given, url)));
      const remote = await outcomeOf((given) => there([...given, "--url", url]));
      assert.deepEqual(remote, local, words.join(" "));
    }
  });

  it("each CLI command that works on a server is compared with the home, or there is a reason not to", async () => {
    const known = { job: "", run: "", session: "", delivery: "", question: "", message: "" };
    const lines = [...readsOf(known), ...changes.map(({ words }) => words)].map((words) => words.join(" "));
    const called = (name: string) => lines.some((line) => `${line} `.startsWith(`${name} `));
    const commands = await commandsOnServers(rootCommand);
    assert.ok(commands.size > 50, `${commands.size} commands`);
    const missing = [...commands.values()].filter(
      (names) => !names.some((name) => called(name) || name in exceptions),
    );
    assert.deepEqual(missing, [], "commands without a line in server-commands.ts");
    const all = [...commands.values()].flat();
    const stale = Object.keys(exceptions).filter((name) => !all.includes(name) || called(name));
    assert.deepEqual(stale, [], "exceptions that are none");
  });

  /** Calls the server over HTTP. */
  async function call(...[method, path, body]: Parameters<Server["call"]>): ReturnType<Server["call"]> {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json", "if-match": "*" };
    const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
    const response = await fetch(url + path, init);
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${text}`);
    return JSON.parse(text) as Record<string, string>;
  }

  /** Sends an event to a route, and returns the id of its ended delivery. */
  async function deliver({
    url: address,
    secret,
  }: {
    readonly url: string;
    readonly secret: string;
  }): Promise<string> {
    const body = JSON.stringify({ a: 1 });
    const signature = sign(new TextEncoder().encode(body), secret);
    const headers = { "x-github-event": "push", "x-hub-signature-256": signature };
    const sent = await fetch(address, { method: "POST", headers, body });
    assert.equal(sent.status, 202, await sent.text());
    for (;;) {
      const listed = await there(["webhook", "deliveries", "list", "--json", "--url", url]);
      const [newest] = (JSON.parse(listed.stdout) as { readonly deliveries: readonly ShownDelivery[] })
        .deliveries;
      if (newest?.ended_at) return newest.id;
    }
  }

  it("a question is answered, and an approval revoked, on a server as on its machine", async () => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const ask = async (input: string): Promise<string> => {
      const started = await fetch(`${url}/v1/runs`, {
        method: "POST",
        headers,
        body: JSON.stringify({ input }),
      });
      const { run_id: run } = (await started.json()) as { readonly run_id: string };
      for (;;) {
        const listed = await there(["questions", "list", "--run", run, "-q", "--url", url]);
        if (listed.stdout !== "") return listed.stdout.trim();
      }
    };
    const denied = await ask("run: rm -r old");
    const shown = await there(["questions", "show", denied, "--url", url]);
    assert.match(shown.stdout, /^kind +approval$[^]*rm -r old[^]*questions answer \S+ once\|session/m);
    assert.equal((await there(["questions", "answer", denied, "maybe", "--url", url])).code, 2);
    const told = await there(["questions", "answer", denied, "deny", "--reason", "keep it", "--url", url]);
    assert.match(told.stdout, /^Answered ask_\S+ of run_\S+\.$/m, told.stderr);
    const late = await here("questions", "answer", denied, "once");
    assert.deepEqual([late.code, late.stdout], [1, ""]);

    const always = await ask("run: curl http://127.0.0.1:1/");
    const local = await here("questions", "answer", always, "always", "--json");
    assert.equal((JSON.parse(local.stdout) as { readonly status: string }).status, "answered", local.stderr);
    // The gateway stores it when its run hears of the answer.
    let grants: readonly { readonly id: string }[] = [];
    while (grants.length === 0) {
      const listed = await there(["grants", "list", "--json", "--url", url]);
      ({ grants } = JSON.parse(listed.stdout) as { readonly grants: typeof grants });
    }
    assert.equal(grants.length, 1);
    const id = grants[0]?.id ?? "";
    assert.equal((await there(["grants", "revoke", id, "--url", url])).code, 2, "it asks first");
    const revoked = await there(["grants", "revoke", id, "--yes", "--url", url]);
    assert.match(revoked.stdout, /^Revoked /, revoked.stderr);
    assert.match((await here("grants", "list")).stderr, /Nothing is approved for all sessions/);
  });

  it("the status, the log, the checks and the configuration of a server are read and changed from elsewhere", async () => {
    const commands = [
      ["status", "--json"],
      ["logs", "--json", "-n", "1000"],
      ["doctor", "--json"],
      ["config", "set", "cron.history_days", "31"],
      ["config", "get", "api_server", "--reveal"],
      ["config", "set", "api_server.key", "hunter2hunter2hunter2"],
      ["config", "set", "api_server.keys[0].name", "x"],
      ["webhook", "test", "pushes"],
    ];
    const [status, logs, doctor, set, revealed, secret, item, sent] = await outcomesOf(
      commands.map((words) => [...words, "--url", url]),
      { AGENTD_HOME: client.home, API_SERVER_KEY: key },
    );
    const { home, gateway } = JSON.parse(status?.stdout ?? "") as {
      readonly home: null;
      readonly gateway: { readonly running: boolean; readonly url: string };
    };
    assert.deepEqual([home, gateway.running, gateway.url], [null, true, url]);
    const started = logs?.stdout.split("\n").find((line) => line.includes('"message":"listening"'));
    assert.ok(started !== undefined && (await here("logs", "--json")).stdout.includes(started), logs?.stdout);
    assert.match(doctor?.stdout ?? "", /"object": "agent\.doctor"[^]*"name": "database"/);
    assert.equal(set?.stdout, `set cron.history_days on the server at ${url}\n`, set?.stderr);
    assert.equal((await here("config", "get", "cron.history_days")).stdout, "31\n");
    assert.deepEqual([revealed?.code, secret?.code, item?.code], [2, 1, 1]);
    assert.match(secret?.stderr ?? "", /api_server\.key[^]*env:NAME/);
    assert.equal(sent?.code, 2);
    assert.match(sent?.stderr ?? "", /never shows\. Pass --dry-run/);
  });

  it("the models of a server are listed, selected and tested as those of a home", async () => {
    const remote = (...words: readonly string[]) => there([...words, "--url", url]);
    const [listed, list] = [await remote("model", "list", "--json"), await here("model", "list", "--json")];
    assert.deepEqual(JSON.parse(listed.stdout), JSON.parse(list.stdout));
    const [shown, show] = [await remote("model", "show"), await here("model", "show")];
    assert.deepEqual([shown.code, shown.stdout], [show.code, show.stdout]);
    const set = await remote("model", "set", "demo");
    assert.equal(
      set.stdout,
      `Set the default model to demo:demo in the server at ${url}. Test it with \`agentd model test\`.\n`,
    );
    assert.equal((await here("config", "get", "model.default")).stdout, "demo:demo\n");
    const unknown = await remote("model", "set", "nowhere:big");
    assert.deepEqual([unknown.code, unknown.stdout], [1, ""]);
    assert.match(unknown.stderr, /Unknown model "nowhere:big"/);
    const [tried, local] = [await remote("model", "test", "--json"), await here("model", "test", "--json")];
    const namesOf = ({ stdout }: Outcome) => Object.keys(JSON.parse(stdout) as object);
    assert.deepEqual([tried.code, namesOf(tried)], [local.code, namesOf(local)], tried.stderr);
    assert.equal((JSON.parse(tried.stdout) as { readonly model: string }).model, "demo:demo");
  });

  it("a backup of a server comes whole into a new private file, without its keys", async () => {
    const file = join(client.home, "copy.tar.gz");
    const made = await there(["backup", file, "--json", "--url", url]);
    const facts = JSON.parse(made.stdout || "{}") as {
      readonly file: string;
      readonly omitted: readonly string[];
    };
    assert.equal(facts.file, file, made.stderr);
    assert.ok(facts.omitted.includes(".env"));
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const checked = await there(["restore", file, "--dry-run", "--json"]);
    const { file: _, ...kept } = facts;
    const { version, created_at, ...same } = JSON.parse(checked.stdout) as Record<string, unknown>;
    assert.deepEqual(same, kept, `${String(version)} ${String(created_at)}`);
    const again = await there(["backup", file, "--url", url]);
    assert.deepEqual([again.code, again.stdout], [1, ""]);
    assert.match(again.stderr, /copy\.tar\.gz\. It exists already/);
    const other = join(client.home, "other.tar.gz");
    const reader = await there(["backup", other, "--url", url], { API_SERVER_KEY: READER });
    assert.match(reader.stderr, /has no scope "admin"/);
    await assert.rejects(stat(other), "what could not be made leaves no file");
    assert.equal((await there(["backup", other, "--workspace", "--url", url])).code, 2);
  });

  it("the jobs of a file are imported into a server as into a home", async () => {
    const file = join(client.home, "jobs.json");
    const jobs = [
      { id: "0123456789ab", name: "Imported", schedule: "every 3h", prompt: "Look." },
      { id: "0123456789ac", name: "Broken", schedule: "now and then", prompt: "Look." },
    ];
    await writeFile(file, JSON.stringify({ jobs }));
    const dry = ["cron", "import", file, "--dry-run", "--json"];
    const [remote, local] = [await there([...dry, "--url", url]), await here(...dry)];
    assert.deepEqual(remote, local);
    assert.equal(remote.code, 1, "a job is rejected");
    const done = await there(["cron", "import", file, "--url", url]);
    assert.match(
      done.stdout,
      /^Imported job: Imported \(0123456789ab\)$[^]*^Imported 1 of 2 jobs\.$/m,
      done.stderr,
    );
    const again = await there(["cron", "import", file, "--url", url]);
    assert.match(again.stdout, /^Unchanged: Imported \(0123456789ab\) already exists$/m);
  });

  it("a context keeps a server and its key for later commands, in a file of mode 0600", async () => {
    const add = ["context", "add", "prod", "--url", `${url}/v1/`, "--token-stdin"];
    const added = await agentd(add, { AGENTD_HOME: client.home }, `${key}\n`);
    assert.deepEqual(added, { code: 0, stdout: "Saved the context prod.\n", stderr: "" });
    const file = join(client.home, "contexts.json");
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.match(await readFile(file, "utf8"), new RegExp(key));

    const mine = (...words: readonly string[]) => keptAgentd(words, { AGENTD_HOME: client.home });
    const inNewProcess = (...words: readonly string[]) => agentd(words, { AGENTD_HOME: client.home });
    const local = JSON.parse((await mine("cron", "list", "--json")).stdout) as { readonly count: number };
    assert.equal(local.count, 0, "a saved context is not used unasked");
    const named = await mine("cron", "list", "--json", "--context", "prod");
    assert.deepEqual(named, await here("cron", "list", "--json"));
    assert.equal((await mine("context", "use", "prod")).stdout, "Commands work on the server of prod.\n");
    assert.deepEqual(await mine("cron", "list", "--json"), named);
    assert.deepEqual(JSON.parse((await mine("cron", "list", "--json", "--context", "local")).stdout), {
      jobs: [],
      count: 0,
    });
    const listed = await inNewProcess("context", "list", "--json");
    const entry = { name: "prod", url, has_key: true, is_current: true };
    assert.deepEqual(JSON.parse(listed.stdout), { contexts: [entry], current: "prod" });
    assert.ok(!listed.stdout.includes(key) && !(await inNewProcess("context", "list")).stdout.includes(key));

    const elsewhere = await mine("restore", "x.tar");
    assert.equal(elsewhere.code, 2);
    assert.match(
      elsewhere.stderr,
      /^`agentd restore` works on this machine only, not on the context prod\. It replaces the home.*\/v1\/backup\/import/,
    );
    assert.equal((await mine("context", "remove", "prod")).code, 0);
    assert.deepEqual(JSON.parse((await mine("cron", "list", "--json")).stdout), { jobs: [], count: 0 });
  });

  it("a server that cannot be reached, a wrong key and a missing scope are each one clear sentence", async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const refused: readonly (readonly [Outcome, RegExp])[] = [
      [await there(["cron", "list", "--url", nobody]), /^Cannot reach the server at http:.*ECONNREFUSED/],
      [
        await there(["cron", "list"], { AGENTD_URL: url, API_SERVER_KEY: "wrong-key-0123456789abcdef" }),
        /^The server at \S+ refuses the API key\. Pass one with --token-stdin, or set API_SERVER_KEY\.$/m,
      ],
      [
        await keptAgentd(["cron", "list", "--url", url], { AGENTD_HOME: client.home }),
        /^The server at \S+ requires an API key\./,
      ],
      [
        await there(["cron", "pause", "tea", "--url", url], { API_SERVER_KEY: READER }),
        /^Failed to pause job: The key "reader" has no scope "jobs"/,
      ],
      [await there(["cron", "list", "--context", "nowhere"]), /^The context "nowhere" does not exist/],
    ];
    for (const [{ code, stdout, stderr }, message] of refused) {
      assert.deepEqual([code, stdout], [1, ""], stderr);
      assert.match(stderr, message);
    }
    const reading = await there(["cron", "show", "tea", "--url", url], { API_SERVER_KEY: READER });
    assert.deepEqual(reading, await here("cron", "show", "tea"));
  });

  it("a mistake in the options of a server is a usage error, and no key is taken from the command line", async () => {
    for (const [words, message] of [
      [["cron", "list", "--url", "ftp://x"], /--url must be an address such as https/],
      [["cron", "list", "--url", "http://a:b@x"], /--url must not have a password/],
      [["cron", "list", "--url", url, "--context", "prod"], /--url and --context cannot be combined/],
      [["cron", "list", "--token-stdin"], /--token-stdin needs --url or --context/],
      [["cron", "list", "--token", "x"], /Unknown option --token/],
      [["setup", "--url", url], /`agentd setup` works on this machine only/],
      [["context", "add", "local", "--url", url], /<name> cannot be "local"/],
      [["context", "add", "x"], /--url is required/],
    ] as const) {
      const { code, stderr } = await there(words);
      assert.equal(code, 2, words.join(" "));
      assert.match(stderr, message);
    }
  });
});
