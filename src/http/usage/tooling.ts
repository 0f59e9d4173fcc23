import type {
  AgentTool,
  McpServer,
  McpServerList,
  Skill,
  Toolset,
} from "../../../generated/http/client/types.gen.ts";
import type { Tool } from "../../agent/tool/tool.ts";
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import { eventCursor } from "../control/feed.ts";
import { pageOf } from "../control/page.ts";
import { actOnce, replayedHeader } from "../control/write.ts";
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpRequest, HttpResponse } from "../edge/contract.ts";

/** GET /v1/skills, by name: those of the workspace, and those that cannot be loaded. */
export async function listSkills(
  { query }: HttpRequest<"listSkills", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listSkills">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const found = await deps.tooling.skills.describe(deps.tooling.workspace);
  const { rows, ...page } = pageOf(found, query, ({ name, problem }) => `${name}${problem ? "!" : ""}`);
  return { status: 200, headers, body: { ...page, data: rows.map((skill) => toSkill(skill, null, deps)) } };
}

/** GET /v1/skills/{skill} */
export async function getSkill(
  { path, query }: HttpRequest<"getSkill", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"getSkill">> {
  const { skills, workspace } = deps.tooling;
  const all = await skills.describe(workspace);
  const found = all.find(({ name, problem }) => name === path.skill && problem === undefined);
  if (!found) {
    const what = `Skill ${JSON.stringify(path.skill)} does not exist. GET /v1/skills lists all.`;
    throw new ServiceError("skill_not_found", what);
  }
  const isWhole = query.include?.includes("instructions") === true;
  const loaded = isWhole ? await skills.load(found.name, workspace) : undefined;
  return { status: 200, body: toSkill(found, loaded ? redact(loaded.instructions) : null, deps) };
}

type FoundSkill = Awaited<ReturnType<HttpDeps["tooling"]["skills"]["describe"]>>[number];

function toSkill(skill: FoundSkill, instructions: string | null, { tooling }: HttpDeps): Skill {
  return {
    object: "agent.skill",
    id: skill.name,
    name: skill.name,
    description: redact(skill.description),
    category: skill.category ?? null,
    source: skill.source,
    required_variables: skill.requiredVariables.map(({ name }) => ({
      name,
      is_set: tooling.hasVariable(name),
    })),
    problem: skill.problem === undefined ? null : redact(skill.problem),
    instructions,
  };
}

/** For people, by the names in `agent.toolsets`. */
const TOOLSETS: Readonly<Record<string, readonly [label: string, description: string]>> = {
  terminal: ["Terminal", "Run commands, and keep processes in the background."],
  files: ["Files", "Read, write, edit and search files."],
  web: ["Web", "Read pages, and search the web."],
  vision: ["Vision", "Look at images."],
  planning: ["Planning", "Keep a list of tasks, and present plans."],
  clarify: ["Questions", "Ask the user."],
  delegation: ["Delegation", "Give tasks to sub-agents."],
  skills: ["Skills", "Load instructions for a task."],
  cron: ["Scheduled jobs", "Create and change scheduled jobs."],
  mcp: ["MCP", "Use the tools of MCP servers."],
};

/** GET /v1/toolsets */
export async function listToolsets(
  { query }: HttpRequest<"listToolsets", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listToolsets">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const tools = deps.tooling.tools();
  const names = [...new Set([...Object.keys(TOOLSETS), ...tools.map(({ toolset }) => toolset)])];
  const { rows, ...page } = pageOf(names, query, (name) => name);
  const data = rows.map((name) => toToolset(name, tools, deps));
  return { status: 200, headers, body: { ...page, data } };
}

function toToolset(name: string, tools: readonly Tool[], { tooling }: HttpDeps): Toolset {
  const [label, description] = TOOLSETS[name] ?? [name, "Tools that the embedding program added."];
  const own = tools.filter(({ toolset }) => toolset === name).map((tool) => tool.name);
  const enabled = tooling.enabledToolsets.includes(name) || own.length > 0;
  const about = { name, label, description, enabled, configured: enabled && own.length > 0 };
  return { object: "agent.toolset", id: name, ...about, tools: own };
}

/** GET /v1/tools, by name. */
export async function listTools(
  { query }: HttpRequest<"listTools", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listTools">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const { toolset, server } = query;
  const found = deps.tooling
    .tools()
    .filter((tool) => toolset?.includes(tool.toolset) ?? true)
    .filter((tool) => server === undefined || (tool.server !== undefined && server.includes(tool.server)));
  const sorted = found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const { rows, ...page } = pageOf(sorted, query, ({ name }) => name);
  return { status: 200, headers, body: { ...page, data: rows.map(toTool) } };
}

function toTool({ name, description, toolset, kind = "other", server, parameters }: Tool): AgentTool {
  const source = server === undefined ? "builtin" : "mcp";
  const about = { name, description, toolset, kind, source, server: server ?? null } as const;
  return { object: "agent.tool", id: name, ...about, input_schema: parameters };
}

/** GET /v1/mcp/servers, by name. */
export async function listMcpServers(
  { query }: HttpRequest<"listMcpServers", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"listMcpServers">> {
  const headers = { "x-agent-event-cursor": await eventCursor(deps) };
  const { rows, ...page } = pageOf(serversOf(deps), query, ({ name }) => name);
  return { status: 200, headers, body: { ...page, data: [...rows] } };
}

function serversOf({ tooling }: HttpDeps): readonly McpServer[] {
  return tooling.mcp
    .status()
    .map(({ name, status, tools, error }): McpServer => {
      const problem = error === undefined ? null : redact(error);
      return { object: "agent.mcp_server", id: name, name, status, tools, error: problem };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** POST /v1/mcp/reload */
export async function reloadMcp(
  { headers, body, ctx }: HttpRequest<"reloadMcp", HttpContext>,
  deps: HttpDeps,
): Promise<HttpResponse<"reloadMcp">> {
  const key = headers["idempotency-key"];
  const once = { ctx, key, operation: "reloadMcp", content: body };
  const { result, isReplayed } = await actOnce<McpServerList>(once, deps, async (record) => {
    await deps.tooling.mcp.reload(ctx.identity.name);
    const data = [...serversOf(deps)];
    const [first = null, last = first] = [data.at(0)?.id, data.at(-1)?.id];
    const made: McpServerList = { object: "list", data, first_id: first, last_id: last, has_more: false };
    if (key !== undefined) await deps.store.write((tx) => record(tx, made));
    return made;
  });
  return { status: 200, headers: replayedHeader(isReplayed), body: result };
}
