/** A collector of traces on loopback: takes OTLP as JSON over HTTP, and shows the spans as a tree. */
import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface CollectedSpan {
  readonly name: string;
  readonly kind: "internal" | "server" | "client" | "producer" | "consumer";
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly isError: boolean;
  readonly durationMs: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: string | number;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
  readonly arrayValue?: { readonly values: readonly OtlpValue[] };
}

interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}

interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly OtlpAttribute[];
  readonly events?: readonly { readonly name: string }[];
  readonly status?: { readonly code?: number };
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly OtlpAttribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

const kinds = ["internal", "internal", "server", "client", "producer", "consumer"] as const;

type Answer = (response: ServerResponse, count: number) => void;

export class Collector implements AsyncDisposable {
  /** The base address, without a path. */
  readonly url: string;
  readonly spans: CollectedSpan[] = [];
  readonly requests: {
    readonly path: string;
    readonly headers: IncomingHttpHeaders;
    readonly text: string;
  }[] = [];
  readonly #close: () => Promise<void>;
  readonly #waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];

  constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  take(request: Collector["requests"][number]): void {
    this.requests.push(request);
    const body = JSON.parse(request.text) as OtlpRequest;
    for (const { resource, scopeSpans } of body.resourceSpans) {
      const about = record(resource.attributes);
      for (const { spans } of scopeSpans) {
        for (const span of spans) this.spans.push(toSpan(span, about));
      }
    }
    for (const { isMet, resolve } of this.#waiting) if (isMet()) resolve();
  }

  /** Resolves once the collector has what `isMet` looks for. */
  async until(isMet: (collector: Collector) => boolean): Promise<void> {
    if (isMet(this)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push({ isMet: () => isMet(this), resolve });
    await promise;
  }

  /** The only span of that name. */
  span(name: string): CollectedSpan {
    const found = this.spans.filter((span) => span.name === name);
    assert.equal(found.length, 1, `${found.length} spans are named ${name}: ${this.names.join(", ")}`);
    return found[0]!;
  }

  get names(): readonly string[] {
    return this.spans.map(({ name }) => name);
  }

  /** Names from the root to the span, as far as the collector has them. */
  path(span: CollectedSpan): readonly string[] {
    const parent = this.spans.find(
      ({ spanId, traceId }) => spanId === span.parentSpanId && traceId === span.traceId,
    );
    return parent ? [...this.path(parent), span.name] : [span.name];
  }

  /** Everything that came in, as it came. */
  get text(): string {
    return this.requests.map(({ text }) => text).join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }
}

/** Answers as `answer` says, by default 200 and an empty object. */
export async function startCollector(answer: Answer = accept): Promise<Collector> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { url: path = "", headers } = request;
    collector.take({ path, headers, text: Buffer.concat(chunks).toString() });
    answer(response, collector.requests.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const collector = new Collector(`http://127.0.0.1:${port}`, async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return collector;
}

function accept(response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" }).end("{}");
}

function toSpan(span: OtlpSpan, resource: CollectedSpan["resource"]): CollectedSpan {
  return {
    name: span.name,
    kind: kinds[span.kind] ?? "internal",
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId === "" ? undefined : span.parentSpanId,
    attributes: record(span.attributes ?? []),
    events: (span.events ?? []).map(({ name }) => name),
    isError: span.status?.code === 2,
    durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
    resource,
  };
}

function record(attributes: readonly OtlpAttribute[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]));
}

function plain(value: OtlpValue): unknown {
  const { stringValue, intValue, doubleValue, boolValue, arrayValue } = value;
  if (arrayValue) return arrayValue.values.map(plain);
  if (intValue !== undefined) return Number(intValue);
  return stringValue ?? doubleValue ?? boolValue;
}
