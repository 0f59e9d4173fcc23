/** The servers of the Model Context Protocol: which are connected, how many tools they bring, and why one failed. */
import type { JSX } from "preact";
import type { McpServer, McpServerList } from "../../../client/http.ts";
import { useCan } from "../../state/me.ts";
import { refreshTopic, useItem } from "../../state/resources.ts";
import { request } from "../../state/session.ts";
import { Badge, Button, Empty, Loading, Problem, type Tone } from "../../ui/controls.tsx";
import { attempt, say } from "../../ui/dialog.tsx";
import { plural } from "../../ui/format.ts";
import { Table, type Column } from "../../ui/table.tsx";

const STATUS: Readonly<Record<McpServer["status"], readonly [Tone, string]>> = {
  connecting: ["busy", "connecting"],
  connected: ["good", "connected"],
  failed: ["bad", "failed"],
};

const COLUMNS: readonly Column<McpServer>[] = [
  { name: "Server", cell: ({ name }) => name },
  { name: "Status", cell: ({ status }) => <Badge tone={STATUS[status][0]}>{STATUS[status][1]}</Badge> },
  { name: "Tools", align: "end", cell: ({ tools }) => tools },
  {
    name: "What went wrong",
    isWide: true,
    cell: ({ error }) => (error === null ? <span class="dim">nothing</span> : <span>{error}</span>),
  },
];

export function McpServers(): JSX.Element {
  const { item, problem, reload } = useItem<McpServerList>("/v1/mcp/servers?limit=100", ["mcp", "config"]);
  const canReload = useCan("admin");
  const rows = item?.data ?? [];
  return (
    <>
      {canReload && rows.length > 0 ? (
        <p class="settings-actions">
          <Button icon="refresh" onClick={() => attempt(reconnect)}>
            Connect again
          </Button>
          <span class="dim">Reads the servers of the configuration again and connects to each.</span>
        </p>
      ) : null}
      {problem ? <Problem message={problem} onRetry={reload} /> : null}
      {!item && !problem ? <Loading /> : null}
      {item && rows.length === 0 ? <NoServer /> : null}
      {rows.length > 0 ? <Table label="MCP servers" rows={rows} columns={COLUMNS} /> : null}
    </>
  );
}

function NoServer(): JSX.Element {
  return (
    <Empty icon="tool" title="No MCP server is configured">
      <p>Servers of the Model Context Protocol bring further tools. Add one to the configuration.</p>
      <a class="button button-plain" href="/settings/mcp">
        Settings of MCP
      </a>
    </Empty>
  );
}

async function reconnect(): Promise<void> {
  const { data } = await request<{ url: string; body?: object }, McpServerList>({
    url: "/v1/mcp/reload",
    body: {},
  });
  refreshTopic("mcp");
  const failed = data.filter(({ status }) => status === "failed").length;
  say(failed === 0 ? "Connected." : `${plural(failed, "server")} failed.`);
}
