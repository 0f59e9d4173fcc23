/** Parts whose code is loaded when they are drawn for the first time. */
import { h, type ComponentType, type FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

/** After this, code that could not be loaded is asked for again: the gateway may have been away. */
const RETRY_MS = 2_000;

/** Returns a part that shows nothing until its code, and what else `load` waits for, is there. */
export function lazy<Props extends object>(
  load: () => Promise<ComponentType<Props>>,
): FunctionComponent<Props> {
  let view: ComponentType<Props> | undefined;
  return function Lazy(props: Props) {
    const [attempts, draw] = useState(0);
    useEffect(() => {
      if (view) return undefined;
      let timer: ReturnType<typeof setTimeout> | undefined;
      load().then(
        (loaded) => {
          view = loaded;
          draw(attempts + 1);
        },
        () => (timer = setTimeout(() => draw(attempts + 1), RETRY_MS)),
      );
      return () => clearTimeout(timer);
    }, [attempts]);
    return view ? h(view, props) : null;
  };
}
