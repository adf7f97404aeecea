/** The same object, with every call of one of its methods counted. */
export function counted<T extends object>(target: T, calls: { count: number }): T {
  return new Proxy(target, {
    get(object, key) {
      const value: unknown = Reflect.get(object, key, object);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        calls.count += 1;
        return Reflect.apply(value, object, args);
      };
    },
  });
}
