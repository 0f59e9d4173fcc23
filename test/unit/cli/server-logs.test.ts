/** `agentd logs -f` on a server whose log no longer has the position. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAgentClient, type LogEntry } from "../../../src/client/http.ts";
import { followLines } from "../../../src/cli/service/server-logs.ts";
import { KEY, startTestService } from "../../harness/service.ts";

test("a server that restarted and has no wanted line is read once, and then waited for", async () => {
  await using service = await startTestService();
  const server = { baseUrl: service.url, apiKey: KEY };
  const client = createAgentClient(server);
  const { log } = service.service.agent.deps;
  log.info("listening");
  let reads = 0;
  const counted = {
    ...client,
    listLogs: async (options: Parameters<typeof client.listLogs>[0]) => {
      const read = await client.listLogs(options);
      // Two reads are the end of a round: the position, and the lines behind the last one that was shown.
      if (++reads === 2) log.error("a failure");
      return read;
    },
  };
  const last = { id: "00000000-1", time: Date.now() / 1000, level: "error", message: "old" } as LogEntry;
  const shown = Promise.withResolvers<LogEntry>();
  const ended = new Error("enough");
  const following = followLines(
    { client: counted, server } as never,
    { level: "error", sinceMs: undefined },
    {
      last,
      show: (entry) => {
        shown.resolve(entry);
        throw ended;
      },
    },
  );
  await assert.rejects(following, ended);
  assert.equal((await shown.promise).message, "a failure");
  assert.equal(reads, 2);
});
