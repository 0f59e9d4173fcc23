import type { AcpConnection } from "./connection.ts";

/** How a client turned out to deal with questions, which it cannot say before. */
export interface ClientQuirks {
  /** It answered a request for permission with an error: it cannot ask its user. */
  hasNoPermissions: boolean;
  /** It failed to show a form although it offers them. */
  hasNoForms: boolean;
  /** A question ran out of time unanswered: nobody may be looking. An answer takes it back. */
  isSilent: boolean;
}

const known = new WeakMap<AcpConnection, ClientQuirks>();

/** Of this client, for as long as it is connected. */
export function clientQuirks(connection: AcpConnection): ClientQuirks {
  const quirks = known.get(connection) ?? { hasNoPermissions: false, hasNoForms: false, isSilent: false };
  known.set(connection, quirks);
  return quirks;
}
