import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { createGatewayPlace, type GatewayPlace } from "../../harness/gateway.ts";

interface Run {
  readonly run_id: string;
  readonly status: string;
  readonly output: string | null;
  readonly approvals: readonly { readonly request_id: string }[];
}

describe("agentd runs", () => {
  let place: GatewayPlace;
  let url = "";
  let key = "";

  before(async () => {
    place = await createGatewayPlace();
    ({ url } = await place.start());
    key = await place.key();
  });
  after(() => place[Symbol.asyncDispose]());

  function runs(...words: readonly string[]): Promise<Outcome> {
    const [name = "", ...rest] = words;
    const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
    return keptAgentd(["runs", name, ...rest], env);
  }

  /** Starts a run and waits until it has ended or waits for an answer. */
  async function start(input: string): Promise<string> {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const body = JSON.stringify({ input });
    const response = await fetch(`${url}/v1/runs`, { method: "POST", headers, body });
    const { run_id: id } = (await response.json()) as Run;
    await (await fetch(`${url}/v1/runs/${id}?wait=60`, { headers })).json();
    return id;
  }

  it("lists runs with their age, filters them, and continues behind a page", async () => {
    const first = await start("run: echo first");
    const second = await start("run: echo second");
    const listed = await runs("list");
    assert.deepEqual([listed.code, listed.stderr], [0, ""]);
    assert.match(listed.stdout, /^ID +STATUS +CREATED +MODEL +PROMPT\n/);
    assert.match(
      listed.stdout,
      new RegExp(`^${second} +completed +\\d{4}-\\S+Z +demo:demo +run: echo second$`, "m"),
    );
    assert.equal((await runs("list", "-q", "--limit", "2")).stdout, `${second}\n${first}\n`);
    const page = await runs("list", "--limit", "1");
    assert.match(page.stderr, new RegExp(`^More runs follow: pass --after ${second}\n$`));
    const next = await runs("list", "--limit", "1", "--after", second, "--json");
    assert.equal((JSON.parse(next.stdout) as { runs: Run[] }).runs[0]?.run_id, first);
    const none = await runs("list", "--status", "failed");
    assert.deepEqual(none, { code: 0, stdout: "", stderr: "No runs match.\n" });
  });

  it("shows a run, and follows it from its start to its end", async () => {
    const id = await start("run: echo from-the-tool");
    const shown = await runs("show", id);
    assert.match(shown.stdout, new RegExp(`^id +${id}\nstatus +completed\n`));
    assert.match(shown.stdout, /^prompt +run: echo from-the-tool$/m);
    assert.equal((JSON.parse((await runs("show", id, "--json")).stdout) as Run).status, "completed");
    const followed = await runs("follow", id);
    assert.equal(followed.code, 0);
    assert.match(followed.stdout, /from-the-tool/);
    assert.match(followed.stderr, /^-> .*echo from-the-tool$/m);
    const lines = (await runs("follow", id, "--json")).stdout.trim().split("\n");
    const events = lines.map((line) => JSON.parse(line) as { readonly event: string; readonly seq: number });
    assert.equal(events.at(-1)?.event, "run.completed");
    const rest = await runs("follow", id, "--json", "--after", String(events.at(-2)?.seq));
    assert.equal(rest.stdout.trim().split("\n").length, 1);
  });

  it("shows what waits for approval, and approves it", async () => {
    const id = await start(DANGEROUS);
    const shown = await runs("show", id);
    assert.match(shown.stdout, /^status +waiting_for_approval$/m);
    assert.match(shown.stdout, /^Waits for approval \(\S+, expires in \d+ (s|min)\):\n {2}.*rm -rf/m);
    assert.match(shown.stdout, new RegExp(`agentd runs approve ${id}`));
    assert.match((await runs("list", "--status", "waiting_for_approval")).stdout, new RegExp(`^${id} `, "m"));
    assert.equal((await runs("approve", id)).stdout, `Approved 1 tool call of ${id}.\n`);
    assert.equal((await runs("follow", id)).code, 0);
    const again = await runs("approve", id);
    assert.deepEqual([again.code, again.stdout], [1, ""]);
    assert.doesNotMatch(again.stderr, /\n\s+at /);
  });

  it("denies with a reason, and refuses two ways to name the question", async () => {
    const id = await start(DANGEROUS);
    const both = await runs("deny", id, "--all", "--request", "ask_1");
    assert.equal(both.code, 2);
    assert.match(both.stderr, /^Give either --request or --all\./);
    const denied = await runs("deny", id, "--reason", "Not now.", "--json");
    assert.equal((JSON.parse(denied.stdout) as { readonly choice: string }).choice, "deny");
    assert.match((await runs("follow", id)).stderr, /^Answered: deny$/m);
  });

  it("stops a run, and follow then exits with 1", async () => {
    const id = await start(DANGEROUS);
    const stopped = await runs("stop", id, "--reason", "Enough.");
    assert.match(stopped.stdout, new RegExp(`^(Stopping ${id}|${id} is cancelled)\\.\n$`));
    const followed = await runs("follow", id);
    assert.equal(followed.code, 1);
    assert.match(followed.stderr, /The run was cancelled\.$/m);
    assert.equal((await runs("stop", id)).stdout, `${id} is cancelled.\n`);
  });

  it("says in one line what is wrong with an unknown run, and needs no gateway to say what a home has", async () => {
    for (const name of ["show", "follow", "approve", "deny", "stop"]) {
      const unknown = await runs(name, "run_nope");
      assert.deepEqual([unknown.code, unknown.stdout], [1, ""], name);
      assert.match(unknown.stderr, /^[^\n]*run_nope[^\n]*\n$/, name);
    }
    await using empty = await createHome();
    const none = await keptAgentd(["runs", "list", "--json"], { AGENTD_HOME: empty.home });
    assert.deepEqual([none.code, JSON.parse(none.stdout)], [0, { runs: [], next_after: null }]);
    assert.match(none.stderr, /^The database does not exist yet/);
    assert.equal((await runs("follow", "run_nope", "--after", "x")).code, 2);
  });
});

/** The demo model runs the command, which the policy does not allow without approval. */
const DANGEROUS = "run: rm -rf ./nothing-here";
