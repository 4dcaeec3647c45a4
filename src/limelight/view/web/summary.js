// What was given, what the model said of it, how sure it is and whether that was right.
import { bars } from "./bars.js";
import { make } from "./dom.js";
import { isStepped, isTranslation } from "./steps.js";
import { percent } from "./words.js";

export function summary(record) {
  const node = make("div", { class: "summary" });
  if (record.image) {
    const source = `data:image/png;base64,${record.image.png}`;
    node.append(
      make("img", { class: "given-image", src: source, alt: record.given || "the picture that was given" }),
    );
  }
  const given = record.given ? [part("given", make("p", { class: "given" }, record.given))] : [];
  // Another translation than the reference may be as good: it is no mistake.
  const isOther = isTranslation(record) && record.truth !== null && !record.right;
  const reference = isOther ? [part("reference", make("p", { class: "given" }, record.truth))] : [];
  node.append(make("div", { class: "words" }, ...given, part("answer", answer(record)), ...reference));
  if (record.candidates.length && !isStepped(record)) {
    node.append(make("div", { class: "likely" }, bars(record.candidates, { chosen: record.answer })));
  }
  return node;
}

function part(label, content) {
  return make("div", {}, make("span", { class: "label" }, label), content);
}

function answer(record) {
  const { answer: text, probability, truth } = record;
  const line = make("p", { class: "answer" }, make("strong", {}, text));
  if (probability !== null) line.append(" ", make("span", { class: "muted number" }, percent(probability)));
  if (truth !== null && (record.right || !isTranslation(record))) {
    const [name, words] = verdict(record);
    line.append(" ", make("span", { class: `verdict ${name}` }, words));
  }
  return line;
}

// Of a number that is not whole nobody can say how near is right: it stands beside the true one.
export function verdict({ right, truth }) {
  if (right === null) return ["muted", `expected ${truth}`];
  return right ? ["right", "✓ right"] : ["wrong", `✗ expected ${truth}`];
}

export function shortly(record, number) {
  const given = record.given || `picture of ${record.answer}`;
  const cut = given.length > 48 ? `${given.slice(0, 47)}…` : given;
  const isJudged = record.right !== null && !isTranslation(record);
  return `${number + 1}. ${cut}${isJudged ? (record.right ? " ✓" : " ✗") : ""}`;
}
