/** Tracing for all modules: spans, and the context that links them across processes. Independent of vendors. */

export type SpanKind = "internal" | "server" | "client" | "producer";
export type AttributeValue = string | number | boolean | readonly string[];
/** Undefined attributes are omitted. MUST NOT hold text of people or models, nor arguments or results of tools. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanOptions {
  /** Default: internal. */
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
}

/** One operation. Calls after its end are ignored; no method throws. */
export interface Span {
  /** W3C trace context for outgoing requests of this operation; undefined when there is none. */
  readonly traceparent: string | undefined;
  /** False: skip collecting attributes. */
  readonly isRecording: boolean;
  /** Starts a child span. */
  child(name: string, options?: SpanOptions): Span;
  set(attributes: Attributes): void;
  event(name: string, attributes?: Attributes): void;
  /** Marks the operation as failed, with a code or an error; only the error's code or name is recorded. */
  fail(error: unknown): void;
  end(): void;
}

export interface Tracer {
  /** False: the tracer records nothing and only propagates trace contexts. */
  readonly isOn: boolean;
  /** Starts a span; `parent` is the incoming trace context. An invalid one counts as absent. */
  start(name: string, options?: SpanOptions & { readonly parent?: string | undefined }): Span;
}

/** The fields of a `traceparent` header, W3C Trace Context 2, section 3.2. */
export interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hex digits, not all zero. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MAX_CHARACTERS = 512;
const SAMPLED = 1;

/**
 * Parses a `traceparent` header; undefined when it is not valid. Reads only the fields of version 00 from later
 * versions, as the standard requires.
 */
export function parseTraceparent(header: string | null | undefined): TraceContext | undefined {
  if (header === null || header === undefined || header.length > MAX_CHARACTERS) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = TRACEPARENT.exec(header.trim()) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

/** Formats a context as version 00. */
export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Returns what `span.fail` records of an error: a code or a class, never its message, which may quote anything. */
export function errorType(error: unknown): string {
  if (typeof error === "string") return error;
  const { code, statusCode, name } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return code;
  // The provider's answer says more than the class of its client's error.
  if (typeof statusCode === "number") return String(statusCode);
  return typeof name === "string" ? name : "_OTHER";
}

/** The span of an operation that is not traced. */
export const noSpan: Span = passing(undefined);

/** Records nothing. Propagates the incoming context, if any. */
export const offTracer: Tracer = {
  isOn: false,
  start(_name, options) {
    const context = options?.parent === undefined ? undefined : parseTraceparent(options.parent);
    return context === undefined ? noSpan : passing(formatTraceparent(context));
  },
};

function passing(traceparent: string | undefined): Span {
  const span: Span = {
    traceparent,
    isRecording: false,
    child: () => span,
    set: () => {},
    event: () => {},
    fail: () => {},
    end: () => {},
  };
  return Object.freeze(span);
}
