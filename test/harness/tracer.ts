/** A tracer that keeps its spans in memory. */
import { createHash } from "node:crypto";
import {
  errorType,
  formatTraceparent,
  parseTraceparent,
  type Attributes,
  type AttributeValue,
  type Span,
  type SpanKind,
  type SpanOptions,
  type Tracer,
} from "../../src/base/observe.ts";

export interface KeptSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly parent: string | undefined;
  readonly traceparent: string;
  readonly attributes: Record<string, AttributeValue>;
  error: string | undefined;
  /** How often `end` was called. */
  ends: number;
}

export class KeepingTracer implements Tracer {
  readonly isOn = true;
  readonly spans: KeptSpan[] = [];

  start(name: string, options: SpanOptions & { readonly parent?: string | undefined } = {}): Span {
    const { kind = "internal", attributes = {}, parent } = options;
    const id = createHash("md5").update(String(this.spans.length)).digest("hex");
    const traceId = parseTraceparent(parent)?.traceId ?? id;
    const traceparent = formatTraceparent({ traceId, spanId: id.slice(0, 16), isSampled: true });
    const kept: KeptSpan = { name, kind, parent, traceparent, attributes: {}, error: undefined, ends: 0 };
    this.spans.push(kept);
    const set = (more: Attributes) => {
      for (const [key, value] of Object.entries(more)) if (value !== undefined) kept.attributes[key] = value;
    };
    set(attributes);
    return {
      traceparent,
      isRecording: true,
      child: (child, more) => this.start(child, { ...more, parent: traceparent }),
      set,
      event: () => {},
      fail: (error) => void (kept.error = errorType(error)),
      end: () => void (kept.ends += 1),
    };
  }

  /** The first span of that name. */
  span(name: string): KeptSpan {
    const found = this.spans.find((span) => span.name === name);
    if (!found) throw new Error(`no span ${name}: ${this.spans.map((span) => span.name).join(", ")}`);
    return found;
  }
}
