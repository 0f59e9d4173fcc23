/** Types of requests and answers, derived from the generated operations. */
import type { OperationId, Operations } from "../../../generated/http/server.gen.ts";

/** `Ctx` is what the binding adds: identity, request id, trace context. */
export type HttpRequest<K extends OperationId, Ctx> = Operations[K]["request"] & {
  readonly ctx: Ctx;
  /** The original request. Its body is already read when the operation has one. */
  readonly raw: Request;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
};

/** The statuses, headers, bodies and events that the spec lists for the operation. */
export type HttpResponse<K extends OperationId> = Operations[K]["response"];

export type HttpHandler<K extends OperationId, Ctx, Rest extends readonly unknown[] = []> = (
  request: HttpRequest<K, Ctx>,
  ...rest: Rest
) => HttpResponse<K> | Promise<HttpResponse<K>>;

/** One handler for each operation of the spec. `Rest`: what each gets beside the request. */
export type HttpHandlers<Ctx, Rest extends readonly unknown[] = []> = {
  readonly [K in OperationId]: HttpHandler<K, Ctx, Rest>;
};

/**
 * Returns `handlers` unchanged. A missing operation, or an answer that the spec does not list, is a compile error.
 */
export function defineHttp<Ctx, Rest extends readonly unknown[] = []>(
  handlers: HttpHandlers<Ctx, Rest>,
): HttpHandlers<Ctx, Rest> {
  return handlers;
}
