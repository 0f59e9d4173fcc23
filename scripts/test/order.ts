/** The order in which the files of a suite run: a file that begins last and takes longest keeps one core busy alone. */

/**
 * The files that take longest, longest first, as `npm run test:console -- --slowest 10`, `npm run test:process -- --slowest 25`,
 * `npm test -- --slowest 10` and `npm run test:postgres -- --slowest 10` list them: by their CPU time, or their duration where
 * they wait. The order of the others matters little.
 */
export const slowestFiles: readonly string[] = [
  "test/console/visit-kills.test.ts",
  "test/console/visit.test.ts",
  "test/console/look-work.test.ts",
  "test/console/load.test.ts",
  "test/console/schedule.test.ts",
  "test/console/look-settings.test.ts",
  "test/console/look.test.ts",
  "test/console/offline.test.ts",
  "test/console/webhooks.test.ts",
  "test/console/settings.test.ts",
  "test/clients/sdk/go.test.ts",
  "test/clients/sdk/python-package.test.ts",
  "test/process/package/smoke.test.ts",
  "test/process/docs/pages.test.ts",
  "test/process/sandbox/attacks.test.ts",
  "test/process/package/binary.test.ts",
  "test/scripts/breaking.test.ts",
  "test/process/acp/mcp.test.ts",
  "test/process/sandbox/everyday.test.ts",
  "test/process/conformance/conformance.test.ts",
  "test/process/conformance/faults.test.ts",
  "test/process/acp/exit.test.ts",
  "test/scripts/codegen.test.ts",
  "test/process/chat/piped.test.ts",
  "test/process/cli/webhook-listen.test.ts",
  "test/process/package/package.test.ts",
  "test/process/cli/sessions.test.ts",
  "test/process/cli/servers.test.ts",
  "test/process/acp/load.test.ts",
  "test/process/cli/webhook.test.ts",
  "test/process/rpc/stdio.test.ts",
  "test/process/cli/gateway-setup-platform.test.ts",
  "test/process/chat/json.test.ts",
  "test/process/cli/npm-start.test.ts",
  "test/process/cli/logs.test.ts",
  "test/process/acp/permission.test.ts",
  "test/process/cli/argument-secrets.test.ts",
  "test/process/rpc/protocol.test.ts",
  "test/unit/store/postgres.test.ts",
  "test/unit/agent/outage.test.ts",
  "test/flows/provider.test.ts",
  "test/contract/http/control-jobs-runs.test.ts",
  "test/contract/http/property.test.ts",
  "test/contract/rpc/cli.test.ts",
  "test/contract/http/edge.test.ts",
  "test/contract/webhook/scripts.test.ts",
  "test/unit/agent/mcp/live-servers.test.ts",
  "test/unit/agent/tools/readable.test.ts",
  "test/unit/agent/outage-compression.test.ts",
  "test/unit/cron/script.test.ts",
  "test/unit/agent/tools/terminal.test.ts",
  "test/unit/agent/tools/sudo.test.ts",
  "test/unit/agent/tools/process.test.ts",
  "test/unit/harness/guard.test.ts",
];

/** The slowest first, the others as they come. */
export function slowestFirst(files: readonly string[]): string[] {
  const slow = slowestFiles.filter((file) => files.includes(file));
  return [...slow, ...files.filter((file) => !slow.includes(file))];
}
