// From FLOPs to hours: choose a run and a card, and see its operations, how they differ from 6·N·D, and how long they take.
(function () {
  "use strict";
  const { kit, flops, memoryData, flopsData } = window.oneGpu;
  const { el } = kit;
  const { models } = memoryData;
  const { gpus, dtypes } = flopsData;

  const METHODS = { full: "Full fine-tuning", lora: "LoRA", qlora: "QLoRA" };
  const CHOICES = {
    model: Object.entries(models).map(([name, model]) => [name, model.title]),
    method: Object.entries(METHODS),
    rank: [4, 8, 16, 32, 64, 128].map((rank) => [String(rank), String(rank)]),
    by: [["tokens", "tokens"], ["steps", "steps"]],
    gpu: Object.entries(gpus).map(([name, card]) => [name, card.title]),
    dtype: dtypes.map((name) => [name, name]),
  };
  const START = { model: "gemma3-4b", method: "lora", rank: 16, checkpointing: true, by: "tokens", tokens: 1000000, steps: 1000, batch: 1, seq: 1024, gpu: "l4", dtype: "bfloat16", percent: 30 };
  const LIMITS = { tokens: [1, 1e14], steps: [1, 1e8], batch: [1, 65536], seq: [1, 131072], percent: [1, 100] };

  // Where the operations come from, and what leads from the rule of thumb to them.
  const PARTS = { forward: "Forward", backward: "Backward", recomputed: "Recomputed", adapters: "Adapters" };
  const WAY = {
    rule: "6·N·D, with all parameters",
    scores: "Attention’s scores, which have no weights",
    "not multiplied": "Parameters that no token is multiplied with",
    frozen: "Gradients of frozen weights, not computed",
    recomputed: "Layers run forward once more: checkpointing",
    adapters: "The adapters’ own products",
  };
  const FORWARD = { mlp: "MLP", projections: "Projections of attention", scores: "Scores of attention", head: "Output head" };
  const LEFT_OUT = [
    "norms, activation functions, softmax and the optimizer: few operations, though not little time",
    "pairs of tokens that a kernel need not compute: all are counted, masked or not",
    "padding, which is computed like text: count it as tokens",
    "loading data, validation, saving",
    "QLoRA’s restoring of each 4-bit matrix before it multiplies: no product, but it takes time",
  ];

  const tokensOf = (setting) => (setting.by === "tokens" ? setting.tokens : setting.steps * setting.batch * setting.seq);
  const runOf = (setting) => ({ model: setting.model, method: setting.method, rank: setting.rank, checkpointing: setting.checkpointing, seq: setting.seq, tokens: tokensOf(setting) });

  /** Why there is no time to give, or nothing. */
  function refusal(card, dtype) {
    if (card.peaks[dtype]) { return ""; }
    return `No time for the ${card.title} in ${dtype}: no dense peak is known for that, only for ${Object.keys(card.peaks).join(", ")}.${card.note.includes(dtype) ? ` It has ${card.note}.` : ""}`;
  }

  kit.define("flops_to_hours", (body) => {
    const address = kit.address("flops_to_hours");
    const setting = kit.choices(address.read(), START, CHOICES, LIMITS);
    const say = kit.announcer(body);
    const faults = new Map(); // by the label of the field

    const choose = (name, label) => kit.select({ label, value: String(setting[name]), options: CHOICES[name], onChange: (value) => change({ [name]: name === "rank" ? Number(value) : value }) });
    const whole = (name, label) => {
      const field = kit.number({ label, value: setting[name], min: LIMITS[name][0], max: LIMITS[name][1], onChange: (value) => { faults.delete(name); change({ [name]: value }); }, onFault: (sentence) => { faults.set(name, `${label}: ${sentence}`); change({}); } });
      return { ...field, name };
    };
    const rank = choose("rank", "Adapter rank");
    const [tokens, steps, batch] = [whole("tokens", "Tokens in all"), whole("steps", "Steps"), whole("batch", "Batch, sequences")];
    const fields = [
      choose("model", "Model"), choose("method", "Method"), rank, choose("by", "Length given in"), tokens, steps, batch, whole("seq", "Sequence, tokens"),
      kit.checkbox({ label: "Gradient checkpointing", checked: setting.checkpointing, onChange: (checked) => change({ checkpointing: checked }) }),
      choose("gpu", "Card"), choose("dtype", "Multiplies in"),
      kit.range({ label: "Share of the peak:", value: setting.percent, min: 1, max: 100, step: 1, say: (value) => `${value} %`, onChange: (percent) => change({ percent }) }),
    ];
    const shown = el("span");
    const slider = fields.at(-1);
    slider.root.querySelector("label").append(" ", shown);

    const headline = el("p", { class: "w-headline" });
    const overflow = el("p", { class: "w-note" });
    const bars = kit.stackedBars();
    const [facts, way, cards, forward] = [0, 1, 2, 3].map(() => el("div"));

    function drawBars(parts, total, rule) {
      const exponent = 3 * Math.floor(Math.log10(Math.max(total, rule)) / 3);
      const unit = 10 ** exponent;
      const keys = Object.keys(PARTS);
      bars.update({
        label: `Operations: ${keys.map((key) => `${PARTS[key]} ${kit.power(parts[key] || 0)}`).join(", ")}; by the rule of thumb ${kit.power(rule)}.`,
        unit: kit.power(unit, 0).replace("1 ", ""),
        max: (Math.max(total, rule) / unit) * 1.02,
        cursor: 0,
        limits: [],
        bars: [
          { name: "This run", total: kit.power(total), strong: true, parts: keys.map((key, i) => ({ key: String(i + 1), name: PARTS[key], shown: kit.power(parts[key]), value: parts[key] / unit, series: i + 1 })) },
          { name: "Rule of thumb, 6·N·D", total: kit.power(rule), strong: false, parts: [{ key: "", name: "6·N·D", shown: kit.power(rule), value: rule / unit, series: 6 }] },
        ],
      });
    }

    function drawTables(run, parts, total) {
      const found = flops.againstRule(run);
      const signed = (n) => (n === 0 ? "0" : `${n < 0 ? "−" : "+"} ${kit.power(Math.abs(n))}`);
      const part = (n) => { const percent = Math.abs(n / total) * 100; return `${n < 0 ? "−" : ""}${kit.fixed(percent, percent < 0.1 ? 2 : 1)} %`; };
      const rows = Object.entries(WAY).filter(([name]) => found[name] !== 0).map(([name, words]) => [words, name === "rule" ? kit.power(found[name]) : signed(found[name]), part(found[name])]);
      rows.push([el("strong", null, "Operations of this run"), el("strong", null, kit.power(total)), kit.share(1)]);
      const key = (i) => el("span", { class: `ml-key ml-key-${i + 1}` }, String(i + 1));
      way.replaceChildren(
        el("p", { class: "ml-legend" }, Object.entries(PARTS).map(([name, words], i) => parts[name] ? el("span", null, key(i), `${words}, ${kit.share(parts[name] / total)}`) : null).filter(Boolean)),
        kit.table("From the rule of thumb to the count", ["Step", "Operations", "Of the count"], rows),
      );
      const of = flops.forwardParts(models[run.model], run.seq);
      const all = flops.sum(of);
      forward.replaceChildren(kit.table(`A forward pass over ${kit.count(run.seq)} tokens`, ["Part", "Operations", "Share"], Object.entries(FORWARD).map(([name, words]) => [words, kit.power(of[name]), kit.share(of[name] / all)])));
    }

    function drawTimes(run, share) {
      const card = gpus[setting.gpu];
      const peak = card.peaks[setting.dtype];
      const seconds = flops.runSeconds(run, peak, share);
      const energy = flops.energyKwh(card, seconds);
      facts.replaceChildren(kit.table(`On the ${card.title}, in ${setting.dtype}`, ["Quantity", "Value"], [
        ["Dense peak", `${kit.fixed(peak / 1e12, 1)} TFLOP/s`],
        ["Time", kit.duration(seconds)],
        ["Tokens a second", kit.count(Number((run.tokens / seconds).toPrecision(3)))],
        ["Model FLOPs utilization (recomputation left out)", kit.share(flops.runMfu(run, peak, share))],
        ["Energy of the card at its power limit", energy === null ? "not published" : `${Number(energy.toPrecision(3))} kWh`],
      ]));
      return seconds;
    }

    function drawCards(run, share) {
      const rows = Object.values(gpus).map((card) => {
        const peak = card.peaks[setting.dtype];
        return [card.title, peak ? kit.fixed(peak / 1e12, 1) : "–", peak ? kit.duration(flops.runSeconds(run, peak, share)) : "no peak"];
      });
      cards.replaceChildren(kit.table(`The same run on other cards, in ${setting.dtype}, at ${setting.percent} % of each dense peak`, ["Card", "TFLOP/s", "Time"], rows));
    }

    function draw() {
      const run = runOf(setting);
      const parts = flops.runFlops(run);
      const total = flops.sum(parts);
      const rule = flops.againstRule(run).rule;
      const card = gpus[setting.gpu];
      const fault = refusal(card, setting.dtype);
      const { title, overflows_in: overflowsIn } = models[setting.model];
      overflow.textContent = overflowsIn.includes(setting.dtype) ? `Warning: ${memoryData.caveats.overflow}.` : "";
      facts.hidden = fault !== "";
      const work = `${METHODS[setting.method]} of ${title} on ${kit.count(run.tokens)} tokens: ${kit.power(total)} operations, ${kit.fixed(total / rule, 2)} times 6·N·D.`;
      const time = fault || `On the ${card.title}, at ${setting.percent} % of its peak: ${kit.duration(drawTimes(run, setting.percent / 100))}.`;
      headline.textContent = `${work} ${time}`;
      drawBars(parts, total, rule);
      drawTables(run, parts, total);
      drawCards(run, setting.percent / 100);
      return headline.textContent;
    }

    /** Show the changed setting; returns what there is to say about it. */
    function show(update) {
      Object.assign(setting, update);
      rank.root.hidden = setting.method === "full";
      tokens.root.hidden = setting.by !== "tokens";
      steps.root.hidden = batch.root.hidden = setting.by === "tokens";
      shown.textContent = `${setting.percent}\u00a0%`;
      // What is hidden cannot be wrong.
      const wrong = [...faults].filter(([name]) => !fields.find((field) => field.name === name).root.hidden).map(([, sentence]) => sentence);
      results.classList.toggle("w-stale", wrong.length > 0);
      if (wrong.length) {
        headline.textContent = `No estimate yet. ${wrong.join(" ")}`;
        return headline.textContent;
      }
      return draw();
    }
    function change(update) {
      say(show(update));
      address.write(setting);
    }

    const details = (words, ...content) => el("details", { class: "w-details" }, el("summary", null, words), content);
    const results = el("div", null, overflow, facts, bars.root, way,
      details("The same run on other cards", cards), details("What a forward pass spends its operations on", forward));
    body.append(el("div", { class: "w-fields ml-fields" }, fields.map((field) => field.root)), headline, results,
      details("What the count and the time leave out", el("ul", null, LEFT_OUT.map((words) => el("li", null, words)))));
    show({});
  });
})();
