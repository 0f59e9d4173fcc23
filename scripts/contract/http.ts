/** What the generated HTTP tables are made of. Copied beside them, so that generated code imports nothing of ours. */

export type JsonSchema = Readonly<Record<string, unknown>>;
export type SchemaMap = Readonly<Record<string, JsonSchema>>;

/** The statuses that a `default` response stands for. */
export type ErrorStatus =
  | (
      | 400
      | 401
      | 402
      | 403
      | 404
      | 405
      | 406
      | 407
      | 408
      | 409
      | 410
      | 411
      | 412
      | 413
      | 414
      | 415
      | 416
      | 417
    )
  | (421 | 422 | 423 | 424 | 425 | 426 | 428 | 429 | 431 | 451)
  | (500 | 501 | 502 | 503 | 504 | 505 | 507 | 508 | 511);

export type LowercaseKeys<T> = { [K in keyof T as K extends string ? Lowercase<K> : K]: T[K] };

/** `T` after defaults were filled in: the members `K` are always there. */
export type WithDefaults<T, K extends PropertyKey> = Omit<T, K> & Required<Pick<T, K & keyof T>>;

/** One server-sent event. `data` is sent as JSON. */
export interface SseMessage<T> {
  readonly data: T;
  readonly event?: string;
  readonly id?: string;
  readonly retryMs?: number;
}

/** How the text of a parameter becomes JSON before it is validated; `[]` marks a list. */
export type Coercion =
  | "string"
  | "integer"
  | "number"
  | "boolean"
  | `${"string" | "integer" | "number" | "boolean"}[]`;

/** The parameters that travel together: path, query or headers (with lower-case names). */
export interface ParameterGroup {
  readonly coerce: Readonly<Record<string, Coercion>>;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly schema: JsonSchema;
}

export type BodyMeta =
  | { readonly required: boolean; readonly raw: true }
  | { readonly required: boolean; readonly raw?: never; readonly schema: JsonSchema };

export interface ResponseMeta {
  /** Schema of the application/json body. */
  readonly json?: JsonSchema;
  /** Schema of the data of one server-sent event. */
  readonly sse?: JsonSchema;
  /** Media type of a body that is neither. */
  readonly raw?: string;
  /** Lower-case names of the declared headers. */
  readonly headers: readonly string[];
}

/** The `x-sse` extension: which members of an event give its id and name, and what ends the stream. */
export interface SseMeta {
  readonly id?: string;
  readonly event?: string;
  readonly terminator: string;
}

export interface OperationMeta {
  readonly method: string;
  /** The path of the spec, with `{name}` for a parameter. */
  readonly route: string;
  readonly tags: readonly string[];
  /** As in OpenAPI: any one entry admits; empty means no key is asked for. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  /** `x-required-scope`. */
  readonly scope?: string;
  /** `x-strict-query`: an unknown query parameter, or an unknown value of one, is refused. */
  readonly strict?: boolean;
  readonly path?: ParameterGroup;
  readonly query?: ParameterGroup;
  readonly headers?: ParameterGroup;
  readonly body?: BodyMeta;
  readonly sse?: SseMeta;
  /** By status, or `default`. */
  readonly responses: Readonly<Record<string, ResponseMeta>>;
}
