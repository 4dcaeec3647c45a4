// A list of candidates with a bar for the probability of each.
import { make } from "./dom.js";
import { displayToken, percent } from "./format.js";

export function bars(candidates, { chosen = null, maxLength = 60 } = {}) {
  const list = make("ol", { class: "bars" });
  for (const { text, probability } of candidates) {
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", {}));
    bar.firstChild.style.width = `${Math.min(100, Math.max(0, 100 * probability))}%`;
    const isChosen = text === chosen;
    const name = make("span", { class: "bar-text", title: text }, displayToken(text, maxLength));
    list.append(
      make(
        "li",
        { class: isChosen ? "chosen" : "" },
        name,
        bar,
        make("span", { class: "number" }, percent(probability)),
      ),
    );
  }
  return list;
}
