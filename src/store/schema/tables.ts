/**
 * Every table of the database, defined once: row types, column lists and the migration derive from it.
 * Both databases return text ids, epoch-millisecond integers, JSON as text and 0/1 flags, so one definition serves both.
 */
import { events, grants, messages, questions, responses, runs, sessions, spending } from "./agent-tables.ts";
import { table, type RowOf } from "./define.ts";
import {
  cronJobs,
  cronTickers,
  deliveries,
  deliveryBodies,
  ledger,
  occurrences,
  outbox,
  pendingEvents,
} from "./work-tables.ts";

export const tables = {
  /** About the store itself: its epoch. */
  metadata: table({ key: "text", value: "text" }, ["key"]),
  sessions,
  runs,
  messages,
  events,
  questions,
  ledger,
  outbox,
  grants,
  spending,
  responses,
  deliveries,
  delivery_bodies: deliveryBodies,
  pending_events: pendingEvents,
  cron_jobs: cronJobs,
  occurrences,
  cron_tickers: cronTickers,
};

/** The rows by table, as Kysely and the transaction's own methods take them. */
export type Tables = { [Name in keyof typeof tables]: RowOf<(typeof tables)[Name]> };

export type SessionRow = Tables["sessions"];
export type MessageRow = Tables["messages"];
export type RunRow = Tables["runs"];
export type EventRow = Tables["events"];
export type QuestionRow = Tables["questions"];
export type LedgerRow = Tables["ledger"];
export type OutboxRow = Tables["outbox"];
export type GrantRow = Tables["grants"];
export type ResponseRow = Tables["responses"];
export type DeliveryRow = Tables["deliveries"];
export type DeliveryBodyRow = Tables["delivery_bodies"];
export type PendingEventRow = Tables["pending_events"];
export type CronJobRow = Tables["cron_jobs"];
export type OccurrenceRow = Tables["occurrences"];
export type CronTickerRow = Tables["cron_tickers"];

const lists = new Map<string, readonly string[]>(
  Object.entries(tables).map(([name, { columns }]) => [name, Object.freeze(Object.keys(columns))]),
);

/** Returns the table's columns in the order in which statements name them. */
export function columnsOf(name: keyof Tables): readonly string[] {
  const list = lists.get(name);
  if (!list) throw new TypeError(`The table ${JSON.stringify(name)} does not exist.`);
  return list;
}

/** Returns whether a name may appear in a statement: a column name is the one thing that cannot be a parameter. */
export function hasColumn(name: keyof Tables, column: string): boolean {
  return columnsOf(name).includes(column);
}
