// Outputs that consist of one prediction per token (a step). Pure functions.
import { displayTokens } from "./format.js";
import { atTemperature, isText } from "./next_tokens.js";

// Whether the record has one step for each token of the side `record.stepped`.
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

// The step after a key press; null if the key is not handled.
export function stepBy(key, step, count) {
  const next = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: count - 1 }[key];
  return next === undefined ? null : clampStep(next, count);
}

// A filter for the maps whose queries are the steps; for a translation, only cross-attention.
export function isStepMap(record) {
  return ({ map }) => map.queries === record.stepped && (!isTranslation(record) || map.keys === "source");
}

// The output tokens before, at and after a step; of a language model, the tokens of the text.
export function outputAt(record, step) {
  const tokens = isTranslation(record) || isText(record)
    ? displayTokens(record.sides[record.stepped])
    : record.steps.map((candidates) => candidates[0]?.text ?? "");
  return { before: tokens.slice(0, step), current: tokens[step], after: tokens.slice(step + 1) };
}

export function candidatesAt(record, step, temperature = 1) {
  if (isText(record)) return atTemperature(record, step, temperature).candidates;
  const candidates = record.steps[step];
  // Labels of subwords are not subwords themselves.
  const among = isTranslation(record) ? record.sides.target : record.steps.flat().map(({ text }) => text);
  const texts = displayTokens(
    candidates.map(({ text }) => text),
    among,
  );
  return candidates.map(({ probability }, i) => ({ text: texts[i], probability }));
}
