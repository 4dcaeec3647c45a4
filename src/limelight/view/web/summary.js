// The summary of a record: input, prediction, probability, and whether the prediction is correct.
import { bars } from "./bars.js";
import { make } from "./dom.js";
import { percent } from "./format.js";
import { isStepped, isTranslation } from "./steps.js";

export function summary(record) {
  const node = make("div", { class: "summary" });
  if (record.image) {
    const source = `data:image/png;base64,${record.image.png}`;
    node.append(make("img", { class: "given-image", src: source, alt: record.given || "input image" }));
  }
  const given = record.given ? [part("input", make("p", { class: "given" }, record.given))] : [];
  // A translation that differs from the reference may still be correct: both are shown, without a verdict.
  const differs = isTranslation(record) && record.truth !== null && !record.right;
  const reference = differs ? [part("reference", make("p", { class: "given" }, record.truth))] : [];
  // A model of unknown purpose has no answer.
  const predicted = record.answer || record.truth !== null ? [part("prediction", prediction(record))] : [];
  node.append(make("div", { class: "texts" }, ...given, ...predicted, ...reference));
  if (record.candidates.length && !isStepped(record)) {
    node.append(make("div", { class: "likely" }, bars(record.candidates, { chosen: record.answer })));
  }
  return node;
}

function part(label, content) {
  return make("div", {}, make("span", { class: "label" }, label), content);
}

function prediction(record) {
  const { answer: text, probability, truth } = record;
  const line = make("p", { class: "answer" }, make("strong", {}, text));
  if (probability !== null) line.append(" ", make("span", { class: "muted number" }, percent(probability)));
  if (truth !== null && (record.right || !isTranslation(record))) {
    const [name, judgement] = verdict(record);
    line.append(" ", make("span", { class: `verdict ${name}` }, judgement));
  }
  return line;
}

// right is null for real numbers, which are neither correct nor wrong: only the expected value is shown.
export function verdict({ right, truth }) {
  if (right === null) return ["muted", `expected ${truth}`];
  return right ? ["right", "✓ correct"] : ["wrong", `✗ expected ${truth}`];
}

// The text of a record in the list of examples.
export function shortLabel(record, number) {
  const given = record.given || `image, predicted ${record.answer}`;
  const cut = given.length > 48 ? `${given.slice(0, 47)}…` : given;
  const isJudged = record.right !== null && !isTranslation(record);
  return `${number + 1}. ${cut}${isJudged ? (record.right ? " ✓" : " ✗") : ""}`;
}
