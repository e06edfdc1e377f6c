// Peak memory of a training step: the estimators of `solutions/` in JavaScript, function by function under the same names,
// so that a change there is easy to make here. Shapes, formats, sizes of tensors and constants come from Python
// (memory_ledger_data.js); a test compares every part with Python over a grid of settings.
(function () {
  "use strict";
  const { constants: c, formats, models } = window.oneGpu.memoryData;
  const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);

  // ---- solutions/activations.py. `t` is a setting prepared by `training`: `m` its model, `f` its formats, `b` their bytes

  const isGemma = (m) => m.norms_per_layer === 4;
  const isGpt2 = (m) => m.norm_bias && m.learned_positions > 0;
  const isFull = (t) => t.method === "full";
  const tokensOf = (t) => t.batch * t.seq;
  const pairsOf = (t) => t.batch * t.m.heads * t.seq * t.seq;

  function normBytes(t, rows, width, value) {
    const values = rows * width;
    if (t.m.norm_bias) { return value * values + 2 * 4 * rows; }
    let saved = 4 * (values + rows);
    if (isGemma(t.m)) { saved += 4 * width; }
    if (isFull(t)) { saved += (isGemma(t.m) ? 4 : value) * values; }
    return saved;
  }

  function attentionBytes(t, local) {
    const { m, b } = t;
    const masked = local && m.sliding_window !== null && t.seq >= m.sliding_window;
    const eager = t.attention === "eager";
    const repeated = eager || masked;
    const view = m.kv_heads === 1 && !(eager && t.batch > 1);
    const cast = b.residual !== b.attention;
    const keyHeads = repeated && (cast || !view) ? m.heads : m.kv_heads;
    const valueHeads = repeated && !view ? m.heads : m.kv_heads;
    let saved = b.attention * tokensOf(t) * (m.heads + keyHeads + valueHeads) * m.head_dim;
    if (eager) {
      if (isGpt2(m) && !t.f.autocast) { return saved + b.attention * pairsOf(t); }
      return saved + (4 + narrow(t)) * pairsOf(t);
    }
    saved += b.attention * tokensOf(t) * m.heads * m.head_dim + 4 * t.batch * m.heads * t.seq;
    if (masked) { saved += b.attention * t.batch * t.seq * t.seq; }
    return saved;
  }
  const narrow = (t) => (t.b.attention === 4 ? 0 : t.b.attention);

  // `count` projections read one tensor. Each is trained, or has an adapter ("all-linear").
  function inputBytes(t, count, width, value, afterAttention) {
    const adapters = count * (isFull(t) ? 0 : t.rank) * t.b.kept * tokensOf(t);
    if (t.f.recast || t.b.kept !== value) { return count * t.b.kept * tokensOf(t) * width + adapters; }
    return (afterAttention && t.attention === "sdpa" ? 0 : value * tokensOf(t) * width) + adapters;
  }
  const queryInputBytes = (t) => inputBytes(t, isGpt2(t.m) ? 1 : 3, t.m.hidden, t.b.residual);
  const downInputBytes = (t) => inputBytes(t, 1, t.m.intermediate, t.b.linear);
  const projectionBytes = (t) =>
    queryInputBytes(t) + inputBytes(t, 1, t.m.heads * t.m.head_dim, t.b.attention, true) + inputBytes(t, t.m.gated ? 2 : 1, t.m.hidden, t.b.residual) + downInputBytes(t);

  const mlpBytes = (t) => t.b.linear * tokensOf(t) * t.m.intermediate * (t.m.gated ? 3 : 4);
  const hiddenNormBytes = (t) => normBytes(t, tokensOf(t), t.m.hidden, t.b.residual);
  const queryNormBytes = (t) => (t.m.qk_norm ? sum([t.m.heads, t.m.kv_heads].map((count) => normBytes(t, tokensOf(t) * count, t.m.head_dim, t.b.linear))) : 0);
  const layerBytes = (t, local) => t.m.norms_per_layer * hiddenNormBytes(t) + queryNormBytes(t) + projectionBytes(t) + attentionBytes(t, local) + mlpBytes(t);

  function outerBytes(t) {
    let saved = hiddenNormBytes(t);
    if (isFull(t)) { saved += t.b.kept * tokensOf(t) * t.m.hidden + 8 * tokensOf(t) * (t.m.learned_positions ? 2 : 1); }
    return saved;
  }

  const kinds = (m) => (m.global_layers > 0) + (m.local_layers > 0);
  const rotaryBytes = (t) => (t.m.learned_positions ? 0 : kinds(t.m) * 2 * t.b.residual * t.seq * t.m.head_dim);
  const boundaryBytes = (t) => t.b.residual * tokensOf(t) * t.m.hidden;
  const blocksBytes = (t) => t.m.global_layers * layerBytes(t, false) + t.m.local_layers * layerBytes(t, true);

  // ---- solutions/backward.py

  function mlpBackwardBytes(t, local) {
    const width = tokensOf(t) * t.m.intermediate;
    const kept = downInputBytes(t);
    const casts = (isFull(t) ? 0 : kept) + (t.f.recast ? t.b.trained * width : 0);
    const gradients = Math.max(t.b.linear * width + casts, (t.m.gated ? 3 : 2) * t.b.linear * width - kept);
    return layerBytes(t, local) + gradients + 2 * boundaryBytes(t) - (isGemma(t.m) ? hiddenNormBytes(t) : 0);
  }

  const softmaxBackwardBytes = (t, local) =>
    hiddenNormBytes(t) + queryNormBytes(t) + queryInputBytes(t) + attentionBytes(t, local) - narrow(t) * pairsOf(t) + 2 * 4 * pairsOf(t) + 2 * boundaryBytes(t);

  const blockBackwardBytes = (t, local) =>
    t.attention === "sdpa" ? mlpBackwardBytes(t, local) : Math.max(mlpBackwardBytes(t, local), softmaxBackwardBytes(t, local));

  // ---- solutions/optimizers.py

  const quantizedMoments = (values) => 2 * (values + 4 * Math.ceil(values / c.state_block));

  function stateBytes(t) {
    const quantized = t.optimizer.endsWith("adamw8bit");
    let tables = 0;
    const total = sum(t.trained.map(([shape, count]) => {
      const values = shape.reduce((a, b) => a * b, 1);
      if (t.optimizer === "adafactor") { return count * 4 * (shape.length < 2 ? values : shape[0] + shape[1]); }
      if (!quantized) { return count * { sgd: 0, momentum: 1, adamw: 2 }[t.optimizer] * t.b.trained * values; }
      if (values < c.min_8bit_values) { return count * 8 * values; }
      tables = c.code_tables_bytes;
      return count * quantizedMoments(values);
    }));
    return total + tables;
  }

  function stepTemporaryBytes(t) {
    if (t.optimizer === "adamw") { return t.trainedParameters * t.b.trained; }
    if (t.optimizer !== "adafactor") { return 0; }
    return (t.b.trained === 4 ? 2 : 4) * 4 * Math.max(...t.trained.map(([shape]) => shape.reduce((a, b) => a * b, 1)));
  }

  // ---- solutions/lora.py, with adapters on every linear layer but the head

  const loraParameters = (m, rank) => sum(m.linear.map(([inputs, outputs, count]) => rank * (inputs + outputs) * count));

  // ---- solutions/training_memory.py

  function training(setting) {
    const m = models[setting.model];
    const f = formats[setting.method][setting.precision];
    const b = Object.fromEntries(Object.entries(f).map(([kind, dtype]) => [kind, c.value_bytes[dtype]]));
    const trained = setting.method === "full" ? m.tensors : m.linear.flatMap(([inputs, outputs, count]) => [[[setting.rank, inputs], count], [[outputs, setting.rank], count]]);
    const trainedParameters = setting.method === "full" ? m.parameters : loraParameters(m, setting.rank);
    return { ...setting, m, f, b, trained, trainedParameters, low: c.value_bytes[setting.precision.replace("-mixed", "")] };
  }

  function weightParts(t) {
    const { m, b } = t;
    if (isFull(t)) { return { weights: m.parameters * b.weights }; }
    const adapters = t.trainedParameters * b.trained;
    if (t.method === "lora") { return { weights: m.parameters * b.weights, adapters }; }
    return { quantized_weights: m.quantized_bytes[t.quantization], kept_weights: m.kept_weights * b.weights, adapters };
  }

  const headWeights = (t) => t.m.vocab * t.m.hidden;
  const headGradientBytes = (t) => (isFull(t) ? headWeights(t) * t.b.trained : 0);
  const castBlocksBytes = (t) => (t.f.autocast ? t.low * (isFull(t) ? t.m.linear_weights : t.trainedParameters) : 0);
  const castHeadBytes = (t) => (t.f.autocast && t.b.weights === 4 ? t.low * headWeights(t) : 0);
  const savedBlocksBytes = (t) => (t.checkpointing ? t.m.layers * boundaryBytes(t) : blocksBytes(t));

  function maskBytes(t) {
    const pairs = t.batch * t.seq * t.seq;
    if (t.attention === "eager") { return kinds(t.m) * t.b.residual * pairs; }
    return t.m.sliding_window !== null && t.m.local_layers && t.seq >= t.m.sliding_window ? pairs : 0;
  }

  function blockParts(t, logits) {
    let block = Math.max(...[false, true].filter((local) => (local ? t.m.local_layers : t.m.global_layers)).map((local) => blockBackwardBytes(t, local)));
    if (t.checkpointing && t.b.residual !== 4) { block += boundaryBytes(t); }
    return {
      block,
      autocast_weights: t.checkpointing ? Math.floor(castBlocksBytes(t) / t.m.layers) : castBlocksBytes(t),
      dequantized_weight: t.method === "qlora" ? t.low * t.m.largest_linear : 0,
      logits,
      attention_mask: maskBytes(t),
    };
  }

  /** Bytes by moment and part, {always: {weights: …}, loss: {…}, …}, as Python's `training_memory(…).by_moment()`. */
  function trainingMemory(setting) {
    const t = training(setting);
    const { layers, tied } = t.m;
    const gradients = t.trainedParameters * t.b.trained;
    const logits = t.b.logits * tokensOf(t) * t.m.vocab;
    const head = headGradientBytes(t);
    return {
      always: {
        ...weightParts(t),
        optimizer_state: stateBytes(t),
        accumulated_gradients: 0,
        ddp_buckets: 0,
        batch: 2 * 8 * tokensOf(t),
        cublas_workspace: c.cublas_workspace_bytes,
        cuda_context: c.cuda_context_bytes,
      },
      loss: {
        activations: outerBytes(t) + rotaryBytes(t) + savedBlocksBytes(t),
        autocast_weights: castHeadBytes(t) + (t.checkpointing ? 0 : castBlocksBytes(t)),
        logits_and_loss: logits + c.loss_tensors * 4 * tokensOf(t) * t.m.vocab,
        attention_mask: maskBytes(t),
      },
      "backward, last block": {
        activations: Math.floor((savedBlocksBytes(t) * (layers - 1)) / layers),
        ...blockParts(t, logits),
        head_gradient: head,
      },
      "backward, first block": {
        ...blockParts(t, logits),
        gradients: Math.floor(((gradients - head * (tied ? 1 : 2)) * (layers - 1)) / layers),
        head_gradient: head,
      },
      "end of backward": { gradients, embedding_gradient: tied ? head : 0, logits },
      "optimizer step": { gradients, step_temporary: stepTemporaryBytes(t), logits },
    };
  }

  /** The moment with the most bytes, and those bytes with what is always there. */
  function peakOf(parts) {
    const total = (named) => sum(Object.values(named));
    const moments = Object.keys(parts).filter((name) => name !== "always");
    const peak = moments.reduce((best, name) => (total(parts[name]) > total(parts[best]) ? name : best));
    return { moment: peak, bytes: total(parts.always) + total(parts[peak]) };
  }

  Object.assign(window.oneGpu, { memory: { training, trainingMemory, peakOf, weightParts, blocksBytes, loraParameters } });
})();
