// Batch packing: choose or type the lengths of some examples, and see how much of each batch is padding.
(function () {
  "use strict";
  const { kit, batching, packingData: data } = window.oneGpu;
  const { el, svg, words } = kit;

  const NAMES = { fixed: "Fixed", padded: "Padded", sorted: "Sorted", packed: "Packed" };
  const LONG = { fixed: "Fixed: to the maximum length", padded: "Padded: to its batch’s longest", sorted: "Sorted: by length, then padded", packed: "Packed: several to a row" };
  const LIMITS = { batch: [1, 64], max: [16, 8192] };
  const MOST = 64;
  const LONGEST = 8192;
  const START = { lengths: data.start.join(" "), way: "padded", batch: 4, max: 384 };
  const EXAMPLES = [
    ["SQuAD, 24 others", () => Array.from({ length: 24 }, () => data.squad[Math.floor(Math.random() * data.squad.length)])],
    ["One long among short", () => [384, ...Array(23).fill(48)]],
    ["All alike", () => Array(24).fill(172)],
  ];

  /** Whole numbers from a text with commas or blanks between them; throws a sentence. */
  function lengthsFrom(text) {
    const parts = text.split(/[\s,;]+/).filter(Boolean);
    const lengths = parts.map(Number);
    if (!parts.length || parts.length > MOST || lengths.some((n) => !Number.isInteger(n) || n < 1 || n > LONGEST)) {
      throw new Error(`From 1 to ${MOST} whole numbers, each from 1 to ${kit.count(LONGEST)}, with blanks between them.`);
    }
    return lengths;
  }

  function settingFrom(given) {
    const setting = kit.choices(given, START, { way: Object.entries(NAMES) }, LIMITS);
    if (given.lengths) { setting.lengths = given.lengths.slice(0, 600); }
    return setting;
  }

  const trillions = (n) => kit.fixed(n / 1e12, 1);

  /** Batches as blocks of rows: filled where there is text, hatched where there is padding. */
  function rowPlot() {
    let shown = null;
    const plot = kit.canvas((width) => {
      const { label, made, kept } = shown;
      const left = 26;
      const widest = Math.max(...made.map((batch) => batch.width));
      const x = (tokens) => left + (tokens / widest) * (width - left - 1);
      const rows = made.reduce((count, batch) => count + batch.rows.length, 0);
      const tall = rows > 32 ? 9 : 17;
      const marks = [svg("defs", null, svg("pattern", { id: "bp-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("path", { d: "M0 0v6", class: "bp-hatch" })))];
      let y = 20;
      marks.push(words(0, 11, "batch", { class: "bp-note" }), words(width, 11, `${kit.count(widest)} tokens`, { "text-anchor": "end", class: "bp-note" }));
      made.forEach((batch, b) => {
        const height = batch.rows.length * tall;
        marks.push(words(0, y + Math.min(height, 13), String(b + 1), null));
        marks.push(svg("rect", { x: left, y, width: x(batch.width) - left, height, class: "bp-frame", fill: "url(#bp-hatch)" }));
        for (const row of batch.rows) {
          let from = 0;
          row.forEach((i, place) => {
            const [start, end] = [x(from), x(from + kept[i])];
            marks.push(svg("rect", { x: start, y: y + 1, width: Math.max(end - start - 1, 1), height: tall - 2, class: `w-fill w-series-${1 + (place % 3)}` }, svg("title", null, `Example ${i + 1}: ${kit.count(kept[i])} tokens`)));
            if (tall > 12 && end - start > 34) { marks.push(words((start + end) / 2, y + 13, kit.count(kept[i]), { "text-anchor": "middle", class: "w-on-fill bp-length" })); }
            from += kept[i];
          });
          y += tall;
        }
        y += 7;
      });
      return { height: y, marks, label };
    });
    return { root: plot.root, update: (next) => { shown = next; plot.redraw(); } };
  }

  kit.define("batch_packing", (body) => {
    const address = kit.address("batch_packing");
    const setting = settingFrom(address.read());
    const say = kit.announcer(body);
    const faults = new Map(); // by the label of the field

    const lengths = kit.text({ label: "Lengths of the examples, tokens", value: setting.lengths, onChange: (text) => change({ lengths: text }) });
    const whole = (name, label) => kit.number({ label, value: setting[name], min: LIMITS[name][0], max: LIMITS[name][1], onChange: (value) => { faults.delete(label); change({ [name]: value }); }, onFault: (sentence) => { faults.set(label, sentence); change({}); } });
    const way = kit.select({ label: "Way", value: setting.way, options: Object.entries(LONG), onChange: (value) => change({ way: value }) });
    const fields = [way, whole("batch", "Rows in a batch"), whole("max", "Maximum length, tokens")];

    const headline = el("p", { class: "bp-headline" });
    const cutNote = el("p", { class: "w-note" });
    const plot = rowPlot();
    const rowTable = kit.tableToggle();
    const ways = el("div", { class: "bp-ways" });

    function read() {
      try {
        const found = lengthsFrom(setting.lengths);
        lengths.fail("");
        faults.delete("Lengths");
        return found;
      } catch (problem) {
        if (!(problem instanceof Error)) { throw problem; }
        lengths.fail(problem.message);
        faults.set("Lengths", problem.message);
        return null;
      }
    }

    function draw(found) {
      const kept = found.map((length) => Math.min(length, setting.max));
      const all = batching.WAYS.map((name) => {
        const made = batching.batches(found, setting.batch, setting.max, name);
        return { name, made, ...batching.account(found, made, setting.max, data.flops) };
      });
      const chosen = all.find((one) => one.name === setting.way);
      const number = chosen.made.length;
      headline.textContent = `${NAMES[setting.way]}: ${kit.count(chosen.tokens)} tokens of text take ${kit.count(chosen.positions)} positions in ${kit.count(number)} ${number === 1 ? "batch" : "batches"}. ${kit.share(chosen.waste)} is padding.`;
      const longer = found.filter((n) => n > setting.max).length;
      cutNote.textContent = longer ? `${longer === 1 ? "One example is" : `${longer} examples are`} longer than the maximum: ${kit.count(chosen.cut)} ${chosen.cut === 1 ? "token is" : "tokens are"} cut off.` : "";
      plot.update({ label: `${headline.textContent} The table below has each batch.`, made: chosen.made, kept });
      rowTable.update("Batches", ["Batch", "Rows", "Row length", "Positions", "Padding"], chosen.made.map((batch, b) => {
        const text = batch.rows.flat().reduce((count, i) => count + kept[i], 0);
        return [`${b + 1}: ${batch.rows.map((row) => row.map((i) => kit.count(kept[i])).join(" + ")).join(", ")}`, kit.count(batch.rows.length), kit.count(batch.width), kit.count(batch.positions), kit.share(1 - text / batch.positions)];
      }));
      ways.replaceChildren(kit.table(`The same examples in each way; one epoch of ${data.title} with LoRA`, ["Way", "Positions", "Padding", "10¹² FLOPs"],
        all.map((one) => {
          const cells = [NAMES[one.name], kit.count(one.positions), kit.share(one.waste), trillions(one.operations)];
          return one === chosen ? cells.map((cell) => el("strong", null, cell)) : cells;
        })));
      return headline.textContent;
    }

    /** Take new settings and show them everywhere but in the text field, while it is being typed in. */
    function change(update) {
      Object.assign(setting, update);
      const found = read();
      results.classList.toggle("w-stale", faults.size > 0);
      if (faults.size) {
        headline.textContent = `Nothing to show yet. ${[...faults].map(([label, sentence]) => `${label}: ${sentence}`).join(" ")}`;
        say(headline.textContent);
        return;
      }
      say(draw(found));
      address.write(setting);
    }

    const results = el("div", null, cutNote, plot.root, rowTable.root, ways);
    const examples = EXAMPLES.map(([words, make]) => kit.button(words, () => { lengths.input.value = make().join(" "); change({ lengths: lengths.input.value }); }));
    body.append(
      lengths.root,
      el("div", { class: "w-buttons bp-examples", role: "group", "aria-label": "Lengths to try" }, el("span", null, "Try"), examples),
      el("div", { class: "w-fields bp-fields" }, fields.map((field) => field.root)), headline, results,
    );
    if (!read()) {
      setting.lengths = START.lengths;
      lengths.input.value = START.lengths;
    }
    draw(read());
  });
})();
