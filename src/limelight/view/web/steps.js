// An answer that came token by token: where one is and what was looked at there. Arithmetic only.
import { wordsOf } from "./words.js";

// Steps belong to the tokens of one side; only maps in which that side looks can tell what it looked at.
export function isStepped(record) {
  const tokens = record.sides[record.stepped];
  return Boolean(tokens && tokens.length && record.steps.length === tokens.length);
}

export function isTranslation(record) {
  return isStepped(record) && record.stepped === "target";
}

export function clampStep(step, count) {
  if (!Number.isInteger(step)) return 0;
  return Math.min(Math.max(step, 0), count - 1);
}

export function stepBy(key, step, count) {
  const moved = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: count - 1 }[key];
  return moved === undefined ? null : clampStep(moved, count);
}

// A translation is shown by what it looks at in its source; others by what they look at at all.
export function stepMap(record) {
  return ({ map }) => map.queries === record.stepped && (!isTranslation(record) || map.keys === "source");
}

// What stands there, what is being written and what is still to come.
export function writtenAt(record, step) {
  const tokens = isTranslation(record)
    ? wordsOf(record.sides.target)
    : record.steps.map((likely) => likely[0]?.text ?? "");
  return { before: tokens.slice(0, step), now: tokens[step], after: tokens.slice(step + 1) };
}

export function candidatesAt(record, step) {
  const likely = record.steps[step];
  const words = wordsOf(
    likely.map(({ text }) => text),
    record.sides[record.stepped],
  );
  return likely.map(({ probability }, i) => ({ text: words[i], probability }));
}
