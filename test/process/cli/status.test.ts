import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { once } from "node:events";
import { open, readdir } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { freePort } from "./free-port.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { createHome } from "../../unit/config/home-folder.ts";

interface Status {
  readonly gateway: {
    readonly running: boolean;
    readonly pid?: number;
    readonly url: string;
    readonly state?: string;
  };
  readonly model: string;
  readonly sandbox: { readonly active: boolean };
  readonly database: { readonly exists: boolean };
  readonly runs?: Readonly<Record<string, number>>;
  readonly questions?: number;
  readonly jobs?: { readonly scheduled: number; readonly next_due_at: string | null };
  readonly outbox?: Readonly<Record<string, number>>;
  readonly problems: readonly string[];
}

describe("agentd status", () => {
  it("reports the running gateway, then the same home without it", async () => {
    await using place = await createGatewayPlace();
    const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
    const gateway = await place.start();
    const port = new URL(gateway.url).port;
    const created = await keptAgentd(["cron", "create", "every 1d", "Say hello.", "--name", "tea"], env);
    assert.equal(created.code, 0, created.stderr);
    const up = await keptAgentd(["status", "--port", port, "--json"], env);
    assert.equal(up.code, 0, up.stderr);
    const running = JSON.parse(up.stdout) as Status;
    assert.deepEqual(
      [running.gateway.running, running.gateway.url, running.gateway.state],
      [true, gateway.url, "ready"],
    );
    assert.ok((running.gateway.pid ?? 0) > 1);
    assert.deepEqual([running.model, running.database.exists, running.questions], ["demo:demo", true, 0]);
    assert.deepEqual([running.jobs?.scheduled, running.outbox?.["due"]], [1, 0]);
    const text = await keptAgentd(["status", "--port", port], env);
    assert.match(text.stdout, /^Gateway +http:\/\/\S+, agentd \d\S*, pid \d+, up \d+ s$/m);
    assert.match(text.stdout, /^Log +\S+\/logs\/gateway\.log; show it with `agentd logs`$/m);
    assert.match(text.stdout, /^Jobs +1 scheduled, next in \d+ (h|min)$/m);
    assert.equal(await gateway.kill("SIGTERM"), 0);

    const down = await keptAgentd(["status", "--port", port, "--json"], env);
    assert.equal(down.code, 1);
    const stopped = JSON.parse(down.stdout) as Status;
    assert.deepEqual([stopped.gateway, stopped.problems], [{ running: false, url: gateway.url }, []]);
    assert.deepEqual(
      [stopped.model, stopped.questions, stopped.jobs?.scheduled, stopped.runs?.["running"]],
      ["demo:demo", 0, 1, 0],
    );
    assert.match(
      (await keptAgentd(["status", "--port", port], env)).stdout,
      /not running .*`agentd gateway`/,
    );
  });

  it(
    "says where standard error of the gateway goes if it writes no file",
    { skip: process.platform !== "linux" },
    async () => {
      await using made = await createHome({ "config.yaml": "log: { max_file_bytes: 0 }\n" });
      const file = join(made.home, "stderr");
      const env = { AGENTD_HOME: made.home };
      const port = await freePort();
      await using log = await open(file, "w");
      const [program, ...words] = agentdCommand("gateway", "--port", port);
      const stdio = ["ignore", "pipe", log.fd] as const;
      const child = spawn(program, words, { env: programEnvironment(env), stdio: [...stdio] });
      const closed = once(child, "close");
      await once(child.stdout!, "data");
      const { stdout } = await keptAgentd(["status", "--port", port], env);
      assert.match(stdout, new RegExp(`^Log +${file}$`, "m"));
      process.kill(child.pid ?? 0, "SIGTERM");
      await closed;
    },
  );

  it("works in a home that does not exist yet, and creates nothing", async () => {
    await using made = await createHome();
    const home = `${made.home}/new`;
    const words = ["status", "--port", await freePort(), "--json"];
    const { code, stdout } = await keptAgentd(words, { AGENTD_HOME: home });
    const status = JSON.parse(stdout) as Status;
    assert.deepEqual([code, status.database.exists, status.runs, status.problems], [1, false, undefined, []]);
    assert.deepEqual(await readdir(made.home), []);
    assert.equal((await keptAgentd(words, { AGENTD_HOME: home })).stdout, stdout);
  });

  it("says when the gateway belongs to another home", async () => {
    await using place = await createGatewayPlace();
    const gateway = await place.start();
    await using other = await createHome({ ".env": "API_SERVER_KEY=another-key-of-another-home\n" });
    const words = ["status", "--port", new URL(gateway.url).port];
    const { code, stdout } = await keptAgentd(words, { AGENTD_HOME: other.home });
    assert.equal(code, 1);
    assert.match(stdout, /refuses the key of this home\. It may serve another home/);
    await gateway.kill("SIGTERM");
  });

  it("does not give the key to another program on the port", async () => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end("{}");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const port = String((server.address() as AddressInfo).port);
    await using made = await createHome({ ".env": "API_SERVER_KEY=hunter2hunter2hunter2\n" });
    const env = { AGENTD_HOME: made.home };
    const status = await keptAgentd(["status", "--port", port], env);
    assert.match(status.stdout, /Another program listens at/);
    server.close();
    await once(server, "close");
    assert.deepEqual(seen, [undefined]);
  });
});
