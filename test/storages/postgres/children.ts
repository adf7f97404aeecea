import { ChildOf } from "../child.ts";

/** A process of its own that runs `<name>.child.ts`. */
export class Child extends ChildOf {
  constructor(name: string, ...args: string[]) {
    super(new URL(`${name}.child.ts`, import.meta.url), ...args);
  }
}
