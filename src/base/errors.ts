/** The form of an error code on each wire. `rpc` is the JSON-RPC code, `retryable` the hint for clients. */
export interface ErrorRow {
  readonly http: number;
  readonly type: ErrorType;
  readonly rpc: number;
  readonly retryable: boolean;
  /** The code on the wire, where several of our codes share one. */
  readonly wire?: string;
  /** `data.reason` of JSON-RPC, where it differs from the code. */
  readonly reason?: string;
  /** No operation of the HTTP API returns it. */
  readonly only?: "rpc";
}

export type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "not_found_error"
  | "conflict_error"
  | "rate_limit_error"
  | "server_error"
  | "overloaded_error";

const row = (http: number, type: ErrorType, rpc: number, retryable = false): ErrorRow => ({
  http,
  type,
  rpc,
  retryable,
});
const invalid = (http = 400, rpc = -32602) => row(http, "invalid_request_error", rpc);
const missing = (rpc: number) => row(404, "not_found_error", rpc);
const conflict = (rpc: number) => row(409, "conflict_error", rpc);
const gateway = (rpc: number, like: ErrorRow = invalid()): ErrorRow => ({ ...like, rpc, only: "rpc" });
const failed = (rpc: number) => gateway(rpc, row(500, "server_error", rpc));

