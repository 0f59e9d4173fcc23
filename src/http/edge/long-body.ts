import type { Clock } from "../../base/clock.ts";
import type { ReaderBudget } from "../../store/journal/reader-budget.ts";

export interface LongBodyOptions {
  readonly readers: ReaderBudget;
  readonly clock: Clock;
  /** How long the client may take nothing; then it is cut. */
  readonly slowReaderMs: number;
}

/** From here on a body counts for as long as its client has not read it. */
export const LONG_BODY_BYTES = 65_536;
const PIECE_BYTES = 65_536;

/** Returns a body that leaves piece by piece, as its client reads, and that may be cut when too much waits for all. */
export function longBody(bytes: Uint8Array, options: LongBodyOptions): ReadableStream<Uint8Array> {
  let rest = bytes;
  let cancelStalled = () => {};
  let cut = () => {};
  const queue = options.readers.open(() => cut());
  const end = () => {
    rest = rest.subarray(rest.length);
    cancelStalled();
    queue.close();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        cut = () => {
          end();
          controller.error(new Error("The client does not read."));
        };
        queue.set(rest.length);
      },
      pull(controller) {
        cancelStalled();
        controller.enqueue(rest.subarray(0, PIECE_BYTES));
        rest = rest.subarray(PIECE_BYTES);
        queue.set(rest.length);
        if (rest.length > 0) {
          cancelStalled = options.clock.after(options.slowReaderMs, cut);
          return;
        }
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
