/** Runtime tuning: the heap size. Touches the machine. */
import { PerformanceObserver } from "node:perf_hooks";
import v8 from "node:v8";

/**
 * How much what outlived the first collections may grow before V8 looks through it again. By default it waits until there
 * is up to four times as much. V8 reads this and the flags below whenever it sizes its heap, so they count for a process
 * that runs.
 */
const GROWTH = "--heap-growing-percent";
const EDITOR_PERCENT = 50;
/**
 * Of a service: about so many bytes, by what is used when it collects, or a quarter where that is more. Less would cost CPU
 * time in streams, more leaves garbage of long answers.
 */
const SERVICE_BYTES = 20 * 1_048_576;
const SERVICE_PERCENT = { min: 25, max: 300 };
/** V8 doubles the space of new objects as long as anything outlives them, up to about 100 MB resident. */
const KEEP_NEW_SPACE = "--semi-space-growth-factor=1";
const DOUBLE_NEW_SPACE = "--semi-space-growth-factor=2";

/** Both halves of the space of new objects: more of it saves a service no measurable time. */
const MAX_NEW_SPACE_BYTES = 16 * 1_048_576;

/**
 * From now on V8 looks for garbage instead of taking more memory: a stream leaves a lot of it and keeps next to nothing.
 * For a process that one person's editor holds open all day: new objects get the space they have by now.
 */
export function keepHeapSmall(): void {
  v8.setFlagsFromString(`${GROWTH}=${EDITOR_PERCENT}`);
  v8.setFlagsFromString(KEEP_NEW_SPACE);
}

/**
 * From now on what a service takes follows what it holds: long answers leave many times their size in garbage, and the
 * default limits would let it wait in hundreds of megabytes. The space of new objects grows up to what many requests at
 * once need, and no further. Returns what ends the watch over it.
 */
export function boundHeap(): () => void {
  let isBounded = false;
  const look = () => {
    const { used_heap_size: usedBytes } = v8.getHeapStatistics();
    const percent = Math.round((100 * SERVICE_BYTES) / usedBytes);
    const { min, max } = SERVICE_PERCENT;
    v8.setFlagsFromString(`${GROWTH}=${Math.min(max, Math.max(min, percent))}`);
    const mustBound = newSpaceBytes() >= MAX_NEW_SPACE_BYTES;
    if (mustBound === isBounded) return;
    isBounded = mustBound;
    // V8 also gives the space back when a process rests: it may grow again then.
    v8.setFlagsFromString(isBounded ? KEEP_NEW_SPACE : DOUBLE_NEW_SPACE);
  };
  const observer = new PerformanceObserver(look);
  observer.observe({ entryTypes: ["gc"] });
  look();
  return () => observer.disconnect();
}

function newSpaceBytes(): number {
  return v8.getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space")?.space_size ?? 0;
}
