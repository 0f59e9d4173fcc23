/** Sessions whose leave is remembered; the longest unused go first, and ask again. */
const MAX_SESSIONS = 1000;

/** What somebody allowed for the rest of a session: signatures of the policy, kept in this process only. */
export class Grants {
  readonly #bySession = new Map<string, Set<string>>();

  of(sessionId: string): Set<string> {
    const grants = this.#bySession.get(sessionId) ?? new Set<string>();
    this.#bySession.delete(sessionId);
    this.#bySession.set(sessionId, grants);
    if (this.#bySession.size > MAX_SESSIONS) {
      const [oldest] = this.#bySession.keys();
      if (oldest !== undefined) this.#bySession.delete(oldest);
    }
    return grants;
  }
}
