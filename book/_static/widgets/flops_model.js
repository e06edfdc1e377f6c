// Operations, time, and bytes moved: `solutions/flops.py`, `run_cost.py`, `traffic.py` and `roofline.py` in JavaScript, function by
// function under the same names. Shapes and everything that memory_model.js already works out come from there, cards from
// flops_data.js; tests compare every result with Python over a grid of settings.
(function () {
  "use strict";
  const { memory, memoryData, flopsData } = window.oneGpu;
  const { models, constants: c } = memoryData;
  const sum = (amounts) => Object.values(amounts).reduce((total, amount) => total + amount, 0);

  // ---- solutions/flops.py: of one sequence, `m` being a model's sizes

  const projectionFlops = (m, tokens) => 4 * tokens * m.layers * m.hidden * m.head_dim * (m.heads + m.kv_heads);
  const mlpFlops = (m, tokens) => 2 * tokens * m.linear_weights - projectionFlops(m, tokens);
  const headFlops = (m, tokens) => 2 * tokens * m.hidden * m.vocab;
  const scoreFlops = (m, seq) => 4 * m.heads * m.head_dim * m.layers * seq ** 2;

  /** Operations of a forward pass over one sequence, by part. */
  const forwardParts = (m, seq) => ({ mlp: mlpFlops(m, seq), projections: projectionFlops(m, seq), scores: scoreFlops(m, seq), head: headFlops(m, seq) });

  function adapterFlops(m, tokens, rank, checkpointing) {
    return (checkpointing ? 4 : 3) * 2 * tokens * memory.loraParameters(m, rank);
  }

  const prefillFlops = (m, batch, prompt) => batch * (sum(forwardParts(m, prompt)) - headFlops(m, prompt) + headFlops(m, 1));

  function decodeFlops(m, batch, context) {
    const pairs = m.global_layers * context + m.local_layers * Math.min(context, m.sliding_window || context);
    return batch * (sum(forwardParts(m, 1)) - scoreFlops(m, 1) + 4 * m.heads * m.head_dim * pairs);
  }

  // ---- solutions/run_cost.py: `run` is {model, tokens, seq, method, checkpointing, rank}

  /** Operations of a run by part, {forward, backward, recomputed, adapters}. */
  function runFlops(run) {
    const m = models[run.model];
    const sequences = run.tokens / run.seq;
    const forward = sum(forwardParts(m, run.seq));
    const scores = scoreFlops(m, run.seq);
    return {
      forward: sequences * forward,
      backward: sequences * (run.method === "full" ? 2 * forward : forward + scores),
      recomputed: run.checkpointing ? sequences * (forward - headFlops(m, run.seq)) : 0,
      adapters: run.method === "full" ? 0 : sequences * adapterFlops(m, run.seq, run.rank, run.checkpointing),
    };
  }

  /** What leads from 6·N·D to the run's operations; the parts add up. */
  function againstRule(run) {
    const m = models[run.model];
    const weights = m.linear_weights + m.hidden * m.vocab;
    const { recomputed, adapters } = runFlops(run);
    return {
      rule: 6 * m.parameters * run.tokens,
      scores: (3 * run.tokens * scoreFlops(m, run.seq)) / run.seq,
      "not multiplied": -6 * (m.parameters - weights) * run.tokens,
      frozen: run.method === "full" ? 0 : -2 * weights * run.tokens,
      recomputed,
      adapters,
    };
  }

  const runSeconds = (run, peak, utilization) => sum(runFlops(run)) / (peak * utilization);
  const runMfu = (run, peak, utilization) => sum(runFlops({ ...run, checkpointing: false })) / runSeconds(run, peak, utilization) / peak;

  /** Energy of the card alone at its power limit; null where that is not published. */
  const energyKwh = (card, seconds) => (card.tdp_w === null ? null : (card.tdp_w * seconds) / 3.6e6);

  // ---- solutions/memory.py and traffic.py: `weights` is "" for the format itself, or a scheme

  const valueBytes = (dtype) => c.value_bytes[dtype === "tfloat32" ? "float32" : dtype];

  function kvCacheBytes(m, batch, seq, dtype) {
    const tokens = m.global_layers * seq + m.local_layers * Math.min(seq, m.sliding_window || seq);
    return 2 * batch * tokens * m.kv_heads * m.head_dim * valueBytes(dtype);
  }

  const lookedUp = (m) => (m.tied ? 0 : m.vocab * m.hidden) + m.learned_positions * m.hidden;

  /** Bytes of all weights, as `solutions.inference_memory.weight_parts` adds them up. */
  const weightBytes = (m, dtype, weights) => (weights ? m.quantized_bytes[weights] + m.kept_weights * valueBytes(dtype) : m.parameters * valueBytes(dtype));
  const readWeightBytes = (m, dtype, weights) => weightBytes(m, dtype, weights) - lookedUp(m) * valueBytes(dtype);

  /** Of reading prompts, and of a decoding step: the weights once, and the cache. */
  const generationBytesMoved = (m, batch, tokens, dtype, weights) => readWeightBytes(m, dtype, weights) + kvCacheBytes(m, batch, tokens, dtype);

  /** `setting` is the ledger's. */
  function trainingBytesMoved(setting) {
    const t = memory.training(setting);
    const { always, loss, "end of backward": end } = memory.trainingMemory(setting);
    const read = sum(memory.weightParts(t)) - lookedUp(t.m) * t.b.weights;
    const kept = loss.activations + (t.checkpointing ? memory.blocksBytes(t) : 0);
    return (t.checkpointing ? 3 : 2) * read + 2 * (kept + loss.logits_and_loss + end.gradients + always.optimizer_state + t.trainedParameters * t.b.trained);
  }

  // ---- solutions/roofline.py

  /** Where work of `flops` operations and `bytes` lies under a roof: {flops, bytes, intensity, attainable, memoryBound, seconds}. */
  function placed(flops, bytes, peak, bandwidth) {
    const intensity = flops / bytes;
    const attainable = Math.min(peak, intensity * bandwidth);
    return { flops, bytes, intensity, attainable, memoryBound: bytes / bandwidth > flops / peak, seconds: flops / attainable };
  }

  // ---- the three kinds of work; `work` is {model, gpu, dtype, weights, batch, prompt, context, method, sequences, seq, checkpointing}

  /** The ledger's setting for the training of `work`. */
  const trainingSetting = (work) => ({
    model: work.model, method: work.method, precision: work.dtype === "tfloat32" ? "float32" : work.dtype, optimizer: "adamw", attention: "sdpa",
    quantization: "nf4-dq", rank: 16, checkpointing: work.checkpointing, batch: work.sequences, seq: work.seq,
  });

  /** Each kind of work under the roof of its card. */
  function placeWork(work) {
    const m = models[work.model];
    const { peaks, bandwidth } = flopsData.gpus[work.gpu];
    const at = (flops, bytes) => placed(flops, bytes, peaks[work.dtype], bandwidth);
    const run = { ...work, tokens: work.sequences * work.seq, rank: 16 };
    return {
      prefill: at(prefillFlops(m, work.batch, work.prompt), generationBytesMoved(m, work.batch, work.prompt, work.dtype, work.weights)),
      decode: at(decodeFlops(m, work.batch, work.context), generationBytesMoved(m, work.batch, work.context, work.dtype, work.weights)),
      training: at(sum(runFlops(run)), trainingBytesMoved(trainingSetting(work))),
    };
  }

  /** Bytes that each kind of work needs at least: generation without what it holds for a moment, training at its peak. */
  function memoryNeeded(work) {
    const m = models[work.model];
    const generation = (tokens) => weightBytes(m, work.dtype, work.weights) + kvCacheBytes(m, work.batch, tokens, work.dtype);
    return { prefill: generation(work.prompt), decode: generation(work.context), training: memory.peakOf(memory.trainingMemory(trainingSetting(work))).bytes };
  }

  Object.assign(window.oneGpu, { flops: { sum, forwardParts, runFlops, againstRule, runSeconds, runMfu, energyKwh, placeWork, memoryNeeded } });
})();
