import { SECRET } from "./support.ts";

/** Addresses as people give them by mistake. No server listens at port 1. */
export const ADDRESSES = [
  `postgres://ann:${SECRET}@127.0.0.1:1/x`,
  ` postgres://ann:${SECRET}@127.0.0.1:1/x`,
  `"postgres://ann:${SECRET}@127.0.0.1:1/x"`,
  `'postgres://ann:${SECRET}@127.0.0.1:1/x'`,
  `“postgres://ann:${SECRET}@127.0.0.1:1/x”`,
  `url=postgres://ann:${SECRET}@127.0.0.1:1/x`,
  `POSTGRES://ann:${SECRET}@127.0.0.1:1/x`,
  `postgres:/ann:${SECRET}@127.0.0.1:1/x`,
  `postgres:ann:${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:pa@${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:pa ss"${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:12#${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:12/${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:12?${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:a@b/${SECRET}@127.0.0.1:1/x`,
  `postgres://ann:${SECRET}%@127.0.0.1:1/x`,
  `postgres://ann:${SECRET}${"long".repeat(40)}@127.0.0.1:1/x`,
  `postgres://127.0.0.1:1/x?user=ann&password=${SECRET}`,
  `jdbc:postgresql://127.0.0.1:1/x?user=ann&password=${SECRET}`,
  `mysql://ann:${SECRET}@127.0.0.1:1/x`,
  `host=127.0.0.1 port=1 user=ann password=${SECRET} dbname=x`,
  `host=127.0.0.1 port=1 password = 'it\\'s ${SECRET}' dbname=x`,
  `"password=${SECRET} host=127.0.0.1"`,
];

/** These may be names of jobs and limits too: they are addresses where one is expected. */
export const WITHOUT_SCHEME = [`ann:${SECRET}@127.0.0.1:1/x`, `127.0.0.1:1:x:ann:${SECRET}`];
