export { type IJobExecuteContext, Job, type JobClass, type JobFields } from "./job.ts";
export { JobHandle, type JobProgressListener } from "./job-handle.ts";
export { type JobDetails, JobQueueClient, type JobQueueClientOptions, type SubmitOptions } from "./job-queue-client.ts";
export { JobQueueServer } from "./job-queue-server.ts";
export type { JobQueueServerOptions } from "./options.ts";
export type { JobQueueStats } from "./stats.ts";
