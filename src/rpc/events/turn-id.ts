/** A turn is a run; hosts know it by a name of their own form. */
export function turnIdOf(runId: string): string {
  return `turn_${runId.replace(/^run_/, "")}`;
}

/** The run that a turn is. Whatever else is given names no run. */
export function runIdOf(turnId: string): string {
  return `run_${turnId.replace(/^(?:turn|run)_/, "")}`;
}

/** A background prompt, as hosts know it. */
export function taskIdOf(runId: string): string {
  return `bg_${runId.replace(/^run_/, "")}`;
}
