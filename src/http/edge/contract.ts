/** What a handler is given and may answer, read off the generated operations. Types, and the function that binds them. */
import type { OperationId, Operations } from "../../../generated/http/server.gen.ts";

/** `Ctx` is what the binding learned before the handler: identity, request id, session. */
export type HttpRequest<K extends OperationId, Ctx> = Operations[K]["request"] & {
  readonly ctx: Ctx;
  /** The request as it came. Its body has been read when the operation has one. */
  readonly raw: Request;
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
};

/** Only the statuses, headers, bodies and events that the spec lists for the operation. */
export type HttpResponse<K extends OperationId> = Operations[K]["response"];

export type HttpHandler<K extends OperationId, Ctx> = (
  request: HttpRequest<K, Ctx>,
) => HttpResponse<K> | Promise<HttpResponse<K>>;

/** One handler for every operation of the spec. */
export type HttpHandlers<Ctx> = { readonly [K in OperationId]: HttpHandler<K, Ctx> };

/** Returns `handlers` unchanged; a missing operation or an answer the spec does not list is a compile error. */
export function defineHttp<Ctx>(handlers: HttpHandlers<Ctx>): HttpHandlers<Ctx> {
  return handlers;
}
