import type { Kysely } from "kysely";
import type { Migration } from "kysely/migration";
import { init } from "./migrations/0001-init.ts";
import { agentCore } from "./migrations/0002-agent-core.ts";
import { httpApi } from "./migrations/0003-http-api.ts";
import { webhooks } from "./migrations/0004-webhooks.ts";
import { outboxLanes } from "./migrations/0005-outbox-lanes.ts";
import { cron } from "./migrations/0006-cron.ts";
import { sessions } from "./migrations/0007-sessions.ts";
import { deliveries } from "./migrations/0008-deliveries.ts";
import { SchemaBuilder } from "./migrations/builder.ts";
import type { Dialect } from "../tx/tx.ts";

/**
 * Numbered steps from nothing to the tables of tables.ts. A released step is never edited: a change is a new step.
 * Names sort in the order of their numbers.
 */
export function migrations(dialect: Dialect): Readonly<Record<string, Migration>> {
  const step = (up: (schema: SchemaBuilder) => Promise<void>): Migration => ({
    up: (db: Kysely<unknown>) => up(new SchemaBuilder(db, dialect)),
  });
  return {
    "0001_init": step(init),
    "0002_agent_core": step(agentCore),
    "0003_http_api": step(httpApi),
    "0004_webhooks": step(webhooks),
    "0005_outbox_lanes": step(outboxLanes),
    "0006_cron": step(cron),
    "0007_sessions": step(sessions),
    "0008_deliveries": step(deliveries),
  };
}
