/** How often the model of a server was asked: shows the bench that the work behind an answer was done. */
export const modelCalls = { count: 0 };
