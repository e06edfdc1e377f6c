// What every widget is made of: labelled inputs, stacked bars and line plots in SVG, tables, units, a spoken summary, and
// state in the page's address. A widget calls oneGpu.kit.define(name, mount). Looks are in kit.css.
(function () {
  "use strict";

  let made = 0;
  const newId = () => `widget-${++made}`;

  // ---- elements

  function fill(node, properties, children) {
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) { continue; }
      if (name.startsWith("on")) { node.addEventListener(name.slice(2), value); } else { node.setAttribute(name, value === true ? "" : value); }
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }
  /** An HTML element; `on…` properties are listeners, others attributes, null and false are left out. */
  const el = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
  /** The same in SVG. */
  const svg = (tag, properties, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

  // ---- inputs: each returns {root, input, ...}; root holds label, control and note

  function field(input, { label, note, kind = "" }) {
    input.id = newId();
    const error = el("p", { class: "w-error", id: newId(), hidden: true });
    const hint = note ? el("p", { class: "w-note", id: newId() }, note) : null;
    if (hint) { input.setAttribute("aria-describedby", hint.id); }
    const parts = [el("label", { for: input.id }, label), input];
    const root = el("div", { class: `w-field ${kind}` }, kind === "w-check" ? parts.reverse() : parts, hint, error);
    /** Show a sentence about what is wrong, or nothing when it is empty. */
    function fail(sentence) {
      error.textContent = sentence;
      error.hidden = !sentence;
      const described = [sentence && error.id, hint && hint.id].filter(Boolean).join(" ");
      if (sentence) { input.setAttribute("aria-invalid", "true"); } else { input.removeAttribute("aria-invalid"); }
      if (described) { input.setAttribute("aria-describedby", described); } else { input.removeAttribute("aria-describedby"); }
    }
    return { root, input, fail };
  }

  const text = ({ value, onChange, ...rest }) =>
    field(el("input", { type: "text", value, autocomplete: "off", autocapitalize: "off", spellcheck: "false", oninput: (e) => onChange(e.target.value) }), rest);

  /** A whole number from `min` to `max`; `onChange` hears valid numbers alone, `onFault` the sentence about any other. */
  function number({ value, min, max, onChange, onFault, ...rest }) {
    const made = field(el("input", { type: "number", value, min, max, step: 1, inputmode: "numeric" }), rest);
    made.read = () => {
      const n = made.input.value.trim() === "" ? NaN : Number(made.input.value);
      const valid = Number.isInteger(n) && n >= min && n <= max;
      const sentence = valid ? "" : `A whole number from ${count(min)} to ${count(max)}.`;
      made.fail(sentence);
      if (!valid) { onFault(sentence); }
      return valid ? n : null;
    };
    made.input.addEventListener("input", () => { const n = made.read(); if (n !== null) { onChange(n); } });
    return made;
  }

  /** `say(value)` is what a screen reader speaks in place of the bare number. */
  function range({ value, min, max, step, say, onChange, ...rest }) {
    const input = el("input", { type: "range", min, max, step, value });
    const made = field(input, rest);
    made.set = (next) => { input.value = next; input.setAttribute("aria-valuetext", say(Number(input.value))); };
    input.addEventListener("input", () => { made.set(input.value); onChange(Number(input.value)); });
    made.set(value);
    return made;
  }

  /** `options` is a list of [value, words]. */
  const select = ({ value, options, onChange, ...rest }) =>
    field(
      el("select", { onchange: (e) => onChange(e.target.value) }, options.map(([name, words]) => el("option", { value: name, selected: name === value }, words))),
      rest,
    );

  const checkbox = ({ checked, onChange, ...rest }) =>
    field(el("input", { type: "checkbox", checked, onchange: (e) => onChange(e.target.checked) }), { ...rest, kind: "w-check" });

  const button = (words, onclick) => el("button", { type: "button", class: "w-button", onclick }, words);

  // ---- numbers for people, as the book's notation has them

  const count = (n) => n.toLocaleString("en-US");
  /** "1,234.50": a number with `digits` decimals. */
  const fixed = (n, digits) => n.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  /** Bytes in GiB, or in MiB or KiB where GiB would show no digit. */
  function bytes(n) {
    const [unit, size] = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, s]) => Math.abs(n) >= s * 0.1) || ["bytes", 1];
    if (size === 1) { return `${count(Math.round(n))} bytes`; }
    const amount = n / size;
    return `${fixed(amount, Math.abs(amount) < 100 ? 2 : 1)} ${unit}`;
  }
  /** "1.94 × 10¹⁶": a large number with `digits` decimals. */
  function power(n, digits = 2) {
    const [mantissa, exponent] = n.toExponential(digits).split("e");
    return `${mantissa} × 10${[...String(Number(exponent))].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`;
  }
  /** A time in the unit that people would use. */
  function duration(seconds) {
    const units = [[1e-3, 1e-6, "µs"], [1, 1e-3, "ms"], [90, 1, "s"], [5400, 60, "minutes"], [172800, 3600, "hours"], [730 * 86400, 86400, "days"]];
    const [, size, unit] = units.find(([below]) => seconds < below) || [0, 365.25 * 86400, "years"];
    const amount = seconds / size;
    return `${fixed(amount, amount < 100 ? 1 : 0)} ${unit}`;
  }
  const share = (part) => (part > 0 && part < 0.001 ? "< 0.1 %" : `${fixed(100 * part, 1)} %`);

  // ---- tables

  /** A table with a caption; cells after the first of a row are numbers, set to the right. */
  function table(caption, header, rows) {
    const cell = (content, index) => (index === 0 ? el("th", { scope: "row" }, content) : el("td", null, content));
    const root = el("div", { class: "w-table" }, el("table", null,
      el("caption", null, caption),
      el("thead", null, el("tr", null, header.map((words) => el("th", { scope: "col" }, words)))),
      el("tbody", null, rows.map((row) => el("tr", null, row.map(cell))))));
    // A table that scrolls sideways must be reachable with the keyboard.
    new ResizeObserver(() => {
      if (root.scrollWidth > root.clientWidth + 1) { root.setAttribute("tabindex", "0"); } else { root.removeAttribute("tabindex"); }
    }).observe(root);
    return root;
  }

  /** "Show as table" under a plot: `update(caption, header, rows)` fills it. */
  function tableToggle() {
    const holder = el("div");
    const root = el("details", { class: "w-details" }, el("summary", null, "Show as table"), holder);
    return { root, update: (...content) => holder.replaceChildren(table(...content)) };
  }

  // ---- plots

  /** An SVG that is as wide as its place and drawn anew when that changes: `draw(width)` gives {height, marks, label}. */
  function canvas(draw) {
    const root = el("div", { class: "w-plot" });
    let width = 0;
    function redraw() {
      width ||= Math.floor(root.clientWidth); // at once where it has a place, so that what is below does not jump
      if (!width) { return; }
      const { height, marks, label } = draw(width);
      root.replaceChildren(svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, marks));
    }
    new ResizeObserver(([entry]) => {
      const now = Math.floor(entry.contentRect.width);
      if (now !== width) { width = now; redraw(); }
    }).observe(root);
    return { root, redraw };
  }

  /** Round steps (1, 2 or 5 times a power of ten) from 0 to `max`, about `wanted` of them. */
  function ticks(max, wanted) {
    const rough = max / wanted;
    const ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= rough);
    return Array.from({ length: Math.floor(max / step + 1e-9) + 1 }, (_, i) => i * step);
  }

  const words = (x, y, content, properties) => svg("text", { x, y, ...properties }, content);

  /**
   * Stacked bars over one axis. Data: {label, unit, max, cursor, bars: [{name, total, strong, parts: [{key, name, shown, value,
   * series}]}], limits: [{name, value, verdict, mood}]}: a limit is a frame as long as its value with a verdict in words, its mood is
   * "good", "warn" or "bad"; `cursor` is the value of a line through all of them.
   */
  function stackedBars() {
    let data = null;
    const plot = canvas((width) => {
      const { label, unit, max, cursor, bars, limits } = data;
      const marks = [];
      const x = (value) => 1 + (Math.min(value, max) / max) * (width - 2);
      let y = 0;
      for (const bar of bars) {
        const tall = bar.strong ? 34 : 14;
        const style = bar.strong ? "w-strong" : null;
        marks.push(words(0, y + 14, bar.name, { class: style }), words(width, y + 14, bar.total, { "text-anchor": "end", class: style }));
        let from = 0;
        for (const part of bar.parts.filter((p) => p.value > 0)) {
          const [left, right] = [x(from), x(from + part.value)];
          marks.push(svg("rect", { x: left, y: y + 20, width: Math.max(right - left - 1, 0.5), height: tall, class: `w-fill w-series-${part.series}` },
            svg("title", null, `${part.name}: ${part.shown}`)));
          if (bar.strong && right - left > 14) { marks.push(words((left + right) / 2, y + 42, part.key, { "text-anchor": "middle", class: "w-on-fill" })); }
          from += part.value;
        }
        y += tall + 30;
      }
      const top = y;
      for (const limit of limits) {
        marks.push(words(0, y + 14, limit.name, null), words(width, y + 14, limit.verdict, { "text-anchor": "end", class: `w-${limit.mood}` }));
        marks.push(svg("rect", { x: 1, y: y + 20, width: Math.max(x(limit.value) - 1, 1), height: 10, class: `w-frame w-${limit.mood}` }));
        if (limit.value > max) { marks.push(svg("path", { d: `M${width - 9} ${y + 21}l4 4l-4 4`, class: "w-more" })); }
        y += 40;
      }
      marks.push(limits.map((_, i) => svg("line", { x1: x(cursor), x2: x(cursor), y1: top + 40 * i + 18, y2: top + 40 * i + 32, class: "w-cursor" })));
      marks.push(axis(width, y + 4, ticks(max, Math.max(2, Math.floor(width / 90))), x, unit));
      return { height: y + 24, marks, label };
    });
    return { root: plot.root, update: (next) => { data = next; plot.redraw(); } };
  }

  function axis(width, y, values, x, unit) {
    return svg("g", { class: "w-axis" }, svg("line", { x1: 0, x2: width, y1: y, y2: y }), values.map((value, i) => {
      const at = x(value);
      const last = i === values.length - 1;
      return svg("g", null, svg("line", { x1: at, x2: at, y1: y, y2: y + 4 }),
        words(at, y + 17, last ? `${count(value)} ${unit}` : count(value), { "text-anchor": i === 0 ? "start" : at > width - 34 ? "end" : "middle" }));
    }));
  }

  /**
   * Lines over an axis of powers of two. Data: {label, xs, xName, yName, yMax, series: [{name, ys, series}],
   * limits: [{name, value}], at}: `at` marks one x. Lines differ by dash and marker; what passes `yMax` is cut off.
   */
  function linePlot() {
    let data = null;
    const clip = newId();
    const plot = canvas((width) => {
      const { label, xs, xName, yName, yMax, series, limits, at } = data;
      const marks = [words(0, 12, yName, null)];
      let [keyX, keyY] = [4, 34];
      series.forEach((line, i) => {
        const needs = 44 + line.name.length * 7.5;
        if (keyX > 4 && keyX + needs > width) { [keyX, keyY] = [4, keyY + 20]; }
        marks.push(svg("path", { d: `M${keyX} ${keyY - 4}h26`, class: `w-line w-stroke-${line.series}`, "stroke-dasharray": DASHES[i % 3] }), marker(i, keyX + 13, keyY - 4, line.series), words(keyX + 32, keyY, line.name, { class: "w-strong" }));
        keyX += needs;
      });
      const box = { left: 44, right: width - 4, top: keyY + 18, bottom: keyY + 230 };
      const log = Math.log2;
      const x = (value) => box.left + ((log(value) - log(xs[0])) / (log(xs.at(-1)) - log(xs[0]))) * (box.right - box.left);
      const y = (value) => box.bottom - (value / yMax) * (box.bottom - box.top);
      for (const value of ticks(yMax, 5)) {
        marks.push(svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value), class: "w-grid" }), words(box.left - 6, y(value) + 4, count(value), { "text-anchor": "end" }));
      }
      const every = Math.ceil(xs.length / Math.max(2, Math.floor(width / 75)));
      xs.forEach((value, i) => {
        if (i % every === 0) { marks.push(words(x(value), box.bottom + 18, count(value), { "text-anchor": i === 0 ? "start" : x(value) > width - 24 ? "end" : "middle" })); }
      });
      marks.push(words((box.left + box.right) / 2, box.bottom + 38, xName, { "text-anchor": "middle" }));
      let lastName = Infinity;
      for (const limit of limits.filter((l) => l.value < yMax)) {
        if (lastName - y(limit.value) < 15) { continue; } // its name would lie on the one before
        lastName = y(limit.value);
        marks.push(svg("line", { x1: box.left, x2: box.right, y1: lastName, y2: lastName, class: "w-limit" }), words(box.left + 6, lastName - 5, limit.name, { class: "w-limit-name" }));
      }
      if (at >= xs[0] && at <= xs.at(-1)) { marks.push(svg("line", { x1: x(at), x2: x(at), y1: box.top, y2: box.bottom, class: "w-cursor" })); }
      marks.push(svg("clipPath", { id: clip }, svg("rect", { x: box.left - 6, y: box.top - 6, width: box.right - box.left + 12, height: box.bottom - box.top + 12 })));
      marks.push(svg("g", { "clip-path": `url(#${clip})` }, series.map((line, i) => [
        svg("polyline", { points: xs.map((value, j) => `${x(value)},${y(line.ys[j])}`).join(" "), class: `w-line w-stroke-${line.series}`, "stroke-dasharray": DASHES[i % 3] }),
        xs.map((value, j) => marker(i, x(value), y(line.ys[j]), line.series)),
      ])));
      return { height: box.bottom + 46, marks, label };
    });
    return { root: plot.root, update: (next) => { data = next; plot.redraw(); } };
  }

  const DASHES = ["none", "7 4", "2 4"];
  function marker(kind, x, y, series) {
    const shape = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0", "M-3.5-3.5h7v7h-7z", "M0-5l5 9h-10z"][kind % 3];
    return svg("path", { d: shape, transform: `translate(${x} ${y})`, class: `w-fill w-series-${series}` });
  }

  // ---- speech, address, start

  /** `action`, once nobody has called for it for a while. */
  function afterPause(milliseconds, action) {
    let timer = 0;
    return (argument) => {
      clearTimeout(timer);
      timer = setTimeout(() => action(argument), milliseconds);
    };
  }

  /** Speaks a sentence to screen readers once the reader has paused. */
  function announcer(root) {
    const region = el("p", { class: "visually-hidden", "aria-live": "polite" });
    root.append(region);
    return afterPause(700, (sentence) => { region.textContent = sentence; });
  }

  /** A widget's state in the page's address, "#name?key=value": a link brings another reader to the same view. */
  function address(name) {
    return {
      read() {
        const [start, query] = decodeURI(location.hash.slice(1)).split("?");
        return start === name && query ? Object.fromEntries(new URLSearchParams(query)) : {};
      },
      // Browsers refuse when the address changes often, as it would under a slider.
      write: afterPause(300, (state) => history.replaceState(null, "", `#${name}?${new URLSearchParams(state)}`)),
    };
  }

  /** Start the widget `name` in each of its places; what is shown without scripts stays if it cannot start. */
  function define(name, mount) {
    for (const place of document.querySelectorAll(`[data-widget="${name}"]`)) {
      const body = el("div", { class: "widget-body" });
      place.classList.add("widget-ready");
      place.append(body);
      try {
        mount(body);
      } catch (fault) {
        body.remove();
        place.classList.remove("widget-ready");
        throw fault;
      }
      if (location.hash.startsWith(`#${name}?`)) { place.scrollIntoView(); }
    }
  }

  /** A choice from the page's address: of known names and whole numbers in range alone, everything else as in `start`. */
  function choices(given, start, options, limits) {
    const chosen = { ...start };
    for (const [name, known] of Object.entries(options)) {
      if (known.some(([value]) => value === given[name])) { chosen[name] = typeof start[name] === "number" ? Number(given[name]) : given[name]; }
    }
    for (const [name, [min, max]] of Object.entries(limits)) {
      const n = Number(given[name]);
      if (given[name] && Number.isInteger(n) && n >= min && n <= max) { chosen[name] = n; }
    }
    for (const name of Object.keys(start).filter((key) => typeof start[key] === "boolean")) {
      if (["true", "false"].includes(given[name])) { chosen[name] = given[name] === "true"; }
    }
    return chosen;
  }

  const kit = {
    el, svg, words, canvas, marker, text, number, range, select, checkbox, button, count, fixed, bytes, power, duration, share, table, tableToggle,
    stackedBars, linePlot, announcer, address, choices, define,
  };
  window.oneGpu = Object.assign(window.oneGpu || {}, { kit });
})();
