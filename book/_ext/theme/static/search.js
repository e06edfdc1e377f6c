// Finds the words of ?q=… in SEARCH_DATA (search-data.js, written by the build), ranks by where they stand, and shows the
// place itself. The data is loaded with a query alone, and by a script element: files opened from a disk cannot fetch.
(function () {
  "use strict";
  var results = document.getElementById("search-results");
  var query = (new URLSearchParams(location.search).get("q") || "").trim();
  var LONGEST = 40, AROUND = 110;
  // What a word counts for in each place. A term of the glossary that is the word itself comes first.
  var WEIGHT = { term: 30, termStart: 9, page: 14, heading: 10, text: 1 }, MOST_COUNTED = 8, WHOLE_WORD = 1, START_OF_WORD = 0.6;

  function element(tag, className, text) {
    var made = document.createElement(tag);
    if (className) { made.className = className; }
    if (text) { made.textContent = text; }
    return made;
  }

  /** A word and its other spellings: optimiser as optimizer, formats as format. */
  function spellings(word) {
    var found = [word];
    found.push(word.replace(/is(e|es|ed|er|ers|ing|ation|ations)$/, "iz$1"), word.replace(/our(s?)$/, "or$1"));
    found.slice().forEach(function (one) { if (/[^s]s$/.test(one) && one.length > 4) { found.push(one.slice(0, -1)); } });
    return found.filter(function (one, i) { return found.indexOf(one) === i; });
  }

  /** The query as a list of terms; each is a list of words or phrases of which one must be there. */
  function terms(words, aliases) {
    var rest = " " + words.toLowerCase().replace(/[^\p{L}\p{N}.+-]+/gu, " ").trim() + " ";
    var found = [];
    var names = [];
    aliases.forEach(function (group) { group.forEach(function (name) { names.push({ name: name, group: group }); }); });
    names.sort(function (a, b) { return b.name.length - a.name.length; }); // "out of memory" before "memory"
    names.forEach(function (one) {
      [one.name, one.name + "s"].forEach(function (form) {
        if (rest.indexOf(" " + form + " ") >= 0) {
          rest = rest.replace(" " + form + " ", " ");
          found.push(one.group);
        }
      });
    });
    rest.trim().split(/\s+/).forEach(function (word) { if (/[\p{L}\p{N}]/u.test(word)) { found.push(spellings(word)); } });
    return found;
  }

  function pattern(term) {
    var escaped = term.map(function (one) { return one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"); });
    return new RegExp("(?<![\\p{L}\\p{N}])(?:" + escaped.join("|") + ")(s?(?![\\p{L}\\p{N}]))?", "giu");
  }

  /** How much of `text` the pattern finds, whole words for more than beginnings. */
  function strength(text, wanted) {
    var found = text.match(wanted);
    if (!found) { return 0; }
    var whole = 0;
    text.replace(wanted, function (hit, end) { if (end !== undefined) { whole += 1; } return hit; });
    return Math.min(MOST_COUNTED, whole * WHOLE_WORD + (found.length - whole) * START_OF_WORD);
  }

  function rank(passage, page, wanted) {
    var score = 0, matched = 0;
    wanted.forEach(function (one) {
      var inTitle = Math.min(1, strength(passage.title, one)), inText = strength(passage.text, one);
      var here = inText * WEIGHT.text;
      if (inTitle) {
        var rest = passage.title.replace(one, "").replace(/[^\p{L}\p{N}]/gu, "");
        here += inTitle * (passage.term ? (rest ? WEIGHT.termStart : WEIGHT.term) : passage.top ? WEIGHT.page : WEIGHT.heading);
      }
      if (here) { matched += 1; }
      score += here;
      if (!here && page.title.match(one)) { matched += 1; }
    });
    return { score: score, matched: matched };
  }

  /** `text` with what was found marked, never read as markup. */
  function marked(place, text, wanted) {
    var any = new RegExp(wanted.map(function (one) { return one.source; }).join("|"), "giu");
    var from = 0;
    text.replace(any, function (hit) {
      var at = arguments[arguments.length - 2];
      place.append(text.slice(from, at), element("mark", "", hit));
      from = at + hit.length;
      return hit;
    });
    place.append(text.slice(from));
  }

  function snippet(text, wanted) {
    var first = -1;
    wanted.forEach(function (one) { var at = text.search(one); if (at >= 0 && (first < 0 || at < first)) { first = at; } });
    var from = Math.max(0, (first < 0 ? 0 : first) - AROUND), to = Math.min(text.length, from + 2 * AROUND + 20);
    if (from > 0) { from = text.indexOf(" ", from) + 1; }
    if (to < text.length) { to = Math.max(text.lastIndexOf(" ", to), from); }
    return (from > 0 ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
  }

  function search(data) {
    var wanted = terms(query, data.aliases).map(pattern);
    var found = [];
    data.pages.forEach(function (page) {
      page.title = page.passages.length ? page.passages[0][1] : page.page;
      page.passages.forEach(function (raw, i) {
        var passage = { page: page, anchor: raw[0], title: raw[1], text: raw[2], term: raw[3] === 1, top: i === 0 };
        var ranked = rank(passage, page, wanted);
        passage.score = ranked.score;
        passage.matched = ranked.matched;
        if (passage.score > 0) { found.push(passage); }
      });
    });
    var most = Math.max.apply(null, found.map(function (passage) { return passage.matched; }).concat(0));
    found = found.filter(function (passage) { return passage.matched === most; });
    found.sort(function (a, b) { return b.score - a.score; });
    show(found, wanted, most);
  }

  function show(found, wanted, most) {
    var said = element("p", "search-summary");
    said.setAttribute("role", "status");
    results.replaceChildren(element("h2", "", "Search results"), said);
    if (!found.length) {
      said.textContent = "Your words did not match any page. Are they spelled as the book has them? The glossary lists its terms.";
      return;
    }
    said.textContent = (found.length === 1 ? "One place found" : found.length + " places found") +
      (found.length > LONGEST ? "; the first " + LONGEST + " are shown" : "") +
      (most < wanted.length ? ". No place has all your words; these have " + most + " of " + wanted.length + "." : ".");
    var list = element("ul", "search");
    found.slice(0, LONGEST).forEach(function (passage) {
      var item = element("li");
      var link = element("a");
      link.href = passage.page.page + ".html" + (passage.anchor ? "#" + passage.anchor : "");
      marked(link, passage.title, wanted);
      item.append(link);
      if (!passage.top) { item.append(element("span", "search-where", passage.term ? "Glossary" : passage.page.title)); }
      var words = element("p", "search-summary");
      marked(words, snippet(passage.text, wanted), wanted);
      item.append(words);
      list.append(item);
    });
    results.append(list);
  }

  if (query) {
    document.getElementById("query").value = query;
    var script = element("script");
    script.src = document.documentElement.dataset.content_root + "_static/search-data.js";
    script.onload = function () { search(window.SEARCH_DATA); };
    document.head.append(script);
  }
})();
