import { describe, expect, it } from "vitest";
import { scrub, scrubAddresses } from "../../src/core/scrub.ts";

const JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";

/** A text, what must be gone, and what must stay. */
const SECRETS: [text: string, gone: RegExp, stays?: string][] = [
  // Addresses
  ["postgres://me:s3cret@host/db", /s3cret|me:/, "@host/db"],
  ["mysql+pymysql://root:p%40ss@10.0.0.1:3306", /p%40ss/, "@10.0.0.1:3306"],
  ["postgres://u:pa/ss@h/db", /pa\/ss/],
  ["postgres://u:p@ss@h/db", /p@ss|ss@h/],
  ["postgres://u:p#ss?@h/db", /p#ss/],
  [`postgres://u:${"p".repeat(2_000)}@h/db`, /ppp/],
  ["https://ann:pa/ss@example.com", /pa\/ss/],
  ["/app/postgres:/ann:s3cret@host/db", /s3cret/, "@host/db"],
  ["postgres://host/db?user=ann&password=s3cret&x=1", /s3cret/, "&x=1"],
  ["host=h user=ann password=s3cret dbname=d", /s3cret/, "dbname=d"],
  ["host=h password = 'it\\'s s3cret' dbname=d", /s3cret|it/, "dbname=d"],
  ["host=h password=it\\ s3cret dbname=d", /s3cret/, "dbname=d"],
  // Headers
  ["Authorization: Bearer eyJhbGciOi.J9", /eyJ/],
  ["Authorization: token abcdef123", /abcdef123/],
  ["authorization: Digest username=ann, response=6629fae4\nHost: x", /6629fae4|ann/, "Host: x"],
  ["bad answer to Bearer abc123def456 (401)", /abc123/, "(401)"],
  ["Cookie: sid=31d4d96e407aad42; theme=dark\nHost: x", /31d4d96e|dark/, "Host: x"],
  ["Set-Cookie: sid=31d4d96e407aad42; HttpOnly", /31d4d96e/],
  ["{ 'set-cookie': [ 'sid=31d4d96e; Path=/', 'b=2' ], age: 1 }", /31d4d96e|b=2/, "age: 1"],
  ['{"cookie":"sid=31d4d96e","age":1}', /31d4d96e/, '"age":1'],
  // Names and values
  ['{"password":"hunter2","api_key": "sk-12345"}', /hunter2|sk-12345/],
  ['{"body":"{\\"password\\":\\"hunter2\\",\\"age\\":1}"}', /hunter2/, '\\"age\\":1'],
  ['{\\"password\\": \\"hun\\\\\\"ter2\\", \\"age\\": 1}', /hun|ter2/, '\\"age\\": 1'],
  ['{\\\\\\"client_secret\\\\\\":\\\\\\"hunter2\\\\\\",', /hunter2/],
  ['{"password":"hun\\"ter2","age":1}', /hun|ter2/, '"age":1'],
  [`password="${"hunter2 ".repeat(500)}" age=1`, /hunter2/, "age=1"],
  [`password='hunter2 and no end`, /hunter2/],
  ["https://api.example.com/?token=abc123&x=1", /abc123/, "&x=1"],
  ["https://x.blob.core.windows.net/a?sv=2022&sig=abc%2F123%3D&se=1", /abc%2F/, "&se=1"],
  ["https://s3.amazonaws.com/b?X-Amz-Signature=abc123&x=1", /abc123/, "&x=1"],
  ["DB_PASSWORD=hunter2 client_secret=abc123 AWS_SECRET_ACCESS_KEY=wJalr", /hunter2|abc123|wJalr/],
  ['password: "two words"', /two|words/],
  ["command failed: pg_dump --password hunter2 --host h", /hunter2/, "--host h"],
  ["command failed: x --api-key 'hun ter2' --db-password=hunter3 -v", /hun|ter/, "-v"],
  // Shapes
  ["Incorrect API key provided: sk-proj-abc123DEF456ghi789", /abc123/, "Incorrect API key provided: "],
  ["got sk-12345, sk_live_51H8abcDEF and sk-ant-api03-xYz", /12345|51H8|api03/],
  [`jwt malformed: ${JWT}`, /eyJ|dozjg/, "jwt malformed: "],
  ["AKIAIOSFODNN7EXAMPLE is not authorized", /AKIA/, "is not authorized"],
  ["ghp_16C7e42F292c6912E7710c838347Ae178B4a, github_pat_11ABCDEFG0123456789_abcdef", /16C7|11AB/],
  ["xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzzqgy and xoxp-1234567890-abc", /xoxb-1|xoxp-1/],
  ["-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----\nafter", /MIIEow/, "after"],
];

const PLAIN = [
  "request to https://api.example.com/users failed: 500",
  "GET https://registry.npmjs.org/@scope/pkg - Not found",
  "no such user: https://example.com:8443/users/ann@example.com",
  "connect ECONNREFUSED 127.0.0.1:5432",
  "task-skeleton, risk-free, sk-learn-classifier, disk_usage",
  "max_tokens: 4096, prompt_tokens=12, token_count: 7, tokens: 3",
  "Unexpected token } in JSON at position 3",
  "the token expired yesterday; basic authentication is required, bearer missing",
  "the option --password is required, and --token must be a string",
  "design=modern, config=a, assign=b, signature: invalid, code=23505",
  'duplicate key value violates unique constraint "jobs_pkey"',
  "the cookie was eaten, the secret is out, cookies are good",
  "keyboard: eyJust a word. eyJ. and AKIA",
  "a@b.example wrote to c@d.example at 12:30",
];

describe("scrubbing", () => {
  it.each(SECRETS)("takes the secret out of %s", (text, gone, stays = "") => {
    const scrubbed = scrub(text);
    expect(scrubbed).not.toMatch(gone);
    expect(scrubbed).toContain("***");
    expect(scrubbed).toContain(stays);
    expect(scrub(scrubbed)).not.toMatch(gone);
  });

  it.each(PLAIN)("leaves plain text as it is: %s", (text) => expect(scrub(text)).toBe(text));

  it("scrubbing of addresses alone leaves names of limits readable", () => {
    expect(scrubAddresses('the limit "token": max is 10, "secret=a"')).toBe('the limit "token": max is 10, "secret=a"');
    for (const [text, gone] of SECRETS.slice(0, 12)) expect(scrubAddresses(text)).not.toMatch(gone);
  });

  // A megabyte takes a fraction of a second where the time is linear, and hours where it is quadratic.
  it.each([
    ...'a: :// a:// http://a http://a: password= password=" password=\\ --a-a- sk- sk-a -eyJ eyJaaaaa. eyJaaaaa.a'.split(
      " ",
    ),
    ...'xoxb- ghp_ AKIA cookie: cookie:[ sig= @ \\ \\" " \''.split(" "),
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "bearer ",
    "--password ",
    "password ",
    "postgres://u:p@",
    "a://x:y ",
    "x",
  ])("ends for a megabyte of %s", (part) => {
    expect(typeof scrub(part.repeat(Math.ceil(1_000_000 / part.length)))).toBe("string");
    expect(typeof scrubAddresses(part.repeat(Math.ceil(1_000_000 / part.length)))).toBe("string");
  });
});
