// How tokens are written for a reader.

const WORD = "▁"; // with it SentencePiece begins a word

// Of pieces of words, those that begin one lose their mark, and letters that go on get a dot: "ma" "·les" ",".
export function wordsOf(tokens, among = tokens) {
  if (!among.some((token) => token.startsWith(WORD))) return [...tokens];
  return tokens.map((token) => {
    if (token.startsWith(WORD)) return token.slice(WORD.length) || "␣";
    return /^[\p{L}\p{N}]/u.test(token) ? `·${token}` : token;
  });
}

// What cannot be seen gets a sign, and what would fill the screen is cut.
export function visible(token, longest = 24) {
  const text = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
  const letters = Array.from(text.slice(0, 2 * longest + 2)); // of which a letter takes one or two
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : text;
}

export function quoted(token) {
  return `“${visible(token)}”`;
}

// Neither rounded up to certainty nor down to nothing.
export function percent(probability) {
  const value = 100 * probability;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value.toFixed(1)} %`;
}
