// The format explorer: type or drag a number, or change single bits, and see what each format stores.
(function () {
  "use strict";
  const { kit, formats: f } = window.oneGpu;
  const { el } = kit;

  const SLIDER = { min: -28, max: 18, step: 0.02 };
  const EXAMPLES = ["0.1", "1/3", "1 + 2^-11", "65520", "3e-8", "1e39", "nan"];
  const START = { n: "0.1", overflow: "infinity", block: "1" };

  const approximately = (value, digits) => {
    const { text, exact } = f.show(value, digits);
    return exact ? text : `≈ ${text}`;
  };

  /** What the fields of a float, or the whole number of INT8, multiply out to. */
  function reading(format, bits, stored, block) {
    if (format.integer) {
      const q = bits >= 128 ? bits - 256 : bits;
      return [`${q < 0 ? "−" : ""}${Math.abs(q)} × scale, scale = ${f.show(block, 6).text} / 127`];
    }
    const size = 2 ** format.mantissa;
    const exponent = Math.floor(bits / size) % 2 ** format.exponent;
    const fraction = bits % size;
    const sign = bits >= 2 ** (format.exponent + format.mantissa) ? "−" : "+";
    if (stored.kind === "infinity") { return ["exponent all ones, mantissa zero"]; }
    if (stored.kind === "nan") { return [format.specials === "fn" ? "exponent and mantissa all ones" : "exponent all ones, mantissa not zero"]; }
    return [`${sign} (${exponent ? 1 : 0} + ${kit.count(fraction)}/${kit.count(size)}) × 2`, el("sup", null, `${exponent || 1} − ${f.bias(format)}`)];
  }

  /** What a bit is worth, in words, counted from the highest. */
  function bitName(format, index) {
    if (format.integer) { return index === 0 ? "sign bit, worth −128" : `bit worth ${2 ** (7 - index)}`; }
    if (index === 0) { return "sign bit"; }
    if (index <= format.exponent) { return `exponent bit worth ${2 ** (format.exponent - index)}`; }
    return `mantissa bit worth 1/${kit.count(2 ** (index - format.exponent))}`;
  }

  function partsOf(format) {
    return format.integer
      ? [["sign", "sign", 1], ["integer", "two’s complement", 7]]
      : [["sign", "sign", 1], ["exponent", "exponent", format.exponent], ["mantissa", "mantissa", format.mantissa]];
  }

  /** The bits as buttons, one stop for the Tab key: arrow keys move among them. */
  function bitRow(format, onToggle) {
    const buttons = [];
    const groups = partsOf(format).map(([kind, name, count]) => {
      const row = el("div", { class: "fx-row" });
      for (let i = 0; i < count; i += 1) {
        const index = buttons.length;
        const bit = el("button", { type: "button", tabindex: index ? -1 : 0, "aria-label": bitName(format, index), onclick: () => onToggle(index) });
        buttons.push(bit);
        row.append(bit);
      }
      return el("div", { class: `fx-part fx-${kind}` }, row, el("span", { class: "fx-part-name" }, count > 1 && kind !== "integer" ? `${name}, ${count} bits` : name));
    });
    function move(event) {
      const at = buttons.indexOf(event.target);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (at < 0 || to === undefined || !buttons[to]) { return; }
      event.preventDefault();
      buttons.forEach((bit) => bit.setAttribute("tabindex", -1));
      buttons[to].setAttribute("tabindex", 0);
      buttons[to].focus();
    }
    const root = el("div", { class: "fx-bits", role: "toolbar", "aria-label": `Bits of ${format.name}`, onkeydown: move }, groups);
    function update(bits) {
      buttons.forEach((bit, i) => {
        const one = bits !== null && Math.floor(bits / 2 ** (buttons.length - 1 - i)) % 2 === 1;
        bit.textContent = bits === null ? "–" : Number(one);
        bit.setAttribute("aria-pressed", one);
      });
    }
    return { root, update };
  }

  /** What became of the number, in a word or two. */
  function describe(result) {
    if (result.event === "overflow") { return `overflow to ${["infinity", "nan"].includes(result.stored.kind) ? result.kind : "the largest"}`; }
    if (result.event === "underflow") { return "underflow to zero"; }
    return result.error === null ? result.kind : `${result.kind}, ${result.event}`;
  }

  /** Where a value lies between two others, as a share of the way. */
  function between(value, below, above) {
    const real = (v) => (v.negative ? -1n : 1n) * v.num;
    const top = (real(value) * below.den - real(below) * value.den) * above.den;
    const all = (real(above) * below.den - real(below) * above.den) * value.den;
    return Number((top * 10000n) / all) / 10000;
  }

  function card(format, onToggle) {
    const name = el("p", { class: "fx-name", id: `fx-${format.id}` }, el("strong", null, format.name), " ", el("code", null, format.code));
    const state = el("p", { class: "fx-state" });
    const bits = bitRow(format, onToggle);
    const value = el("dd", { class: "fx-value" });
    const reads = el("dd");
    const error = el("dd");
    const [below, above, typedMark, storedMark] = [el("span"), el("span"), el("i", { class: "fx-typed" }), el("i", { class: "fx-stored" })];
    const line = el("div", { class: "fx-line", "aria-hidden": "true" }, typedMark, storedMark);
    const root = el("div", { class: `fx-card fx-card-${format.id}`, role: "group", "aria-labelledby": `fx-${format.id}` },
      el("div", { class: "fx-head" }, name, state), bits.root,
      el("dl", { class: "fx-facts" },
        el("div", null, el("dt", null, "Stored"), value), el("div", null, el("dt", null, "Error"), error), el("div", null, el("dt", null, "Reads as"), reads)),
      line, el("p", { class: "fx-ends" }, below, above));

    function update(result, wanted, options) {
      bits.update(result.bits);
      if (result.bits === null) {
        state.textContent = "cannot be stored";
        value.textContent = "no NaN in this format";
        [reads, error].forEach((place) => { place.textContent = "–"; });
        below.textContent = above.textContent = "";
        line.classList.add("fx-empty");
        return;
      }
      state.textContent = describe(result);
      root.dataset.event = result.event;
      value.textContent = approximately(result.stored, 12);
      reads.replaceChildren(...reading(format, result.bits, result.stored, options.blockMax));
      if (result.error === null) {
        error.textContent = result.stored.kind === wanted.kind ? "none" : result.stored.kind === "nan" ? "not a number" : "infinite";
      } else if (result.error.num === 0n) {
        error.textContent = "none";
      } else {
        error.textContent = `${result.error.negative ? "" : "+"}${f.show(result.error, 3).text}${result.relative ? `, relative ${f.show(result.relative, 3).text}` : ""}`;
      }
      below.textContent = result.below ? `next below ${approximately(result.below, 8)}` : "none below";
      above.textContent = result.above ? `next above ${approximately(result.above, 8)}` : "none above";
      const bounded = [result.below, result.above].every((v) => v && v.kind === "finite");
      line.classList.toggle("fx-empty", !bounded);
      if (bounded) {
        storedMark.style.left = `${100 * between(result.stored, result.below, result.above)}%`;
        const inside = wanted.kind === "finite" && f.compare(wanted, result.below) >= 0 && f.compare(wanted, result.above) <= 0;
        typedMark.hidden = !inside;
        if (inside) { typedMark.style.left = `${100 * between(wanted, result.below, result.above)}%`; }
      }
    }
    return { root, update };
  }

  kit.define("format_explorer", (body) => {
    const address = kit.address("format_explorer");
    const state = { ...START, ...address.read() };
    const say = kit.announcer(body);
    let wanted = f.parse(START.n);
    let options = { overflow: START.overflow, blockMax: f.parse(START.block) };
    let bits = {}; // what each format stores; kept apart from `wanted`, so that a NaN keeps the bits that were set

    const magnitude = (position) => Number((2 ** position).toPrecision(3));
    const number = kit.text({ label: "Number", value: state.n, onChange: (text) => change({ n: text }, number) });
    const slider = kit.range({ label: "Drag its size", value: 0, ...SLIDER, say: (p) => String(magnitude(p)), onChange: (p) => change({ n: (wanted.negative ? "-" : "") + f.typed(f.parse(String(magnitude(p)))) }, slider) });
    const overflow = kit.select({
      label: "Too large becomes",
      value: state.overflow,
      options: [["infinity", "infinity, or else the largest"], ["saturate", "the largest number"], ["nan", "NaN, or else the largest"]],
      onChange: (rule) => change({ overflow: rule }),
    });
    const block = kit.text({ label: "INT8: largest value of the block", value: state.block, note: "It is stored as 127 and sets the scale.", onChange: (text) => change({ block: text }) });
    const cards = f.FORMATS.map((format) => card(format, (index) => toggle(format, index)));

    function readFields() {
      let ok = true;
      for (const [field, text, positive] of [[number, state.n, false], [block, state.block, true]]) {
        try {
          const value = f.parse(text);
          if (positive && (value.kind !== "finite" || value.negative || value.num === 0n)) { throw new Error("A number above 0, for example 1."); }
          field.fail("");
          if (positive) { options.blockMax = value; } else { wanted = value; }
        } catch (problem) {
          if (!(problem instanceof Error)) { throw problem; }
          field.fail(problem.message);
          ok = false;
        }
      }
      options.overflow = state.overflow;
      return ok;
    }

    function draw() {
      f.FORMATS.forEach((format, i) => {
        const result = bits[format.id] === null ? { bits: null } : f.examine(format, wanted, bits[format.id], options);
        cards[i].update(result, wanted, options);
      });
    }

    function moveSlider() {
      if (wanted.kind === "finite" && wanted.num > 0n) {
        slider.set(Math.min(SLIDER.max, Math.max(SLIDER.min, Math.log2(Math.abs(f.approximate(wanted))))));
      }
    }

    function encodeAll() {
      bits = Object.fromEntries(f.FORMATS.map((format) => [format.id, f.encode(format, wanted, options)]));
    }

    /** Take a new `n`, `overflow` or `block`, and show it everywhere but in the control that it came `from`. */
    function change(update, from) {
      Object.assign(state, update);
      if (from !== number) { number.input.value = state.n; }
      const ok = readFields();
      results.classList.toggle("w-stale", !ok);
      if (!ok) { say(`Nothing is stored. ${body.querySelector(".w-error:not([hidden])").textContent}`); return; }
      encodeAll();
      if (from !== slider) { moveSlider(); }
      draw();
      address.write(state);
      say(summary());
    }

    function toggle(format, index) {
      const width = f.width(format);
      const flipped = Array.from((bits[format.id] ?? 0).toString(2).padStart(width, "0"));
      flipped[index] = flipped[index] === "1" ? "0" : "1";
      const pattern = parseInt(flipped.join(""), 2);
      wanted = f.decode(format, pattern, options);
      state.n = f.typed(wanted);
      number.input.value = state.n;
      number.fail("");
      bits = Object.fromEntries(f.FORMATS.map((other) => [other.id, other === format ? pattern : f.encode(other, wanted, options)]));
      moveSlider();
      draw();
      address.write(state);
      say(`${format.name} now holds ${f.show(wanted, 6).text}.`);
    }

    function summary() {
      const told = f.FORMATS.filter((format) => ["fp16", "bf16", "e4m3"].includes(format.id) && bits[format.id] !== null)
        .map((format) => `${format.name} stores ${f.show(f.decode(format, bits[format.id], options), 6).text}`);
      return `${f.show(wanted, 6).text}: ${told.join(", ")}.`;
    }

    const results = el("div", { class: "fx-cards" }, cards.map((one) => one.root));
    body.append(
      el("div", { class: "w-fields fx-controls" }, number.root, slider.root),
      el("div", { class: "w-buttons", role: "group", "aria-label": "Numbers to try" }, el("span", null, "Try"), EXAMPLES.map((example) => kit.button(example, () => change({ n: example })))),
      el("details", { class: "w-details" }, el("summary", null, "Overflow, and the scale of INT8"), el("div", { class: "w-fields" }, overflow.root, block.root)),
      el("p", { class: "fx-legend" }, el("span", null, el("i", { class: "fx-typed" }), "your number"), el("span", null, el("i", { class: "fx-stored" }), "what is stored"), el("span", null, "Press a bit to change it.")),
      results,
    );
    if (!readFields()) {
      Object.assign(state, START);
      number.input.value = state.n;
      block.input.value = state.block;
      overflow.input.value = state.overflow;
      readFields();
    }
    encodeAll();
    moveSlider();
    draw();
  });
})();
