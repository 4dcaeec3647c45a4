// Helpers to create elements. Strings become text nodes, so that markup in a token is shown as text.

// attributes: functions become event listeners, true an empty attribute; false and null are left out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// options: [{ value, text }]; onChange receives the value.
export function labelledSelect(label, options, chosen, onChange) {
  const select = make("select", { change: () => onChange(options[select.selectedIndex].value) });
  for (const { value, text } of options) select.append(make("option", { selected: value === chosen }, text));
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

let lastId = 0;

export function newId(name) {
  lastId += 1;
  return `${name}-${lastId}`;
}
