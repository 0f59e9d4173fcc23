/** A gateway that is killed leaves no command of its agent behind. */
import { strict as assert } from "node:assert";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { it } from "node:test";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { saying, startModelServer, type ModelReply } from "../../harness/openai-server.ts";

const { sandbox } = await findSandbox();

it(
  "a killed gateway leaves no command behind, in the foreground or in the background",
  { skip: sandbox ? false : "bubblewrap does not work here" },
  async () => {
    // Arguments by which the processes are found, also those that left their group.
    const [behind, before] = [`70000.${process.pid}1`, `70000.${process.pid}2`];
    const replies = [
      calling({ command: `setsid sleep ${behind} & sleep ${behind}`, background: true }),
      calling({ command: `setsid sleep ${before} & sleep ${before}`, timeout_seconds: 600 }),
      saying("over"),
    ];
    let next = 0;
    // A request without tools asks for a title.
    await using models = await startModelServer(({ body }) =>
      body.tools === undefined ? saying("title") : (replies[next++] ?? saying("over")),
    );
    await using place = await createGatewayPlace({ AGENTD_SANDBOX: "required" });
    await writeFile(join(place.home, "config.yaml"), configWith(models.baseUrl));
    const gateway = await place.start();
    const headers = { authorization: `Bearer ${await place.key()}`, "content-type": "application/json" };
    const run = await fetch(`${gateway.url}/v1/runs`, { method: "POST", headers, body: '{"input":"go"}' });
    assert.equal(run.status, 202, await run.text());
    await until(() => pidsWith(behind).length === 2 && pidsWith(before).length === 2);
    await gateway.kill("SIGKILL");
    await until(() => pidsWith(behind).length === 0 && pidsWith(before).length === 0);
  },
);

function calling(input: object): ModelReply {
  const call = { index: 0, id: "call_1", name: "terminal", arguments: JSON.stringify(input) };
  return { pieces: [{ call }, { finish: "tool_calls" }] };
}

const configWith = (baseUrl: string): string =>
  JSON.stringify({
    model: {
      default: "local:m",
      providers: { local: { type: "openai_compatible", base_url: baseUrl, models: ["m"], api_key: "k" } },
    },
  });

/** Living processes of `sleep` with this argument, seen from outside of any sandbox. */
function pidsWith(seconds: string): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      if (!/^\d+$/.test(name) || /\) [ZX] /.test(readFileSync(`/proc/${name}/stat`, "utf8"))) return false;
      return readFileSync(`/proc/${name}/cmdline`, "utf8") === `sleep\0${seconds}\0`;
    } catch {
      // It ended in the meantime.
      return false;
    }
  });
}

async function until(isSo: () => boolean): Promise<void> {
  const patience = AbortSignal.timeout(60_000);
  while (!isSo()) {
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
