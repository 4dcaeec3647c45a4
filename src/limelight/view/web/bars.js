// A list of candidates with a bar for the probability of each. With `onChoose`, each is a button.
import { make } from "./dom.js";
import { displayToken, percent } from "./format.js";

export function bars(candidates, { chosen = null, maxLength = 60, onChoose = null } = {}) {
  const list = make("ol", { class: "bars" });
  for (const [i, { text, probability }] of candidates.entries()) {
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", {}));
    bar.firstChild.style.width = `${Math.min(100, Math.max(0, 100 * probability))}%`;
    const isChosen = text === chosen;
    const name = make("span", { class: "bar-text", title: text }, displayToken(text, maxLength));
    const parts = [name, bar, make("span", { class: "number" }, percent(probability))];
    const button = () =>
      make("button", { type: "button", class: "candidate", click: () => onChoose(i) }, ...parts);
    list.append(make("li", { class: isChosen ? "chosen" : "" }, ...(onChoose ? [button()] : parts)));
  }
  return list;
}
