// How examples of different lengths come to lie in batches, as solutions/batching.py has it: padded, sorted by length, packed.
(function () {
  "use strict";

  const WAYS = ["fixed", "padded", "sorted", "packed"];
  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

  /** Rows of at most `max` tokens, each the indices of its examples: first fit, longest first. */
  function pack(lengths, max) {
    const rows = [];
    const free = [];
    for (const i of lengths.map((_, index) => index).sort((a, b) => lengths[b] - lengths[a])) {
      let row = free.findIndex((room) => lengths[i] <= room);
      if (row < 0) { row = rows.push([]) - 1; free.push(max); }
      rows[row].push(i);
      free[row] -= lengths[i];
    }
    return rows;
  }

  /** Batches of `size` rows: [{rows, width, positions}]. Lengths above `max` are cut to it. */
  function batches(lengths, size, max, way) {
    const kept = lengths.map((length) => Math.min(length, max));
    const order = kept.map((_, i) => i);
    if (way === "sorted") { order.sort((a, b) => kept[a] - kept[b]); }
    const rows = way === "packed" ? pack(kept, max) : order.map((i) => [i]);
    const made = [];
    for (let start = 0; start < rows.length; start += size) {
      const batch = rows.slice(start, start + size);
      const width = way === "fixed" ? max : Math.max(...batch.map((row) => sum(row.map((i) => kept[i]))));
      made.push({ rows: batch, width, positions: batch.length * width });
    }
    return made;
  }

  /** Tokens that are kept and cut, positions, the share of padding and the operations of an epoch; `flops` is those of a position and of a pair. */
  function account(lengths, made, max, flops) {
    const tokens = sum(lengths.map((length) => Math.min(length, max)));
    const positions = sum(made.map((batch) => batch.positions));
    const operations = sum(made.map((batch) => batch.rows.length * (flops.position * batch.width + flops.pair * batch.width ** 2)));
    return { tokens, cut: sum(lengths) - tokens, positions, waste: 1 - tokens / positions, operations };
  }

  window.oneGpu = Object.assign(window.oneGpu || {}, { batching: { WAYS, pack, batches, account } });
})();
