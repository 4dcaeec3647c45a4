// Statistics of a head: its entropy, and badges that name the position it attends to.
import { ALL } from "./decode.js";

const THRESHOLD = 0.5; // mean weight over the rows that a pattern needs for a badge

const SELF_ATTENTION = [
  { name: "previous", column: (row) => row - 1 },
  { name: "itself", column: (row) => row },
  { name: "next", column: (row) => row + 1 },
  { name: "first", column: () => 0 },
];

// Row t of a decoder generates target[t] and attends to written[0] … written[t]. As written[t] is the token
// before target[t], the same index is "previous", and the index before it "second to last".
const DECODER = [
  { name: "previous", column: (row) => row },
  { name: "second to last", column: (row) => row - 1 },
  { name: "first", column: () => 0 },
];

// Returns the entropy, normalised by the entropy of uniform weights, and the patterns above the threshold.
export function badgesOf(weights, head) {
  const counts = allowedKeys(weights);
  const rows = Array.from({ length: weights.rows }, (_, row) => row).filter((row) => counts[row] > 1);
  const lines = rows.map((row) => weights.row(head, row));
  return {
    entropy: mean(lines.map((line, i) => entropy(line) / Math.log(counts[rows[i]]))),
    patterns: patternsFor(weights.map)
      .map(({ name, column }) => ({ name, share: shareOf(rows, lines, column) }))
      .filter(({ share }) => share >= THRESHOLD),
  };
}

export function entropy(row) {
  let sum = 0;
  for (let i = 0; i < row.length; i += 1) if (row[i] > 0) sum -= row[i] * Math.log(row[i]);
  return sum;
}

// The number of keys that each row may attend to. A row with only one key says nothing about a head.
export function allowedKeys(weights) {
  const causal = isCausal(weights);
  return Array.from({ length: weights.rows }, (_, row) => (causal ? row + 1 : weights.columns));
}

function isCausal({ rows, columns, heads, counts }) {
  if (rows !== columns || rows < 2) return false;
  for (let line = 0; line < heads * rows; line += 1) {
    const later = counts.subarray(line * columns + (line % rows) + 1, (line + 1) * columns);
    if (later.some((count) => count > 0)) return false;
  }
  return true;
}

function patternsFor({ queries, keys }) {
  if (queries === keys) return SELF_ATTENTION;
  return queries === "target" && keys === "written" ? DECODER : [];
}

// The mean weight over the rows that have such a column: the first token has no previous one.
function shareOf(rows, lines, column) {
  const found = lines.map((line, i) => line[column(rows[i])]).filter((weight) => weight !== undefined);
  return mean(found);
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
}

// Heads in the order of the model, or (sort "focused") by increasing entropy and without the mean over heads.
export function sortHeads(heads, sort) {
  if (sort !== "focused") return heads;
  return heads.filter(({ head }) => head !== ALL).sort((a, b) => a.badges.entropy - b.badges.entropy);
}

export function describeBadges({ entropy: value, patterns }) {
  const names = patterns.map(({ name }) => name).join(", ");
  return `entropy ${value.toFixed(2)}${names ? `, attends mostly to: ${names}` : ""}`;
}
