/** The gateway's dependencies and a connection to it, for handlers that are called directly. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { Commands } from "../../../src/agent/agent.ts";
import { conversationCommands } from "../../../src/agent/commands/conversation.ts";
import { modelCommands } from "../../../src/agent/commands/model.ts";
import { quickCommands } from "../../../src/agent/commands/service.ts";
import { skillCommands, Skills } from "../../../src/agent/skills/skills.ts";
import { sessionCommands } from "../../../src/agent/commands/session.ts";
import { McpServers } from "../../../src/agent/mcp/servers.ts";
import { SpawnTrees } from "../../../src/agent/subagent/spawn-tree.ts";
import { Processes } from "../../../src/agent/tools/process/processes.ts";
import { silentLog as log } from "../../../src/base/observe.ts";
import { readConfig } from "../../../src/config/config.ts";
import type { GatewayMethod, GatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import { checkCall, runHandler } from "../../../src/rpc/connection/calls.ts";
import type { RpcHandlers, RpcContext, RpcDeps, RpcPeer } from "../../../src/rpc/deps.ts";
import { RPC_LIMITS } from "../../../src/rpc/connection/ready.ts";
import { cliMethods } from "../../../src/rpc/methods/cli.ts";
import { commandMethods } from "../../../src/rpc/methods/commands.ts";
import { configMethods, modelMethods, reloadMethods } from "../../../src/rpc/methods/settings.ts";
import { delegationMethods } from "../../../src/rpc/methods/delegation.ts";
import { processMethods } from "../../../src/rpc/methods/processes.ts";
import { replyMethods } from "../../../src/rpc/methods/replies.ts";
import { terminalMethods } from "../../../src/rpc/methods/terminal.ts";
import { createTestAgent, type TestAgent, type TestAgentOptions } from "../../harness/agent.ts";

const handlers = {
  ...cliMethods,
  ...commandMethods,
  ...configMethods,
  ...delegationMethods,
  ...modelMethods,
  ...processMethods,
  ...reloadMethods,
  ...replyMethods,
  ...terminalMethods,
} as unknown as RpcHandlers<RpcContext>;

export interface TestDeps extends AsyncDisposable {
  readonly agent: TestAgent;
  readonly deps: RpcDeps;
  readonly home: string;
  readonly workspace: string;
  readonly context: RpcContext;
  /** As a client's call goes: checked against the spec, then handled. */
  call<K extends GatewayMethod>(
    method: K,
    params?: Readonly<Record<string, unknown>>,
    as?: RpcContext,
  ): Promise<GatewayRequests[K]["result"]>;
  /** A connection of another key, or of another place. */
  as(peer: Partial<RpcPeer>): RpcContext;
  open(id?: string): string;
}

export async function createTestDeps(
  options: TestAgentOptions & { readonly cliExec?: RpcDeps["settings"]["cliExec"] } = {},
): Promise<TestDeps> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-rpc-"));
  const [home, workspace] = [join(folder, "home"), join(folder, "work")];
  await Promise.all([mkdir(home), mkdir(workspace)]);
  const { cliExec = "local", ...rest } = options;
  const agent = await createTestAgent({ ...rest, settings: { workspace, ...rest.settings } });
  const processes = new Processes({ maxRunning: 8 });
  const deps: RpcDeps = {
    store: agent.store,
    agent: agent.core,
    commands: new Commands(
      () => conversationCommands,
      () => sessionCommands,
      () => modelCommands,
      () => quickCommands({ hi: { type: "prompt", value: "Say hi" } }, async () => ""),
      () => skillCommands([{ name: "tidy", description: "Tidies up" }]),
    ),
    processes,
    skills: new Skills({ homeFolder: join(home, "skills"), folders: [], disabled: [] }),
    mcp: new McpServers(log),
    spawnTrees: new SpawnTrees(join(home, "spawn-trees")),
    clock: agent.deps.clock,
    log,
    version: "0.0.0",
    settings: { limits: RPC_LIMITS, cliExec, shellExec: "off" },
    config: { atStart: readConfig("").config, home, env: { PATH: process.env["PATH"] }, userHome: folder },
    reload: { env: async () => 3, mcp: async () => ["files: connected, 2 tools"] },
    api: {
      call: () => Promise.reject(new Error("no operation is called here")),
      follow: () => Promise.reject(new Error("nothing is followed here")),
    },
    peers: [],
    subscribe: () => {
      throw new Error("nothing is followed here");
    },
  };
  const as = (peer: Partial<RpcPeer>): RpcContext => ({
    deps,
    peer: {
      id: "conn_1",
      identity: { owner: "tester", scopes: ["admin"] },
      transport: "stdio",
      isLocal: true,
      sessions: new Set(),
      profile: { serverRequests: false, optOut: new Set(), deltas: "all" },
      event: () => {},
      signal: new AbortController().signal,
      ...peer,
    } as RpcPeer,
  });
  const context = as({});
  return {
    agent,
    deps,
    home,
    workspace,
    context,
    as,
    call: async (method, params = {}, ctx = context) => {
      const checked = checkCall(method, params, { identity: ctx.peer.identity, log, sizeBytes: 100 });
      const more = { ctx, signal: new AbortController().signal, hold: () => {} };
      return (await runHandler(handlers, checked, more)) as never;
    },
    open: (id = "20260101_000000_abcdef") =>
      agent.core.live.open({ id, owner: "tester", seed: { source: "tui" } }).id,
    [Symbol.asyncDispose]: async () => {
      await processes.close();
      await agent[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** For assert.rejects: an error of this number. */
export const withCode = (code: number) => (error: unknown) =>
  (error as { readonly row?: { readonly rpc: number } }).row?.rpc === code;
