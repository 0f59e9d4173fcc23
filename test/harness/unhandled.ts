/** Errors that nobody caught fail a test even where the runner would let them pass as noise of the process. */
import process from "node:process";

/** Collects what stays unhandled until it is disposed, and throws it then. */
export function watchUnhandled(): AsyncDisposable {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on("unhandledRejection", note);
  process.on("uncaughtException", note);
  return {
    async [Symbol.asyncDispose]() {
      // Rejections are reported once the microtasks of their turn are done.
      await new Promise((resolve) => setImmediate(resolve));
      process.off("unhandledRejection", note);
      process.off("uncaughtException", note);
      if (unhandled.length > 0) throw new AggregateError(unhandled, "errors that nobody handled");
    },
  };
}
