import type { LimitRule } from "./rule.ts";

/** The rules that a claim runs under. */
export class ClaimRules {
  readonly #index: RuleIndex;
  readonly #kept: readonly LimitRule[];
  readonly #own: readonly LimitRule[];
  readonly #lists = new Map<readonly LimitRule[], readonly LimitRule[]>();
  #shares: boolean | undefined;
  #blocks: boolean | undefined;

  /** `kept`: those of the index that hold for its types. `own`: those that it brings along, which hold for all types. */
  constructor(index: RuleIndex, kept: readonly LimitRule[], own: readonly LimitRule[]) {
    this.#index = index;
    this.#kept = kept;
    this.#own = own;
  }

  get all(): readonly LimitRule[] {
    return this.#with(this.#kept);
  }

  /** Those that hold for all types. */
  get forAll(): readonly LimitRule[] {
    return this.#with(this.#index.forAll);
  }

  /** Those that hold for one of its types. Types under the same rules have the same list. */
  of(type: string): readonly LimitRule[] {
    return this.#with(this.#index.of(type));
  }

  #with(kept: readonly LimitRule[]): readonly LimitRule[] {
    if (this.#own.length === 0) return kept;
    let list = this.#lists.get(kept);
    if (list === undefined) this.#lists.set(kept, (list = [...kept, ...this.#own]));
    return list;
  }

  /** Does a rule give some groups a larger share of the starts? */
  get shares(): boolean {
    return (this.#shares ??= this.#kept.some(({ groups }) =>
      Object.values(groups).some(({ share }) => share !== undefined),
    ));
  }

  /** May lanes stand at gates of a rule? */
  get blocks(): boolean {
    return (this.#blocks ??= this.#kept.some(({ byGroup, weight }) => byGroup || weight !== null));
  }
}

/** The rules of one queue, which do not change, by type: a look-up takes no longer where there are more rules for other types. */
export class RuleIndex {
  readonly forAll: readonly LimitRule[];
  readonly #rules: readonly LimitRule[];
  /** Of rules for all types, and of rules that name a type: their places in `#rules`. */
  readonly #ofAll: readonly number[];
  readonly #named = new Map<string, number[]>();
  readonly #types = new Map<string, readonly LimitRule[]>();
  readonly #lists = new Map<string, readonly LimitRule[]>();
  readonly #any: ClaimRules;

  constructor(rules: readonly LimitRule[]) {
    this.#rules = rules;
    this.forAll = rules.filter(({ types }) => types === null);
    this.#ofAll = Array.from(rules.keys()).filter((place) => rules[place]!.types === null);
    for (const [place, { types }] of rules.entries()) {
      for (const type of new Set(types)) {
        const places = this.#named.get(type);
        if (places === undefined) this.#named.set(type, [place]);
        else places.push(place);
      }
    }
    this.#any = new ClaimRules(this, rules, []);
  }

  /** Those that hold for this type. Types under the same rules have the same list. */
  of(type: string): readonly LimitRule[] {
    const places = this.#named.get(type);
    if (places === undefined) return this.forAll;
    let rules = this.#types.get(type);
    if (rules === undefined) {
      const key = places.join(" ");
      rules = this.#lists.get(key) ?? this.#at([...this.#ofAll, ...places]);
      this.#lists.set(key, rules);
      this.#types.set(type, rules);
    }
    return rules;
  }

  /** What a claim of these types (null: any) runs under. `own`: the rules that it brings along. */
  forClaim(types: readonly string[] | null, own: readonly LimitRule[]): ClaimRules {
    if (types === null && own.length === 0) return this.#any;
    return new ClaimRules(this, types === null ? this.#rules : this.#ofAny(types), own);
  }

  #ofAny(types: readonly string[]): readonly LimitRule[] {
    if (this.#named.size === 0) return this.forAll;
    if (types.length === 1) return this.of(types[0]!);
    const places = new Set(this.#ofAll);
    for (const type of types) for (const place of this.#named.get(type) ?? []) places.add(place);
    return this.#at([...places]);
  }

  #at(places: readonly number[]): readonly LimitRule[] {
    return places.toSorted((a, b) => a - b).map((place) => this.#rules[place]!);
  }
}

/** All rules in force, by queue and type. */
export class RulesInForce {
  readonly #rules: readonly LimitRule[];
  /** One for each queue that a rule names. Others have one in common. */
  readonly #queues = new Map<string, RuleIndex>();
  #others: RuleIndex | undefined;
  #named: ReadonlySet<string> | undefined;

  constructor(rules: readonly LimitRule[]) {
    this.#rules = rules;
  }

  of(queue: string): RuleIndex {
    this.#named ??= new Set(this.#rules.flatMap(({ queues }) => queues ?? []));
    if (!this.#named.has(queue)) {
      return (this.#others ??= new RuleIndex(this.#rules.filter(({ queues }) => queues === null)));
    }
    let index = this.#queues.get(queue);
    if (index === undefined) {
      index = new RuleIndex(this.#rules.filter(({ queues }) => queues === null || queues.includes(queue)));
      this.#queues.set(queue, index);
    }
    return index;
  }
}
