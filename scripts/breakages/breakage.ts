/** One guarantee of the service, broken on purpose by one small edit. */
export interface Breakage {
  /** For the command line; unique. */
  readonly name: string;
  /** What the service promises, and no longer keeps once the edit is made. */
  readonly guarantee: string;
  /** File below `src/`. */
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly from: string;
  readonly to: string;
  /** Test files, below `test/`, one of which must fail. */
  readonly tests: readonly string[];
  /** Absent: on every database. AGENTD_DATABASE_URL says which one there is. */
  readonly database?: "sqlite" | "postgres";
}
