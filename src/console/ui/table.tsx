/** Tables of resources: rows that are links, columns that become labels on a phone, and the rest of a list's states. */
import type { ComponentChildren, JSX } from "preact";
import type { ListView } from "../state/resources.ts";
import { Button, Loading, Problem, Time } from "./controls.tsx";

export interface Column<T> {
  readonly name: string;
  readonly cell: (row: T) => ComponentChildren;
  /** `end` for numbers. */
  readonly align?: "start" | "end";
  /** The column that takes the space left over. One of a table. */
  readonly isWide?: boolean;
}

interface TableProps<T> {
  /** What the rows are, for screen readers. */
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  /** Address of a row's page. The first column becomes the link. */
  readonly href?: (row: T) => string;
  /** Buttons at the end of a row. */
  readonly actions?: (row: T) => ComponentChildren;
}

export function Table<T extends { readonly id: string }>(props: TableProps<T>): JSX.Element {
  const { label, rows, columns, href, actions } = props;
  return (
    <div class="table-frame">
      {/* The roles stay when the layout of a phone makes blocks of rows and cells. */}
      <table class="table" role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map(({ name, align }) => (
              <th key={name} role="columnheader" class={align === "end" ? "table-end" : undefined}>
                {name}
              </th>
            ))}
            {actions ? (
              <th role="columnheader">
                <span class="sr-only">Actions</span>
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={row.id} role="row" data-row={row.id}>
              {columns.map((column, index) => (
                <td key={column.name} role="cell" class={classOf(column)} data-label={column.name}>
                  {href && index === 0 ? (
                    <a class="table-link" href={href(row)}>
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              ))}
              {actions ? (
                <td role="cell" class="table-actions">
                  {actions(row)}
                </td>
              ) : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<T>({ align, isWide }: Column<T>): string {
  return `${align === "end" ? "table-end" : ""} ${isWide ? "table-wide" : ""}`.trim();
}

type ListProps<T> = Omit<TableProps<T>, "rows"> & {
  readonly list: ListView<T>;
  /** What is shown when there are no rows at all. */
  readonly empty: ComponentChildren;
  /** Whether the address filters the list: then an empty list says that nothing matches. */
  readonly isFiltered?: boolean;
};

/** A list of the API as a table: loading, failed, empty, and its older rows. */
export function ListTable<T extends { readonly id: string }>(props: ListProps<T>): JSX.Element {
  const { list, empty, isFiltered = false, ...table } = props;
  const { items, status, problem, hasMore, isLoadingMore, loadMore, reload, asOf } = list;
  if (status === "loading") return <Loading />;
  if (status === "failed") return <Problem message={problem} onRetry={reload} />;
  return (
    <>
      {problem ? <StaleNote problem={problem} asOf={asOf} onRetry={reload} /> : null}
      {items.length > 0 ? <Table {...table} rows={items} /> : null}
      {items.length === 0 ? isFiltered ? <p class="dim">Nothing matches these filters.</p> : empty : null}
      {hasMore ? (
        <p class="table-more">
          <Button onClick={loadMore} isBusy={isLoadingMore}>
            Load more
          </Button>
        </p>
      ) : null}
    </>
  );
}

function StaleNote({
  problem,
  asOf,
  onRetry,
}: {
  readonly problem: string;
  readonly asOf: number;
  readonly onRetry: () => void;
}): JSX.Element {
  return (
    <div class="stale-note" role="status">
      <p>
        As of <Time at={asOf} />. {problem}
      </p>
      <Button look="quiet" icon="refresh" onClick={onRetry}>
        Try again
      </Button>
    </div>
  );
}

/** Names and values of one object. Values that are null or undefined are left out. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: ComponentChildren])[];
}): JSX.Element {
  const shown = facts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