/** Every error code and its form on each wire. Other codes cannot be thrown. */
export const errorTable = {
  invalid_json: invalid(400, -32700),
  invalid_request: invalid(),
  missing_required_parameter: invalid(),
  unsupported_parameter: invalid(),
  invalid_content_part: invalid(),
  unsupported_content_type: invalid(),
  invalid_image_url: invalid(),
  string_above_max_length: invalid(),
  model_not_found: invalid(),
  invalid_session_id: invalid(),
  invalid_session_key: invalid(),
  invalid_cursor: invalid(),
  invalid_idempotency_key: invalid(),
  invalid_approval_choice: invalid(),
  invalid_approval_request: invalid(),
  invalid_steer_input: invalid(),
  invalid_config: invalid(),
  invalid_answer: invalid(),
  invalid_schedule: invalid(),
  secret_not_allowed: invalid(),
  request_timeout: row(408, "invalid_request_error", -32602, true),
  missing_api_key: row(401, "authentication_error", -32001),
  invalid_api_key: row(401, "authentication_error", -32001),
  invalid_code: row(401, "authentication_error", -32001),
  sign_in_required: row(401, "authentication_error", -32001),
  insufficient_scope: row(403, "permission_error", -32003),
  auth_required: row(403, "permission_error", -32003),
  auth_required_for_session: row(403, "permission_error", -32003),
  plain_http_not_allowed: row(403, "permission_error", -32003),
  host_not_allowed: row(403, "permission_error", -32003),
  origin_not_allowed: row(403, "permission_error", -32003),
  not_found: missing(-32601),
  run_not_found: missing(4007),
  session_not_found: missing(4001),
  unknown_model: { ...missing(4002), wire: "model_not_found" },
  response_not_found: missing(4007),
  previous_response_not_found: missing(4007),
  ask_not_found: { ...missing(4009), reason: "no_pending_request" },
  question_not_found: { ...missing(4009), reason: "no_pending_request" },
  route_not_found: missing(4007),
  delivery_not_found: missing(4007),
  key_not_found: missing(4007),
  variable_not_found: missing(4007),
  grant_not_found: missing(4007),
  job_not_found: missing(4007),
  occurrence_not_found: missing(4007),
  message_not_found: missing(4007),
  platform_not_found: missing(4007),
  skill_not_found: missing(4007),
  method_not_allowed: invalid(405),
  unsupported_media_type: invalid(415),
  body_too_large: invalid(413),
  session_busy: conflict(4009),
  ask_not_pending: { ...conflict(4009), reason: "no_pending_request" },
  question_not_pending: { ...conflict(4009), reason: "no_pending_request" },
  session_exists: conflict(4009),
  route_exists: conflict(4009),
  route_is_static: conflict(4009),
  key_exists: conflict(4009),
  key_is_static: conflict(4009),
  variable_is_static: conflict(4009),
  last_admin_key: conflict(4009),
  delivery_not_replayable: conflict(4009),
  receiver_disabled: conflict(4009),
  job_over: conflict(4009),
  job_busy: conflict(4009),
  message_not_retryable: conflict(4009),
  message_being_sent: conflict(4009),
  platform_not_ready: conflict(4009),
  approval_not_active: { ...conflict(4009), reason: "no_pending_request" },
  approval_not_pending: { ...conflict(4009), reason: "no_pending_request" },
  run_not_active: conflict(4009),
  run_not_accepting_steer: conflict(4009),
  response_not_cancellable: conflict(4009),
  idempotency_key_conflict: conflict(4009),
  run_events_expired: row(410, "not_found_error", 4007),
  events_expired: row(410, "not_found_error", 4007),
  precondition_failed: row(412, "conflict_error", 4009),
  precondition_required: row(428, "conflict_error", 4009),
  rate_limit_exceeded: row(429, "rate_limit_error", -32001, true),
  too_many_concurrent_runs: row(429, "rate_limit_error", 4090, true),
  too_many_subscribers: row(429, "rate_limit_error", 4090, true),
  budget_exceeded: row(429, "rate_limit_error", 5033),
  context_too_long: invalid(400, 4018),
  nothing_to_branch: conflict(4008),
  nothing_to_undo: conflict(4008),
  invalid_title: { ...invalid(400, 4022), reason: "title_invalid" },
  unknown_command: missing(4011),
  command_usage: { ...invalid(400, 4004), reason: "usage" },
  too_many_live_sessions: { ...row(429, "rate_limit_error", 4090, true), reason: "session_limit" },
  queue_full: row(429, "rate_limit_error", 4027, true),
  internal_error: row(500, "server_error", -32603),
  provider_error: row(502, "server_error", 5030, true),
  agent_incomplete: row(502, "server_error", 5031),
  server_draining: row(503, "overloaded_error", -32001, true),
  state_store_unavailable: row(503, "overloaded_error", -32001, true),
  agent_timeout: row(504, "server_error", 5032, true),
  invalid_params: gateway(-32602),
  unknown_method: gateway(-32601, missing(-32601)),
  overloaded: gateway(-32001, row(503, "overloaded_error", -32001, true)),
  missing_param: gateway(4000),
  not_live: gateway(4001, missing(4001)),
  bad_value: gateway(4002),
  bad_argv: gateway(4003),
  empty_command: gateway(4004),
  bad_truncation: gateway(4004),
  blocked: gateway(4005, row(403, "permission_error", 4005)),
  disabled: gateway(4005, row(403, "permission_error", 4005)),
  session_id_required: gateway(4006),
  stored_session_not_found: gateway(4007, missing(4007)),
  steer_unsupported: gateway(4010, conflict(4010)),
  text_required: gateway(4012),
  path_required: gateway(4015),
  not_found_or_unsupported: gateway(4016),
  bad_data: gateway(4017),
  stale_target: gateway(4018, conflict(4018)),
  not_dispatchable: gateway(4018),
  too_large: gateway(4018),
  title_required: gateway(4021),
  session_live: gateway(4023, conflict(4023)),
  unsupported_protocol_version: gateway(4026),
  empty_truncation: gateway(4028),
  unconfirmed_truncation: gateway(4029),
  path_outside_root: gateway(4030),
  client_turn_id_conflict: gateway(4031, conflict(4031)),
  no_such_process: gateway(4044, missing(4044)),
  storage_failed: failed(5000),
  config_failed: failed(5001),
  shell_timed_out: failed(5002),
  compress_failed: failed(5005),
  save_failed: failed(5011),
  reload_failed: failed(5015),
  command_timed_out: failed(5016),
  command_not_started: failed(5017),
  attach_failed: failed(5027),
  agent_start_failed: failed(5032),
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof errorTable;

export interface ErrorOptions {
  /** Path of the offending input, such as `messages[0].content`. */
  readonly param?: string;
  readonly retryAfterSeconds?: number;
  /** Extra fields for the client. Must not hold secrets. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/**
 * The only error that crosses modules. `message` is for people and says what to do next; `code` is stable. Surfaces
 * translate it to their wire's error with {@link errorTable}.
 */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.param = options.param;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.details = options.details;
  }

  get row(): ErrorRow {
    return errorTable[this.code];
  }
}

/** Returns what was thrown as a ServiceError. The text of an unknown error stays in `cause`, never in `message`. */
export function toServiceError(error: unknown): ServiceError {
  return error instanceof ServiceError
    ? error
    : new ServiceError("internal_error", "Internal error. The server log has the details.", { cause: error });
}
