// Numbers and the formats that store them, exactly: every value is a fraction of two BigInts, so rounding agrees bit
// for bit with the Python reference. No page is touched here; format_explorer.js shows what this computes.
(function () {
  "use strict";

  // A value is {kind: "finite", negative, num, den} with num >= 0 and den > 0, {kind: "infinity", negative} or {kind: "nan"}.
  const NAN = { kind: "nan" };
  const infinity = (negative) => ({ kind: "infinity", negative });
  const finite = (negative, num, den = 1n) => ({ kind: "finite", negative, num, den });

  // specials: "ieee" has infinities and NaN, "fn" has NaN alone (all ones), "finite" has neither.
  const FORMATS = [
    { id: "fp32", name: "FP32", code: "float32", exponent: 8, mantissa: 23, specials: "ieee" },
    { id: "tf32", name: "TF32", code: "tfloat32", exponent: 8, mantissa: 10, specials: "ieee" },
    { id: "bf16", name: "BF16", code: "bfloat16", exponent: 8, mantissa: 7, specials: "ieee" },
    { id: "fp16", name: "FP16", code: "float16", exponent: 5, mantissa: 10, specials: "ieee" },
    { id: "e4m3", name: "FP8 E4M3", code: "float8_e4m3fn", exponent: 4, mantissa: 3, specials: "fn" },
    { id: "e5m2", name: "FP8 E5M2", code: "float8_e5m2", exponent: 5, mantissa: 2, specials: "ieee" },
    { id: "e2m1", name: "FP4 E2M1", code: "float4_e2m1fn", exponent: 2, mantissa: 1, specials: "finite" },
    { id: "int8", name: "INT8", code: "int8", integer: true },
  ];
  const width = (format) => (format.integer ? 8 : 1 + format.exponent + format.mantissa);

  // ---- whole numbers and fractions

  const bitLength = (n) => n.toString(2).length;
  const power = (base, exponent) =>
    exponent >= 0 ? { num: base ** BigInt(exponent), den: 1n } : { num: 1n, den: base ** BigInt(-exponent) };

  /** num / den, rounded to the nearest whole number, ties to even. */
  function divideRounding(num, den) {
    const quotient = num / den;
    const twice = 2n * (num % den);
    return twice > den || (twice === den && quotient % 2n === 1n) ? quotient + 1n : quotient;
  }

  /** Largest e with 2^e <= num / den. */
  function floorLog2(num, den) {
    const guess = bitLength(num) - bitLength(den);
    const scaled = guess >= 0 ? num >= den << BigInt(guess) : num << BigInt(-guess) >= den;
    return scaled ? guess : guess - 1;
  }

  function compare(a, b) {
    const signed = (v) => (v.negative ? -v.num : v.num);
    const difference = signed(a) * b.den - signed(b) * a.den;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  // ---- floating-point formats

  const bias = (format) => 2 ** (format.exponent - 1) - 1;

  /** Largest code, without its sign, that is a finite number. */
  function largestCode(format) {
    const all = 2 ** (format.exponent + format.mantissa) - 1;
    if (format.specials === "ieee") { return all - 2 ** format.mantissa; }
    return format.specials === "fn" ? all - 1 : all;
  }

  function decodeFloat(format, bits) {
    const magnitude = bits % 2 ** (format.exponent + format.mantissa);
    const negative = bits >= 2 ** (format.exponent + format.mantissa);
    if (magnitude > largestCode(format)) {
      return format.specials === "ieee" && magnitude === largestCode(format) + 1 ? infinity(negative) : NAN;
    }
    const stored = Math.floor(magnitude / 2 ** format.mantissa);
    const fraction = magnitude % 2 ** format.mantissa;
    // A stored exponent of 0 marks a subnormal: no hidden bit, and the exponent of the smallest normal numbers.
    const significand = BigInt(stored === 0 ? fraction : fraction + 2 ** format.mantissa);
    const scale = power(2n, Math.max(stored, 1) - bias(format) - format.mantissa);
    return finite(negative, significand * scale.num, scale.den);
  }

  const nanCode = (format) => largestCode(format) + (format.specials === "fn" ? 1 : 1 + 2 ** (format.mantissa - 1));

  // overflow: "infinity", "saturate" or "nan"; where the format cannot follow, the largest finite number is stored.
  function encodeFloat(format, value, overflow) {
    if (value.kind === "nan") { return format.specials === "finite" ? null : nanCode(format); }
    const sign = value.negative ? 2 ** (format.exponent + format.mantissa) : 0;
    const largest = largestCode(format);
    let magnitude = largest + 1;
    if (value.kind === "finite") {
      magnitude = 0;
      if (value.num > 0n) {
        const smallest = 1 - bias(format);
        const exponent = Math.max(floorLog2(value.num, value.den), smallest);
        const step = power(2n, exponent - format.mantissa);
        const steps = divideRounding(value.num * step.den, value.den * step.num);
        // One more step after the last of a binade is the first of the next: the carry needs no case of its own.
        magnitude = (exponent - smallest) * 2 ** format.mantissa + Number(steps);
      }
    }
    if (magnitude <= largest) { return sign + magnitude; }
    if (overflow === "infinity" && format.specials === "ieee") { return sign + largest + 1; }
    if (overflow === "nan" && format.specials !== "finite") { return nanCode(format); }
    return sign + largest;
  }

  // ---- INT8 with one scale: the largest magnitude in a block is stored as 127

  const signedByte = (bits) => (bits >= 128 ? bits - 256 : bits);

  function decodeInt8(bits, blockMax) {
    const q = signedByte(bits);
    return finite(q < 0, BigInt(Math.abs(q)) * blockMax.num, 127n * blockMax.den);
  }

  function encodeInt8(value, blockMax) {
    if (value.kind === "nan") { return null; }
    let q = 127;
    if (value.kind === "finite") {
      const steps = divideRounding(value.num * 127n * blockMax.den, value.den * blockMax.num);
      q = steps > 127n ? 127 : Number(steps);
    }
    return value.negative && q > 0 ? 256 - q : q;
  }

  // ---- one interface for all formats. options: {overflow, blockMax}

  /** The value that `bits` (a whole number) stands for. */
  function decode(format, bits, options) {
    return format.integer ? decodeInt8(bits, options.blockMax) : decodeFloat(format, bits);
  }

  /** The bits that store `value`, rounded to nearest with ties to even; null for a NaN where there is none. */
  function encode(format, value, options) {
    return format.integer ? encodeInt8(value, options.blockMax) : encodeFloat(format, value, options.overflow);
  }

  /** The values next below and next above what `bits` stores; null past the ends and for NaN. */
  function neighbours(format, bits, options) {
    const value = decode(format, bits, options);
    if (value.kind === "nan") { return { below: null, above: null }; }
    const at = (position) => {
      if (format.integer) {
        return position < -128 || position > 127 ? null : decodeInt8((position + 256) % 256, options.blockMax);
      }
      const last = largestCode(format) + (format.specials === "ieee" ? 1 : 0);
      if (Math.abs(position) > last) { return null; }
      return decodeFloat(format, Math.abs(position) + (position < 0 ? 2 ** (width(format) - 1) : 0));
    };
    const half = 2 ** (width(format) - 1);
    const position = format.integer ? signedByte(bits) : bits >= half ? half - bits : bits;
    return { below: at(position - 1), above: at(position + 1) };
  }

  /** How `value` fares as `bits`: what is stored, its error, its neighbours, and a word for each. */
  function examine(format, value, bits, options) {
    const stored = decode(format, bits, options);
    const result = { format, bits, stored, ...neighbours(format, bits, options), error: null, relative: null };
    if (stored.kind === "nan" || stored.kind === "infinity") {
      result.kind = stored.kind === "nan" ? "NaN" : "infinity";
    } else if (stored.num === 0n) {
      result.kind = "zero";
    } else if (format.integer) {
      result.kind = "integer";
    } else {
      result.kind = Math.floor(bits / 2 ** format.mantissa) % 2 ** format.exponent === 0 ? "subnormal" : "normal";
    }
    result.event = "exact";
    if (value.kind === "finite" && stored.kind === "finite") {
      const difference = (stored.negative ? -1n : 1n) * stored.num * value.den - (value.negative ? -1n : 1n) * value.num * stored.den;
      result.error = finite(difference < 0n, difference < 0n ? -difference : difference, stored.den * value.den);
      if (value.num > 0n) { result.relative = finite(false, result.error.num * value.den, result.error.den * value.num); }
      if (difference !== 0n) { result.event = stored.num === 0n ? "underflow" : pastEnd(format, value, options) ? "overflow" : "rounded"; }
    } else if (value.kind !== stored.kind) {
      result.event = "overflow";
    }
    return result;
  }

  /** Whether rounding would need a number past the largest one. */
  function pastEnd(format, value, options) {
    if (format.integer) {
      return 2n * value.num * 127n * options.blockMax.den > 255n * value.den * options.blockMax.num;
    }
    const largest = decodeFloat(format, largestCode(format));
    const before = decodeFloat(format, largestCode(format) - 1);
    const bound = finite(false, 3n * largest.num * before.den - before.num * largest.den, 2n * largest.den * before.den);
    const side = compare(finite(false, value.num, value.den), bound);
    return side > 0 || (side === 0 && largestCode(format) % 2 === 1);
  }

  // ---- reading and writing numbers

  const POWER_LIMIT = 1100n;

  /** The exact value of what someone typed: a decimal, a fraction, a power, a sum of these, "inf" or "nan". Throws a sentence. */
  function parse(text) {
    const source = text.trim().toLowerCase().replace(/[\u2212\u2013]/g, "-").replace(/×/g, "*").replace(/(\d),(?=\d{3}\b)/g, "$1");
    const special = /^([+-]?)(nan|inf|infinity|∞)$/.exec(source);
    if (special) { return special[2] === "nan" ? NAN : infinity(special[1] === "-"); }
    if (source === "") { throw new Error("Type a number, for example 0.1"); }
    if (source.length > 400) { throw new Error("That is longer than 400 characters."); }
    const tokens = source.match(/\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|\*\*|[-+*/^()]|\S/g);
    let next = 0;
    const take = (...wanted) => (wanted.includes(tokens[next]) ? tokens[next++] : null);
    const bounded = (exponent) => {
      if (exponent > POWER_LIMIT || exponent < -POWER_LIMIT) { throw new Error(`An exponent may be at most ${POWER_LIMIT}.`); }
      return Number(exponent);
    };

    function decimal() {
      const token = tokens[next++] ?? "";
      const match = /^(\d*)\.?(\d*)(?:e([+-]?\d+))?$/.exec(token);
      if (!match || !(match[1] + match[2])) {
        throw new Error(token ? `Cannot read “${token}”. Try 0.1, 1/3, 2^-24 or 1 + 2^-11.` : "The number ends too early.");
      }
      const scale = power(10n, bounded(BigInt(match[3] ?? "0") - BigInt(match[2].length)));
      return { n: BigInt(match[1] + match[2]) * scale.num, d: scale.den };
    }
    function atom() {
      if (!take("(")) { return decimal(); }
      const value = sum();
      if (!take(")")) { throw new Error("A bracket is not closed."); }
      return value;
    }
    function powered() {
      const base = atom();
      if (!take("^", "**")) { return base; }
      const sign = take("-", "+") === "-" ? -1n : 1n;
      const { n, d } = atom();
      if (n % d !== 0n) { throw new Error("An exponent must be a whole number."); }
      const exponent = bounded(sign * (n / d));
      if (exponent < 0 && base.n === 0n) { throw new Error("That divides by zero."); }
      if (bitLength(base.n) * Math.abs(exponent) > 20000) { throw new Error("That power is too large to work out here."); }
      const size = BigInt(Math.abs(exponent));
      return exponent >= 0 ? { n: base.n ** size, d: base.d ** size } : { n: base.d ** size, d: base.n ** size };
    }
    function signed() {
      const sign = take("-", "+");
      const value = sign ? signed() : powered();
      return sign === "-" ? { n: -value.n, d: value.d, minusZero: value.n === 0n && !value.minusZero } : value;
    }
    function product() {
      let value = signed();
      for (let operator; (operator = take("*", "/")); ) {
        const other = signed();
        if (operator === "/" && other.n === 0n) { throw new Error("That divides by zero."); }
        const [n, d] = operator === "*" ? [value.n * other.n, value.d * other.d] : [value.n * other.d, value.d * other.n];
        value = d < 0n ? { n: -n, d: -d } : { n, d };
      }
      return value;
    }
    function sum() {
      let value = product();
      for (let operator; (operator = take("+", "-")); ) {
        const other = product();
        value = { n: value.n * other.d + (operator === "+" ? 1n : -1n) * other.n * value.d, d: value.d * other.d };
      }
      return value;
    }
    const { n, d, minusZero } = sum();
    if (next < tokens.length) { throw new Error(`Cannot read “${tokens[next]}”. Try 0.1, 1/3, 2^-24 or 1 + 2^-11.`); }
    return finite(n < 0n || minusZero === true, n < 0n ? -n : n, d);
  }

  /** num / den as `digits` significant decimal digits: {digits: "1234", exponent, exact}; the value is d.ddd × 10^exponent. */
  function significant(num, den, digits) {
    let exponent = num.toString().length - den.toString().length;
    const reaches = (e) => { const p = power(10n, e); return num * p.den >= den * p.num; };
    if (!reaches(exponent)) { exponent -= 1; }
    const scale = power(10n, digits - 1 - exponent);
    let rounded = divideRounding(num * scale.num, den * scale.den);
    const exact = rounded * den * scale.den === num * scale.num;
    if (rounded.toString().length > digits) { rounded /= 10n; exponent += 1; }
    return { digits: rounded.toString().replace(/0+$/, "") || "0", exponent, exact };
  }

  /** The nearest number of JavaScript, for drawing alone. */
  function approximate(value) {
    if (value.num === 0n) { return 0; }
    const { digits, exponent } = significant(value.num, value.den, 17);
    return (value.negative ? -1 : 1) * Number(`${digits[0]}.${digits.slice(1)}e${exponent}`);
  }

  const superscript = (n) => String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

  /** A value in at most `digits` significant digits, for people: "−0.1", "65,504", "5.96 × 10⁻⁸", "NaN". */
  function show(value, digits) {
    if (value.kind === "nan") { return { text: "NaN", exact: true }; }
    const sign = value.negative ? "−" : "";
    if (value.kind === "infinity") { return { text: `${sign}∞`, exact: true }; }
    if (value.num === 0n) { return { text: `${sign}0`, exact: true }; }
    const found = significant(value.num, value.den, digits);
    const { exponent, exact } = found;
    const all = found.digits;
    let text;
    if (exponent >= 0 && exponent < Math.max(digits, 7)) {
      const whole = all.padEnd(exponent + 1, "0");
      const rest = whole.slice(exponent + 1);
      text = whole.slice(0, exponent + 1).replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
    } else if (exponent < 0 && exponent >= -4) {
      text = `0.${"0".repeat(-exponent - 1)}${all}`;
    } else {
      text = `${all[0]}${all.length > 1 ? `.${all.slice(1)}` : ""} × 10${superscript(exponent)}`;
    }
    return { text: sign + text, exact };
  }

  /** Text that `parse` reads back as exactly this value: decimal where short, else whole number times power of two. */
  function typed(value) {
    if (value.kind === "nan") { return "nan"; }
    const sign = value.negative ? "-" : "";
    if (value.kind === "infinity") { return `${sign}inf`; }
    if (value.num === 0n) { return `${sign}0`; }
    const short = significant(value.num, value.den, 17);
    if (short.exact && short.exponent < 21 && short.exponent >= -7) {
      const { digits, exponent } = short;
      const padded = exponent < 0 ? "0".repeat(-exponent) + digits : digits.padEnd(exponent + 1, "0");
      const cut = Math.max(exponent, 0) + 1;
      return sign + padded.slice(0, cut) + (padded.length > cut ? `.${padded.slice(cut)}` : "");
    }
    if (short.exact) { return `${sign}${short.digits[0]}${short.digits.length > 1 ? `.${short.digits.slice(1)}` : ""}e${short.exponent}`; }
    let { num, den } = value;
    let exponent = 0;
    while (num % 2n === 0n) { num /= 2n; exponent += 1; }
    while (den % 2n === 0n) { den /= 2n; exponent -= 1; }
    const whole = num === 1n && den === 1n ? "" : `${num}${den === 1n ? "" : `/${den}`}*`;
    return `${sign}${whole}2^${exponent}`;
  }

  window.oneGpu = Object.assign(window.oneGpu || {}, {
    formats: { FORMATS, width, bias, decode, encode, examine, parse, show, typed, approximate, compare },
  });
})();
