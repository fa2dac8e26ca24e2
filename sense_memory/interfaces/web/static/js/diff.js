// What changed between two versions of a text, by words.

const MAX_WORDS = 1500; // of both texts together; longer ones are shown whole, because the table grows with the product

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** Pieces [kind, text] of the way from one text to another: "same", "gone" or "new". */
export function difference(before, after) {
  const one = words(before), other = words(after);
  let start = 0, end = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  const [left, right] = [one.slice(start, one.length - end), other.slice(start, other.length - end)];
  const pieces = start ? [["same", one.slice(0, start).join("")]] : [];
  pieces.push(...(left.length + right.length > MAX_WORDS ? whole(left, right) : middle(left, right)));
  if (end) pieces.push(["same", one.slice(one.length - end).join("")]);
  return joined(quiet(joined(pieces)));
}

/** Merge changes that have only a few letters in common by chance, because these would be hard to read. */
function quiet(pieces) {
  return pieces.flatMap(([kind, text], place) => {
    const isBetween = kind === "same" && place > 0 && place < pieces.length - 1 && text.trim().length < 4;
    return isBetween ? [["gone", text], ["new", text]] : [[kind, text]];
  });
}

const whole = (left, right) => [["gone", left.join("")], ["new", right.join("")]];

/** By the longest common subsequence. */
function middle(left, right) {
  const rows = left.length + 1, columns = right.length + 1;
  const lengths = new Uint16Array(rows * columns);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i * columns + j] = left[i] === right[j] ? lengths[(i + 1) * columns + j + 1] + 1 : Math.max(lengths[(i + 1) * columns + j], lengths[i * columns + j + 1]);
    }
  }
  const pieces = [];
  let i = 0, j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) { pieces.push(["same", left[i]]); i += 1; j += 1; }
    else if (lengths[(i + 1) * columns + j] >= lengths[i * columns + j + 1]) { pieces.push(["gone", left[i]]); i += 1; }
    else { pieces.push(["new", right[j]]); j += 1; }
  }
  return [...pieces, ["gone", left.slice(i).join("")], ["new", right.slice(j).join("")]];
}

/** Join neighbours of one kind; put removed text before new text. */
function joined(pieces) {
  const found = [];
  let gone = "", fresh = "";
  const end = () => {
    if (gone) found.push(["gone", gone]);
    if (fresh) found.push(["new", fresh]);
    gone = fresh = "";
  };
  for (const [kind, text] of pieces) {
    if (kind === "gone") gone += text;
    else if (kind === "new") fresh += text;
    else if (text) {
      end();
      if (found.at(-1)?.[0] === "same") found.at(-1)[1] += text;
      else found.push(["same", text]);
    }
  }
  end();
  return found;
}
