// The roofline: prefill, decoding and training of a model under the roof of a card, on logarithmic axes.
(function () {
  "use strict";
  const { kit, flops, memoryData, flopsData } = window.oneGpu;
  const { el, svg, words } = kit;
  const { models } = memoryData;
  const { gpus, dtypes } = flopsData;

  const KINDS = { prefill: "Prefill", decode: "Decoding", training: "Training" };
  const METHODS = { full: "Full", lora: "LoRA", qlora: "QLoRA" };
  const CHOICES = {
    model: Object.entries(models).map(([name, model]) => [name, model.title]),
    gpu: Object.entries(gpus).map(([name, card]) => [name, card.title]),
    dtype: dtypes.map((name) => [name, name]),
    weights: [["", "that format"], ["nf4-dq", "NF4, double"]],
    method: Object.entries(METHODS),
  };
  const START = { model: "gemma3-4b", gpu: "l4", dtype: "bfloat16", weights: "", batch: 1, prompt: 1024, context: 1024, method: "lora", sequences: 1, seq: 1024, checkpointing: true };
  const LIMITS = { batch: [1, 65536], prompt: [1, 131072], context: [1, 131072], sequences: [1, 65536], seq: [1, 131072] };
  const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
  const LEFT_OUT = [
    "values that are used up at once: they may stay on the chip, or may not",
    "copies that a kernel can do without, such as the 16-bit copy of a 4-bit matrix (bitsandbytes does without it for a single token only)",
    "overheads: launching kernels, tiles that do not fill, a clock that slows under load",
    "in the memory that is needed: of prefill and decoding, all but weights and cache",
  ];

  const tera = (flopsPerS) => { const n = flopsPerS / 1e12; return n < 10 ? String(Number(n.toPrecision(2))) : kit.fixed(n, n < 100 ? 1 : 0); };
  const intensity = (value) => (value < 10 ? kit.fixed(value, 2) : kit.fixed(value, value < 100 ? 1 : 0));
  const waits = (place) => (place.memoryBound ? "memory" : "arithmetic");
  const decoding = (work, batch) => flops.placeWork({ ...work, batch }).decode;

  /** The levels of a card's roof: one for each peak, with the formats that share it. */
  function roofs(card) {
    const levels = new Map();
    for (const [dtype, peak] of Object.entries(card.peaks)) { levels.set(peak, [...(levels.get(peak) || []), dtype]); }
    return [...levels].map(([peak, names]) => ({ peak, names, ridge: peak / card.bandwidth })).sort((a, b) => a.peak - b.peak);
  }

  /** A plot on two logarithmic axes; `update({label, card, dtype, places, trail})`. */
  function roofPlot() {
    let data = null;
    const plot = kit.canvas((width) => {
      if (!data) { return { height: 400, marks: [], label: "" }; } // no card to draw yet: its place stays
      const { label, card, dtype, places, trail } = data;
      const levels = roofs(card);
      const points = [...Object.values(places), ...trail];
      const xs = [Math.min(0.5, ...points.map((p) => p.intensity / 1.5)), Math.max(2000, ...levels.map((l) => l.ridge * 6), ...points.map((p) => p.intensity * 2))];
      const ys = [Math.min(xs[0] * card.bandwidth, ...points.map((p) => p.attainable / 1.5)), levels.at(-1).peak * 2.2];
      let [keyX, keyY] = [4, 14];
      const marks = [];
      Object.values(KINDS).forEach((name, i) => {
        if (keyX + 22 + name.length * 8 > width) { [keyX, keyY] = [4, keyY + 20]; }
        marks.push(kit.marker(i, keyX + 6, keyY - 4, i + 1), words(keyX + 18, keyY, name, { class: "w-strong" }));
        keyX += 34 + name.length * 8;
      });
      const box = { left: 52, right: width - 4, top: keyY + 34, bottom: keyY + 320 };
      const scale = ([low, high], from, to) => (value) => from + ((Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (to - from);
      const [x, y] = [scale(xs, box.left, box.right), scale(ys, box.bottom, box.top)];
      marks.push(words(0, keyY + 24, "TFLOP/s", null), words((box.left + box.right) / 2, box.bottom + 38, "Operations for each byte", { "text-anchor": "middle" }));
      const tens = ([low, high]) => Array.from({ length: Math.floor(Math.log10(high)) - Math.ceil(Math.log10(low)) + 1 }, (_, i) => 10 ** (Math.ceil(Math.log10(low)) + i));
      for (const value of tens(ys)) {
        marks.push(svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value), class: "w-grid" }), words(box.left - 6, y(value) + 4, kit.count(value / 1e12), { "text-anchor": "end" }));
      }
      for (const value of tens(xs)) { marks.push(words(x(value), box.bottom + 18, kit.count(value), { "text-anchor": "middle" })); }
      for (const { peak, names, ridge } of levels) {
        const chosen = names.includes(dtype);
        marks.push(svg("path", { d: `M${x(xs[0])} ${y(xs[0] * card.bandwidth)}L${x(ridge)} ${y(peak)}H${box.right}`, class: `w-roof ${chosen ? "w-chosen" : ""}` }),
          words(box.right, y(peak) - (chosen ? 11 : 5), `${names.join(", ")}: ${kit.fixed(peak / 1e12, 1)}`, { "text-anchor": "end", class: chosen ? "w-strong" : "w-limit-name" }));
      }
      const ridge = x(levels.find((level) => level.names.includes(dtype)).ridge);
      marks.push(svg("line", { x1: ridge, x2: ridge, y1: y(card.peaks[dtype]), y2: box.bottom, class: "w-cursor" }));
      marks.push(trail.map((p) => svg("circle", { cx: x(p.intensity), cy: y(p.attainable), r: 3, class: "w-trail" })));
      marks.push(Object.values(places).map((p, i) => svg("g", { transform: `translate(${x(p.intensity)} ${y(p.attainable)}) scale(1.5)` }, kit.marker(i, 0, 0, i + 1))));
      return { height: box.bottom + 46, marks, label };
    });
    return { root: plot.root, update: (next) => { data = next; plot.redraw(); } };
  }

  kit.define("roofline", (body) => {
    const address = kit.address("roofline");
    const setting = kit.choices(address.read(), START, CHOICES, LIMITS);
    const say = kit.announcer(body);
    const faults = new Map(); // by the label of the field

    const choose = (name, label) => kit.select({ label, value: setting[name], options: CHOICES[name], onChange: (value) => change({ [name]: value }) }).root;
    const whole = (name, label) => kit.number({ label, value: setting[name], min: LIMITS[name][0], max: LIMITS[name][1], onChange: (value) => { faults.delete(label); change({ [name]: value }); }, onFault: (sentence) => { faults.set(label, sentence); change({}); } }).root;
    const group = (legend, ...fields) => el("fieldset", { class: "rf-group" }, el("legend", null, legend), el("div", { class: "w-fields ml-fields" }, fields));
    const fields = [
      group("Model and card", choose("model", "Model"), choose("gpu", "Card"), choose("dtype", "Multiplies in")),
      group("Generating", choose("weights", "Weights in"), whole("batch", "Sequences at once"), whole("prompt", "Prompt, tokens"), whole("context", "Context, tokens")),
      group("Training", choose("method", "Method"), whole("sequences", "Batch, sequences"), whole("seq", "Sequence, tokens"),
        kit.checkbox({ label: "Gradient checkpointing", checked: setting.checkpointing, onChange: (checked) => change({ checkpointing: checked }) }).root),
    ];

    const headline = el("p", { class: "w-headline" });
    const overflow = el("p", { class: "w-note" });
    const plot = roofPlot();
    const [places, asTable] = [el("div", { class: "rf-tables" }), el("div", { class: "rf-tables" })];

    function drawPlaces(found, card) {
      const needed = flops.memoryNeeded(setting);
      const kinds = Object.keys(KINDS);
      const tokens = { prefill: setting.batch * setting.prompt, decode: setting.batch, training: setting.sequences * setting.seq };
      const row = (name, value) => [name, ...kinds.map((kind) => value(found[kind], kind))];
      places.replaceChildren(kit.table(`${models[setting.model].title} on the ${card.title}, in ${setting.dtype}`, ["Quantity", ...Object.values(KINDS)], [
        row("Operations", (p) => kit.power(p.flops)),
        row("GB that move, at least", (p) => kit.fixed(p.bytes / 1e9, 2)),
        row("Operations for each byte", (p) => intensity(p.intensity)),
        row("Waits for", (p) => el("strong", null, waits(p))),
        row("TFLOP/s, at best", (p) => tera(p.attainable)),
        row("Share of the peak", (p) => kit.share(p.attainable / card.peaks[setting.dtype])),
        row("Time, at least", (p) => kit.duration(p.seconds)),
        row("Tokens a second, at most", (p, kind) => kit.count(Number((tokens[kind] / p.seconds).toPrecision(3)))),
        row("GiB of memory, at least", (_, kind) => `${needed[kind] > card.bytes ? "✗ " : ""}${kit.fixed(needed[kind] / 2 ** 30, 2)}`),
      ]));
      return kinds.filter((kind) => needed[kind] > card.bytes);
    }

    function drawTable(card, trail) {
      const levels = roofs(card).map(({ peak, names, ridge }) => [names.join(", "), kit.fixed(peak / 1e12, 1), intensity(ridge)]);
      const rows = trail.map((p, i) => [kit.count(BATCHES[i]), intensity(p.intensity), waits(p), kit.fixed(BATCHES[i] / p.seconds, 0), kit.fixed(1 / p.seconds, 1)]);
      asTable.replaceChildren(
        kit.table(`The roof of the ${card.title}, ${kit.fixed(card.bandwidth / 1e9, 0)} GB/s`, ["Format", "Dense peak, TFLOP/s", "Ridge point, operations for each byte"], levels),
        kit.table(`Decoding at a context of ${kit.count(setting.context)} tokens, by sequences at once`, ["Sequences", "Operations for each byte", "Waits for", "Tokens a second, all", "Each"], rows),
      );
    }

    function draw() {
      const card = gpus[setting.gpu];
      const found = flops.placeWork(setting);
      const trail = BATCHES.map((batch) => decoding(setting, batch));
      const { title, overflows_in: overflowsIn } = models[setting.model];
      overflow.textContent = overflowsIn.includes(setting.dtype) ? `Warning: ${memoryData.caveats.overflow}.` : "";
      const tooLarge = drawPlaces(found, card);
      const bound = Object.entries(KINDS).map(([kind, name]) => `${name.toLowerCase()} is ${found[kind].memoryBound ? "memory-bound" : "compute-bound"}`);
      const fits = tooLarge.length ? ` Too large for the card’s memory: ${tooLarge.map((kind) => KINDS[kind].toLowerCase()).join(", ")}.` : "";
      headline.textContent = `${title} on the ${card.title} in ${setting.dtype}: ${bound.join(", ")}. Each sequence that is written gets at most ${kit.fixed(1 / found.decode.seconds, 1)} tokens a second.${fits}`;
      plot.update({
        label: `Roofline of the ${card.title}. ${Object.entries(KINDS).map(([kind, name]) => `${name}: ${intensity(found[kind].intensity)} operations for each byte, ${tera(found[kind].attainable)} TFLOP/s at best`).join("; ")}. Small rings: decoding with 1 to 1,024 sequences at once; the numbers are in the table below.`,
        card, dtype: setting.dtype, places: found, trail,
      });
      drawTable(card, trail);
    }

    /** Show the changed setting; returns what there is to say about it. */
    function show(update) {
      Object.assign(setting, update);
      const card = gpus[setting.gpu];
      const wrong = [...faults].map(([label, sentence]) => `${label}: ${sentence}`);
      if (!card.peaks[setting.dtype]) {
        wrong.push(`No dense peak is known of the ${card.title} in ${setting.dtype}, only in ${Object.keys(card.peaks).join(", ")}.${card.note.includes(setting.dtype) ? ` It has ${card.note}.` : ""}`);
      }
      results.classList.toggle("w-stale", wrong.length > 0);
      if (wrong.length) { headline.textContent = `No roof yet. ${wrong.join(" ")}`; } else { draw(); }
      return headline.textContent;
    }
    function change(update) {
      say(show(update));
      address.write(setting);
    }

    const results = el("div", null, overflow, plot.root, places, el("details", { class: "w-details" }, el("summary", null, "Show as table"), asTable));
    body.append(...fields, headline, results,
      el("details", { class: "w-details" }, el("summary", null, "What the bytes and the roof leave out"), el("ul", null, LEFT_OUT.map((sentence) => el("li", null, sentence)))));
    show({});
  });
})();
