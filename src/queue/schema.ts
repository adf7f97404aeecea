import { OptionsError } from "../core/errors.ts";
import { hasMethods } from "../core/options.ts";

/** The part of the Standard Schema interface that is used: zod, valibot, arktype and others implement it. */
export interface StandardSchema {
  readonly "~standard": {
    readonly validate: (value: unknown) => SchemaResult | Promise<SchemaResult>;
  };
}

type SchemaResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Looks up the schema of a type. Users choose the names of types: `constructor` is a valid one. */
export function readSchemas(owner: string, schemas: unknown): ReadonlyMap<string, StandardSchema> {
  if (typeof schemas !== "object" || schemas === null) throw new OptionsError(owner, "schemas", schemas, "an object");
  const read = new Map<string, StandardSchema>();
  for (const [type, schema] of Object.entries(schemas)) {
    const standard: unknown = (schema as { "~standard"?: unknown } | null)?.["~standard"];
    if (!hasMethods(standard, ["validate"])) {
      throw new OptionsError(owner, `schemas.${type}`, schema, "a schema that follows Standard Schema");
    }
    read.set(type, schema as StandardSchema);
  }
  return read;
}

/** The output of the schema for `data`, or an error with all its issues. */
export async function validate(owner: string, schema: StandardSchema, type: string, data: unknown): Promise<unknown> {
  const result = await schema["~standard"].validate(data);
  if (result.issues === undefined) return result.value;
  const [first] = result.issues;
  const path = (first?.path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
  const said = result.issues.map(({ message }) => message).join("; ");
  throw new OptionsError(owner, ["data", ...path].join("."), data, `what the schema of "${type}" allows`, said);
}
