/** Parts that are drawn again only when a property is another one. */
import { Component, h, type ComponentType, type FunctionComponent } from "preact";

type Compare<Props> = (before: Readonly<Props>, after: Readonly<Props>) => boolean;

/** `isSame` replaces the comparison of each property. */
export function memo<Props extends object>(
  view: FunctionComponent<Props>,
  isSame: Compare<Props> = sameProperties,
): ComponentType<Props> {
  return class extends Component<Props> {
    static override displayName = view.name;

    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      return !isSame(this.props as Readonly<Props>, next);
    }

    override render() {
      return h(view, this.props as Props);
    }
  };
}

function sameProperties<Props extends object>(before: Readonly<Props>, after: Readonly<Props>): boolean {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  names.delete("children");
  return [...names].every((name) => Object.is(before[name as keyof Props], after[name as keyof Props]));
}
