/** The operations of scheduled jobs. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";
import type { RunSubscribers } from "../runs/read.ts";

type Names =
  | "listJobs"
  | "getJob"
  | "createJob"
  | "updateJob"
  | "deleteJob"
  | "pauseJob"
  | "resumeJob"
  | "listJobTimes"
  | "getScheduler"
  | "runJob"
  | "listOccurrences"
  | "getOccurrence"
  | "getOccurrenceOutput"
  | "getCalendar";

const jobs = () => import("./jobs.ts");
const occurrences = () => import("./occurrences.ts");
const calendar = () => import("./calendar.ts");

export function jobHandlers(
  deps: HttpDeps,
  subscribers: RunSubscribers,
): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    listJobs: async (request) => (await jobs()).listJobs(request, deps),
    getJob: async (request) => (await jobs()).getJob(request, deps),
    createJob: async (request) => (await jobs()).createJob(request, deps),
    updateJob: async (request) => (await jobs()).updateJob(request, deps),
    deleteJob: async (request) => (await jobs()).deleteJob(request, deps),
    pauseJob: async (request) => (await jobs()).pauseJob(request, deps),
    resumeJob: async (request) => (await jobs()).resumeJob(request, deps),
    listJobTimes: async (request) => (await jobs()).listJobTimes(request, deps),
    getScheduler: async (request) => (await jobs()).getScheduler(request, deps),
    runJob: async (request) => (await jobs()).runJob(request, deps, subscribers),
    listOccurrences: async (request) => (await occurrences()).listOccurrences(request, deps),
    getOccurrence: async (request) => (await occurrences()).getOccurrence(request, deps),
    getOccurrenceOutput: async (request) => (await occurrences()).getOccurrenceOutput(request, deps),
    getCalendar: async (request) => (await calendar()).getCalendar(request, deps),
  };
}
