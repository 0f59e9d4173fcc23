import { ServiceError } from "../../base/errors.ts";
import type { HttpResponse } from "../edge/contract.ts";

/** What the HTTP surface counts and shows. */
export interface HttpMetrics {
  /** Every figure of the process in the text exposition format of Prometheus, version 0.0.4. */
  text(): Promise<string>;
  /** A request was answered, after so many seconds; a stream when it began. */
  answered(operation: string, status: number, seconds: number): void;
  streamOpened(operation: string): void;
  streamClosed(operation: string): void;
}

/** GET /metrics. ServiceError `not_found` where metrics are off. */
export async function getMetrics({
  metrics,
}: {
  readonly metrics?: HttpMetrics | undefined;
}): Promise<HttpResponse<"getMetrics">> {
  if (!metrics) throw new ServiceError("not_found", "Metrics are off. Set telemetry.metrics to true.");
  return {
    status: 200,
    raw: await metrics.text(),
    contentType: "text/plain; version=0.0.4; charset=utf-8",
  };
}
