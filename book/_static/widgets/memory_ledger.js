// The memory ledger: choose a model and how it is trained, and see where every byte of the peak goes and which cards hold it.
(function () {
  "use strict";
  const { kit, memory, memoryData: data } = window.oneGpu;
  const { el } = kit;
  const GIB = 2 ** 30;

  const GROUPS = ["Weights", "Gradients", "Optimizer", "Activations", "Logits and loss", "Fixed"];
  // Which group each part belongs to, and what it is.
  const PARTS = {
    weights: [0, "Weights"],
    quantized_weights: [0, "Quantized weights, with their scales"],
    kept_weights: [0, "Weights that are not quantized"],
    adapters: [0, "LoRA adapters"],
    autocast_weights: [0, "16-bit copies that autocast makes"],
    dequantized_weight: [0, "One matrix, dequantized to multiply"],
    gradients: [1, "Gradients of trained weights"],
    accumulated_gradients: [1, "Accumulated gradients"],
    ddp_buckets: [1, "Buckets of data parallel training"],
    head_gradient: [1, "Gradient of the output head"],
    embedding_gradient: [1, "Gradient of the embedding"],
    optimizer_state: [2, "Optimizer state"],
    step_temporary: [2, "What one step allocates"],
    activations: [3, "Activations kept for backward"],
    block: [3, "The block that backward is in"],
    attention_mask: [3, "Attention mask"],
    logits: [4, "Logits"],
    logits_and_loss: [4, "Logits and the loss’s copies of them"],
    batch: [5, "Token ids and labels"],
    cublas_workspace: [5, "Workspace of the matrix library"],
    cuda_context: [5, "CUDA context"],
  };
  const METHODS = { full: "Full fine-tuning", lora: "LoRA", qlora: "QLoRA" };
  const CHOICES = {
    model: Object.entries(data.models).map(([name, model]) => [name, model.title]),
    method: Object.entries(METHODS),
    precision: [["bfloat16", "bfloat16"], ["bfloat16-mixed", "bfloat16, mixed"], ["float16", "float16"], ["float16-mixed", "float16, mixed"], ["float32", "float32"]],
    optimizer: [["adamw", "AdamW"], ["adamw8bit", "AdamW, 8-bit"], ["paged_adamw8bit", "AdamW, 8-bit, paged"], ["adafactor", "Adafactor"], ["momentum", "SGD with momentum"], ["sgd", "SGD"]],
    attention: [["sdpa", "fused (SDPA)"], ["eager", "eager"]],
    quantization: [["nf4-dq", "NF4, double"], ["nf4", "NF4"]],
    rank: [4, 8, 16, 32, 64, 128].map((rank) => [String(rank), String(rank)]),
  };
  const START = { model: "gemma3-4b", method: "full", precision: "bfloat16", optimizer: "adamw", batch: 1, seq: 1024, checkpointing: false, attention: "sdpa", quantization: "nf4-dq", rank: 16 };
  const LIMITS = { batch: [1, 1024], seq: [1, 131072] };
  const HEADROOM = 0.1; // a share kept free for what the estimate leaves out
  const SEQUENCES = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

  /** Bytes of each group at one moment, and of each part above zero. */
  function account(parts, moment) {
    const named = Object.entries({ ...parts.always }).concat(Object.entries(parts[moment])).filter(([, bytes]) => bytes > 0);
    const groups = GROUPS.map(() => 0);
    for (const [name, bytes] of named) { groups[PARTS[name][0]] += bytes; }
    named.sort(([a], [b]) => PARTS[a][0] - PARTS[b][0]);
    return { named, groups, total: groups.reduce((a, b) => a + b, 0) };
  }

  function verdict(card, peak) {
    const free = card.bytes - peak;
    if (free < 0) { return { mood: "bad", verdict: `✗ ${kit.bytes(-free)} short` }; }
    return peak <= card.bytes * (1 - HEADROOM) ? { mood: "good", verdict: `✓ fits, ${kit.bytes(free)} free` } : { mood: "warn", verdict: `! tight, ${kit.bytes(free)} free` };
  }

  const title = (setting) => `${METHODS[setting.method]} of ${data.models[setting.model].title}`;

  kit.define("memory_ledger", (body) => {
    const address = kit.address("memory_ledger");
    const setting = kit.choices(address.read(), START, CHOICES, LIMITS);
    const say = kit.announcer(body);
    const faults = new Map(); // by the label of the field

    const choose = (name, label) => kit.select({ label, value: String(setting[name]), options: CHOICES[name], onChange: (value) => change({ [name]: name === "rank" ? Number(value) : value }) });
    const whole = (name, label) => kit.number({ label, value: setting[name], min: LIMITS[name][0], max: LIMITS[name][1], onChange: (value) => { faults.delete(label); change({ [name]: value }); }, onFault: (sentence) => { faults.set(label, sentence); change({}); } });
    const rank = choose("rank", "Adapter rank");
    const quantization = choose("quantization", "Base weights in");
    const fields = [
      choose("model", "Model"), choose("method", "Method"), quantization, rank, choose("precision", "Precision"), choose("optimizer", "Optimizer"),
      whole("batch", "Batch, sequences"), whole("seq", "Sequence, tokens"), choose("attention", "Attention"),
      kit.checkbox({ label: "Gradient checkpointing", checked: setting.checkpointing, onChange: (checked) => change({ checkpointing: checked }) }),
    ];

    const headline = el("p", { class: "ml-headline" });
    const bars = kit.stackedBars();
    const [emulation, overflow, unfused] = [1, 2, 3].map(() => el("p", { class: "w-note" }));
    const parts = el("div");
    const lines = kit.linePlot();
    const lineTable = kit.tableToggle();

    function drawBars(found, peak) {
      const moments = Object.keys(found).filter((name) => name !== "always");
      const accounts = moments.map((name) => [name, account(found, name)]);
      const cards = data.gpus.map((card) => ({ name: card.title, value: card.bytes / GIB, ...verdict(card, peak.bytes) }));
      bars.update({
        label: `Memory at each moment of a training step: ${accounts.map(([name, a]) => `${name} ${kit.bytes(a.total)}`).join(", ")}. Cards: ${cards.map((card) => `${card.name} ${card.verdict}`).join("; ")}.`,
        unit: "GiB",
        max: Math.max(26, (peak.bytes / GIB) * 1.08),
        cursor: peak.bytes / GIB,
        bars: accounts.map(([name, a]) => ({
          name: `${name[0].toUpperCase()}${name.slice(1)}${name === peak.moment ? ": the peak" : ""}`,
          total: kit.bytes(a.total),
          strong: name === peak.moment,
          parts: a.groups.map((bytes, i) => ({ key: String(i + 1), name: GROUPS[i], shown: kit.bytes(bytes), value: bytes / GIB, series: i + 1 })),
        })),
        limits: cards,
      });
    }

    function drawTable(found, peak) {
      const { named, total } = account(found, peak.moment);
      const key = (group) => el("span", { class: `ml-key ml-key-${group + 1}`, title: GROUPS[group] }, String(group + 1));
      const rows = named.map(([name, bytes]) => [[key(PARTS[name][0]), PARTS[name][1]], kit.bytes(bytes), kit.share(bytes / total)]);
      rows.push([el("strong", null, "Total at the peak"), el("strong", null, kit.bytes(total)), kit.share(1)]);
      parts.replaceChildren(
        el("p", { class: "ml-legend" }, GROUPS.map((name, i) => el("span", null, key(i), name))),
        kit.table(`Where the peak goes: ${title(setting)}`, ["Part", "Memory", "Share"], rows),
      );
    }

    function drawLines() {
      const peaks = Object.keys(METHODS).map((method) => SEQUENCES.map((seq) => memory.peakOf(memory.trainingMemory({ ...setting, method, seq })).bytes / GIB));
      const chosen = peaks[Object.keys(METHODS).indexOf(setting.method)];
      lines.update({
        label: `Peak memory against the length of the sequence, for ${Object.values(METHODS).join(", ")}; the numbers are in the table below.`,
        xs: SEQUENCES,
        xName: "Sequence, tokens",
        yName: "Peak, GiB",
        yMax: Math.min(90, Math.max(18, chosen[5] * 1.1)),
        series: Object.values(METHODS).map((name, i) => ({ name, ys: peaks[i], series: i + 1 })),
        limits: data.gpus.map((card) => ({ name: card.title, value: card.bytes / GIB })),
        at: setting.seq,
      });
      lineTable.update("Peak by length of the sequence, GiB", ["Sequence, tokens", ...Object.values(METHODS)],
        SEQUENCES.map((seq, i) => [kit.count(seq), ...peaks.map((ys) => kit.fixed(ys[i], 2))]));
    }

    function summary(peak) {
      const fitting = data.gpus.find((card) => verdict(card, peak.bytes).mood === "good");
      return `${title(setting)} peaks at ${kit.bytes(peak.bytes)} (${peak.moment}). ${fitting ? `The smallest card here that holds it with a tenth to spare: ${fitting.title}.` : "No card here holds it with a tenth to spare."}`;
    }

    function draw() {
      const found = memory.trainingMemory(setting);
      const peak = memory.peakOf(found);
      rank.root.hidden = setting.method === "full";
      quantization.root.hidden = setting.method !== "qlora";
      headline.textContent = summary(peak);
      const low = setting.precision.replace("-mixed", "");
      const emulating = data.gpus.filter((card) => !card.native.includes(low)).map((card) => card.title);
      emulation.textContent = emulating.length ? `Without units for ${low}, which works there but slowly: ${emulating.join(", ")}.` : "";
      const { overflows_in: overflowsIn, unfused: layers, sliding_window: window, global_layers: all, local_layers: local } = data.models[setting.model];
      overflow.textContent = overflowsIn.includes(low) ? `Warning: ${data.caveats.overflow}.` : "";
      const kept = layers[data.formats[setting.method][setting.precision].attention][Number(window !== null && setting.seq >= window)];
      unfused.textContent = setting.attention === "eager" ? "" : (kept ? data.caveats.unfused : data.caveats.fused).replace("{layers}", kept).replace("{all_layers}", all + local);
      drawBars(found, peak);
      drawTable(found, peak);
      drawLines();
      return headline.textContent;
    }

    function change(update) {
      Object.assign(setting, update);
      results.classList.toggle("w-stale", faults.size > 0);
      if (faults.size) {
        headline.textContent = `No estimate yet. ${[...faults].map(([label, sentence]) => `${label}: ${sentence}`).join(" ")}`;
        say(headline.textContent);
        return;
      }
      say(draw());
      address.write(setting);
    }

    const results = el("div", null, overflow, bars.root, emulation, unfused, parts,
      el("details", { class: "w-details" }, el("summary", null, "How it grows with the sequence"), lines.root, lineTable.root));
    body.append(
      el("div", { class: "w-fields ml-fields" }, fields.map((field) => field.root)), headline, results,
      el("details", { class: "w-details" }, el("summary", null, "What the estimate leaves out"), el("ul", null, data.left_out.map((words) => el("li", null, words)))),
    );
    draw();
  });

  Object.assign(window.oneGpu, { ledgerParts: Object.keys(PARTS) });
})();
