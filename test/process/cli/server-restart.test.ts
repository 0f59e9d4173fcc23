/** Commands that work on a server, and settings that wait for its next start. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { describe, it } from "node:test";
import { createAgentClient } from "../../../src/client/http.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { freePort } from "./free-port.ts";

/** `agentd logs --follow` on a server, and waits for what it prints. */
function follow(home: string, words: readonly string[], key: string) {
  const [program, ...first] = agentdCommand("logs", "--follow", ...words);
  const env = programEnvironment({ AGENTD_HOME: home, API_SERVER_KEY: key });
  const child = spawn(program, first, { env, stdio: ["ignore", "pipe", "pipe"] });
  const closed = once(child, "close");
  const said = { out: "", error: "" };
  let look = () => {};
  const take = (name: keyof typeof said) => (text: string) => {
    said[name] += text;
    look();
  };
  child.stdout.setEncoding("utf8").on("data", take("out"));
  child.stderr.setEncoding("utf8").on("data", take("error"));
  return {
    said,
    async shows(wanted: RegExp, name: keyof typeof said = "out"): Promise<void> {
      const shown = Promise.withResolvers<void>();
      look = () => void (wanted.test(said[name]) && shown.resolve());
      look();
      await Promise.race([shown.promise, closed.then(() => assert.match(said[name], wanted, said.error))]);
    },
    async [Symbol.asyncDispose]() {
      process.kill(child.pid ?? 0, "SIGTERM");
      await closed;
    },
  };
}

describe("a server that restarts", () => {
  it("agentd logs -f continues with the lines of the new process, once each", async () => {
    await using place = await createGatewayPlace();
    await using client = await createHome();
    const port = Number(await freePort());
    const first = await place.start(port);
    await using lines = follow(client.home, ["--url", first.url, "--json"], await place.key());
    await lines.shows(/"message":"listening"/);
    assert.equal(await first.kill("SIGKILL"), null);
    await place.start(port);
    await lines.shows(/"message":"listening"[^]*"message":"listening"/);
    assert.equal(lines.said.error.match(/The server has restarted/g)?.length, 1, lines.said.error);
    const shown = lines.said.out.trimEnd().split("\n");
    assert.equal(new Set(shown).size, shown.length, "no line comes twice");
  });

  it("a change that needs a restart is pending until then, and in use after it", async () => {
    await using place = await createGatewayPlace();
    const first = await place.start();
    const read = async (url: string) => {
      const api = createAgentClient({ baseUrl: url, apiKey: await place.key() });
      return { api, state: (await api.getConfig()).data };
    };
    const { api, state } = await read(first.url);
    assert.deepEqual(state?.pending_restart, []);
    const patch = { body: { agent: { max_steps: 12 } }, headers: { "If-Match": "*" } };
    const { data: change } = await api.updateConfig(patch);
    assert.deepEqual(change?.restart_required, ["agent.max_steps"]);
    assert.deepEqual((await read(first.url)).state?.pending_restart, ["agent.max_steps"]);
    await first.kill("SIGTERM");
    const { state: later } = await read((await place.start()).url);
    assert.deepEqual(later?.pending_restart, []);
    const agent = later?.effective["agent"] as { readonly max_steps: number } | undefined;
    assert.equal(agent?.max_steps, 12);
  });
});
