// The probabilities of the next token at a temperature. Pure functions.

const ROUNDING = 2e-5; // error of a sum: the totals of a record have six digits

// Whether the record is that of a language model, whose text can go on.
export function isText(record) {
  return Boolean(record.continuation);
}

// The temperatures that can be chosen: 0 always takes the most likely token.
export function temperaturesOf({ continuation }) {
  return [0, ...continuation.temperatures];
}

// The position of the nearest of these temperatures.
export function nearest(temperatures, temperature) {
  const distances = temperatures.map((one) => Math.abs(one - temperature));
  return distances.indexOf(Math.min(...distances));
}

// The candidates after a token, and the probability of all other tokens. This is exact: the record has the
// sum over the whole vocabulary for each temperature.
export function atTemperature(record, step, temperature) {
  const candidates = record.steps[step];
  const { temperatures, totals } = record.continuation;
  const position = nearest([0, ...temperatures], temperature);
  const [{ probability: largest }] = candidates;
  const share = ({ probability }) =>
    (probability / largest) ** (1 / temperatures[position - 1]) / totals[step][position - 1];
  const shown = candidates.map((candidate, i) => ({
    text: candidate.text,
    probability: position === 0 ? Number(i === 0) : share(candidate),
  }));
  const sum = shown.reduce((total, { probability }) => total + probability, 0);
  return { candidates: shown, rest: 1 - sum < ROUNDING ? 0 : 1 - sum };
}
