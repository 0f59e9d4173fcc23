/** `agentd skills`, `agentd tools` and `agentd mcp`: what the agent can use. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { AgentApiError, type Skill } from "../../client/http.ts";
import { withApi, withGatewayApi } from "../kit/api.ts";
import { defineApiCommand } from "../kit/command.ts";
import { gatewayPortOption } from "../kit/local-gateway.ts";
import { jsonOption, requiredArgument } from "../kit/options.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import { block } from "../webhook/text.ts";
import { oneLine } from "../sessions/text.ts";

const listSkills = defineApiCommand({
  meta: { name: "list", description: "List the skills, with their missing variables" },
  args: { json: jsonOption },
  async run({ args }) {
    const { rows } = await withApi(({ client }) => readPages((query) => client.listSkills({ query })));
    if (args.json) return printJson({ skills: rows });
    if (rows.length === 0) return warn("The agent has no skills.");
    const cells = rows.map((skill) => [
      oneLine(skill.name),
      skill.source,
      stateOf(skill),
      oneLine(skill.description),
    ]);
    printTable(["NAME", "SOURCE", "STATUS", "DESCRIPTION"], cells);
  },
});

function stateOf({ problem, required_variables: variables }: Skill): string {
  if (problem !== null) return oneLine(problem);
  const missing = variables.filter(({ is_set: isSet }) => !isSet).map(({ name }) => name);
  return missing.length === 0 ? "ready" : `needs ${missing.join(", ")}`;
}

const showSkill = defineApiCommand({
  meta: { name: "show", description: "Print the instructions of a skill" },
  args: { name: requiredArgument("Name of the skill"), json: jsonOption },
  async run({ args }) {
    const request = { path: { skill: args.name }, query: { include: ["instructions" as const] } };
    const { data: skill } = await withApi(({ client }) =>
      client.getSkill(request).catch((error: unknown) => {
        if (!(error instanceof AgentApiError) || error.status !== 404) throw error;
        const what = `Unknown skill ${JSON.stringify(args.name)}. \`agentd skills list\` lists them.`;
        throw new ServiceError("not_found", what);
      }),
    );
    if (args.json) return printJson(skill);
    print(`${oneLine(skill.name)} (${skill.source}, ${stateOf(skill)}): ${oneLine(skill.description)}`);
    if (skill.instructions !== null) print(`\n${block(skill.instructions)}`);
  },
});

export const skillsCommand = defineCommand({
  meta: { name: "skills", description: "List and show the skills of the agent" },
  subCommands: { list: listSkills, show: showSkill },
});

const listTools = defineApiCommand({
  meta: { name: "list", description: "List the toolsets of the agent with their tools" },
  args: { json: jsonOption },
  async run({ args }) {
    const { rows } = await withApi(({ client }) => readPages((query) => client.listToolsets({ query })));
    if (args.json) return printJson({ toolsets: rows });
    printTable(
      ["TOOLSET", "STATUS", "TOOLS"],
      rows.map(({ name, enabled, configured, tools }) => [
        name,
        configured ? "ready" : enabled ? "no tools" : "off",
        tools.join(", "),
      ]),
    );
  },
});

export const toolsCommand = defineCommand({
  meta: { name: "tools", description: "List the tools of the agent" },
  subCommands: { list: listTools },
});

const port = gatewayPortOption;

const listServers = defineApiCommand({
  meta: {
    name: "list",
    description: "List the MCP servers of the running gateway, with the number of their tools",
  },
  args: { port, json: jsonOption },
  async run({ args }) {
    const { rows } = await withGatewayApi(args.port, ({ client }) =>
      readPages((query) => client.listMcpServers({ query })),
    );
    if (args.json) return printJson({ servers: rows });
    if (rows.length === 0) return warn("No MCP server is configured.");
    const cells = rows.map(({ name, status, tools, error }) => [
      name,
      status,
      String(tools),
      oneLine(error ?? ""),
    ]);
    printTable(["NAME", "STATUS", "TOOLS", "ERROR"], cells);
  },
});

const reload = defineApiCommand({
  meta: { name: "reload", description: "Connect the MCP servers of the running gateway again" },
  args: { port, json: jsonOption },
  async run({ args }) {
    const { data: reloaded } = await withGatewayApi(args.port, ({ client }) =>
      client.reloadMcp({ body: {} }),
    );
    if (args.json) printJson(reloaded);
    else print("Reloaded the MCP servers. `agentd mcp list` lists them.");
  },
});

export const mcpCommand = defineCommand({
  meta: { name: "mcp", description: "List and reload the MCP servers of the running gateway" },
  subCommands: { list: listServers, reload },
});
