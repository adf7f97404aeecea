export { FakeClock } from "./fake-clock.ts";
export {
  type Fault,
  type FaultPlan,
  type FaultyCall,
  type FaultyMember,
  type FaultyStorage,
  faultyStorage,
  type FaultyStorageOptions,
} from "./faulty-storage.ts";
export { type OpenedStorage, type StorageCase, type StorageSuiteOptions, storageSuite } from "./storage-suite.ts";
