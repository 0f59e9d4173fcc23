/** What the generated JSON-RPC tables are made of. Copied beside them, so that generated code imports nothing of ours. */

export type JsonSchema = Readonly<Record<string, unknown>>;
export type SchemaMap = Readonly<Record<string, JsonSchema>>;

/** `T` after defaults were filled in: the members `K` are always there. */
export type WithDefaults<T, K extends PropertyKey> = Omit<T, K> & Required<Pick<T, K & keyof T>>;

/** A method that answers. */
export interface RequestMeta {
  readonly params: JsonSchema;
  /** Names of the declared parameters; others are ignored and logged. */
  readonly names: readonly string[];
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly result: JsonSchema;
  /** The application error codes that the method declares. */
  readonly errors: readonly number[];
  /** `x-required-scope`. */
  readonly scope?: string;
}

/** An event that the gateway tells of. */
export interface EventMeta {
  /** Of the whole event: type, payload, number. */
  readonly event: JsonSchema;
  readonly payload: JsonSchema;
}
