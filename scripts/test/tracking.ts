/**
 * `node:test` follows every promise of its process from its beginning to its end: to know below which test a file declares
 * another one, and which test an error belongs to that nobody handled. A file declares its tests while it loads, and the guard
 * reports such errors: so a worker follows promises only while a file loads. To follow all takes a tenth of its CPU time.
 * Must be loaded before `node:test`.
 */
import asyncHooks, { type AsyncHook } from "node:async_hooks";

const { createHook } = asyncHooks;
let tracking: AsyncHook | undefined;
asyncHooks.createHook = (callbacks) => {
  const hook = createHook(callbacks);
  tracking ??= hook;
  return hook;
};

/** Begins before a file loads. */
export function beginTracking(): void {
  asyncHooks.createHook = createHook;
  tracking?.enable();
}

/** Ends when it has loaded. */
export function endTracking(): void {
  tracking?.disable();
}
