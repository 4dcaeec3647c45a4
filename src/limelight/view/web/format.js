// Formats tokens and numbers for display.

const WORD_START = "▁"; // SentencePiece marks the first piece of a word with it

// Subword tokens: the mark of a first piece is removed, and following pieces get a dot: "ma", "·les", ",".
// Tokens are left as they are if none of `among` has the mark.
export function displayTokens(tokens, among = tokens) {
  if (!among.some((token) => token.startsWith(WORD_START))) return [...tokens];
  return tokens.map((token) => {
    if (token.startsWith(WORD_START)) return token.slice(WORD_START.length) || "␣";
    return /^[\p{L}\p{N}]/u.test(token) ? `·${token}` : token;
  });
}

// Whitespace and the empty token get a visible symbol; long tokens are cut.
export function displayToken(token, maxLength = 24) {
  const text = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ +$/, "␣") || "∅";
  const characters = Array.from(text.slice(0, 2 * maxLength + 2)); // a character has one or two code units
  return characters.length > maxLength ? `${characters.slice(0, maxLength - 1).join("")}…` : text;
}

// Text without a visible character gets symbols.
export function displayText(text) {
  return text.trim() ? text : text.replace(/ /g, "␣").replace(/\n/g, "↵");
}

export function quoted(token) {
  return `“${displayToken(token)}”`;
}

// Only 0 and 1 are shown as 0.0 % and 100.0 %.
export function percent(probability) {
  const value = 100 * probability;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value > 99.9 && value < 100) return "> 99.9 %";
  return `${value.toFixed(1)} %`;
}
