// Says more about each page that Sphinx's search finds: the glossary term that matched, and the page's first sentence.
// DESCRIPTIONS comes from page-descriptions.js, which the build writes.
(function () {
  "use strict";
  var results = document.getElementById("search-results");

  function describe(item) {
    var link = item.querySelector("a");
    if (!link || item.dataset.described) { return; }
    item.dataset.described = "yes";
    var parts = link.getAttribute("href").replace(/\?[^#]*/, "").split("#");
    var term = /^term-(.+)$/.exec(parts[1] || "");
    if (term) {
      link.textContent = decodeURIComponent(term[1]).replace(/-/g, " ") + " (glossary)";
      return;
    }
    var text = DESCRIPTIONS[parts[0].replace(/^\.\//, "").replace(/\.html$/, "")];
    if (text && !parts[1]) {
      var summary = document.createElement("p");
      summary.className = "search-summary";
      summary.textContent = text;
      item.appendChild(summary);
    }
  }

  new MutationObserver(function () {
    // Announce how many pages were found, not each of them.
    var count = results.querySelector(":scope > p.search-summary:not([role])");
    if (count) { count.setAttribute("role", "status"); }
    results.querySelectorAll(".search > li").forEach(describe);
  }).observe(results, { childList: true, subtree: true });
})();
