/** Tables of the sign-in to the console. */
import { table } from "./define.ts";

/** Browsers that are signed in to the console. */
const consoleSessions = table(
  {
    /** Ids sort by the time of creation. */
    id: "text",
    /** SHA-256 of the two halves, in hex. Each has 256 random bits. */
    cookie_sha256: "text",
    token_sha256: "text",
    key_name: "text",
    /**
     * Finds the key, or shows that it has changed. A created key: SHA-256 of its value. A configured one, which people
     * may have chosen: SHA-256 of the cookie and that digest, so that the row alone does not let anyone guess it.
     */
    key_check: "text",
    /** config or api. */
    key_source: "text",
    /** Where it signed in from. */
    address: "text",
    browser: "text",
    created_at: "integer",
    last_used_at: "integer",
    expires_at: "integer",
  },
  ["id"],
  {
    by_cookie: { columns: ["cookie_sha256"], isUnique: true },
    by_key: { columns: ["key_name", "id"] },
  },
);

/** Codes that sign a browser in once. */
const consoleCodes = table(
  {
    /** SHA-256 of the code, in hex. */
    sha256: "text",
    /** link or phone. */
    kind: "text",
    key_name: "text",
    /** SHA-256 of a created key's value. Null: a configured key. */
    key_sha256: "text?",
    /** Wrong codes that may still be tried. */
    attempts_left: "integer",
    expires_at: "integer",
  },
  ["sha256"],
);

export const consoleTables = { console_sessions: consoleSessions, console_codes: consoleCodes };
