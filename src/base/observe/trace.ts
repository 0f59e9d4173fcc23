/** Tracing as the rooms see it: spans, and the context that ties them together across processes. Knows no vendor. */

export type SpanKind = "internal" | "server" | "client" | "producer";
export type AttributeValue = string | number | boolean | readonly string[];
/** Undefined ones are left out. MUST NOT hold what people or models said, nor arguments or results of tools. */
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanOptions {
  /** Default: internal. */
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
}

/** One piece of work. What is done to it after its end is ignored; no method throws. */
export interface Span {
  /** W3C trace context for what this work asks of others; undefined when there is nothing to pass on. */
  readonly traceparent: string | undefined;
  /** False: attributes are not worth gathering. */
  readonly isRecording: boolean;
  /** Begins a piece of this work. */
  child(name: string, options?: SpanOptions): Span;
  set(attributes: Attributes): void;
  event(name: string, attributes?: Attributes): void;
  /** The work failed: with a code, or with an error, of which only the code or the name is told. */
  fail(error: unknown): void;
  end(): void;
}

export interface Tracer {
  /** False: nothing is recorded, a trace context is only passed on. */
  readonly isOn: boolean;
  /** Begins work; `parent` is the trace context that came with it. One that is not valid counts as absent. */
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
 * The context in a `traceparent` header, undefined when it is not valid: then there is none. Of later versions only
 * what version 00 knows is read, as the standard asks.
 */
export function parseTraceparent(header: string | null | undefined): TraceContext | undefined {
  if (header === null || header === undefined || header.length > MAX_CHARACTERS) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = TRACEPARENT.exec(header.trim()) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED };
}

/** As version 00. */
export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** What `span.fail` tells of an error: a code or a class of errors, never its message, which may quote anything. */
export function errorType(error: unknown): string {
  if (typeof error === "string") return error;
  const { code, statusCode, name } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return code;
  // What a provider answered says more than the class of its client's error.
  if (typeof statusCode === "number") return String(statusCode);
  return typeof name === "string" ? name : "_OTHER";
}

/** The span of work that nobody traces. */
export const noSpan: Span = passing(undefined);

/** Records nothing. A context that came with a request goes on to whom the work asks; without one it costs nothing. */
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
