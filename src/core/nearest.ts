/** The known word that a misspelt one most likely meant, if any is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  if (word === "" || word.length > 64) return undefined;
  const farthest = Math.max(1, Math.floor(word.length / 3));
  let found: string | undefined;
  let least = Infinity;
  for (const candidate of known) {
    const letters = distance(word.toLowerCase(), candidate.toLowerCase());
    if (letters >= least || (letters > farthest && !candidate.startsWith(word))) continue;
    found = candidate;
    least = letters;
  }
  return found;
}

/** How many letters must be added, dropped, changed or swapped with their neighbour to get from `a` to `b`. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      next.push(Math.min(change, row[j]! + 1, next[j - 1]! + 1, swapped ? before[j - 2]! + 1 : Infinity));
    }
    before = row;
    row = next;
  }
  return row[b.length]!;
}
