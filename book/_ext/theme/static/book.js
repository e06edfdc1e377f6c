// What every page needs: colours, contents on narrow screens, copy buttons, keyboard access to what scrolls.
(function () {
  "use strict";
  var root = document.documentElement;
  var dark = matchMedia("(prefers-color-scheme: dark)");

  // Colours: as the system, light, dark. The page's head has set data-choice and data-theme before the first paint.
  var NAMES = { auto: "as the system", light: "light", dark: "dark" };
  var themeButton = document.getElementById("theme-button");

  function applyChoice(choice) {
    root.dataset.choice = choice;
    root.dataset.theme = choice === "auto" ? (dark.matches ? "dark" : "light") : choice;
    themeButton.setAttribute("aria-label", "Colours: " + NAMES[choice]);
    themeButton.title = "Colours: " + NAMES[choice];
  }

  themeButton.addEventListener("click", function () {
    var order = ["auto", "light", "dark"];
    var choice = order[(order.indexOf(root.dataset.choice) + 1) % order.length];
    try { localStorage.setItem("theme", choice); } catch (error) { /* private mode: the choice lasts for this page */ }
    applyChoice(choice);
  });
  dark.addEventListener("change", function () { applyChoice(root.dataset.choice); });
  applyChoice(root.dataset.choice);

  // Contents: the current page is in view; on narrow screens they open and close.
  var menuButton = document.getElementById("menu-button");
  var contents = document.getElementById("contents");

  var current = contents.querySelector("a.current");
  if (current && contents.scrollHeight > contents.clientHeight) {
    contents.scrollTop = current.offsetTop - contents.clientHeight / 3;
  }

  function setMenu(open) {
    menuButton.setAttribute("aria-expanded", String(open));
    contents.classList.toggle("open", open);
  }

  menuButton.addEventListener("click", function () {
    setMenu(menuButton.getAttribute("aria-expanded") !== "true");
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && contents.classList.contains("open")) {
      setMenu(false);
      menuButton.focus();
    }
  });

  // The list of sections is open where there is room beside the text, closed where it would push the text down.
  var pageToc = document.getElementById("page-toc");
  var wide = matchMedia("(min-width: 75rem)");
  function placeToc() { if (pageToc) { pageToc.open = wide.matches; } }
  wide.addEventListener("change", placeToc);
  placeToc();

  // A box that scrolls sideways must be reachable with the keyboard, and show at which edges it goes on.
  function markScroller(box) {
    var left = box.scrollLeft, hidden = box.scrollWidth - box.clientWidth;
    if (hidden <= 1) { box.removeAttribute("tabindex"); box.removeAttribute("data-more"); return; }
    box.setAttribute("tabindex", "0");
    box.dataset.more = (left > 1 ? "start" : "") + (left > 1 && left < hidden - 1 ? " " : "") + (left < hidden - 1 ? "end" : "");
  }
  var scrollers = document.querySelectorAll(".highlight pre, .output pre, .table-scroll, .math-scroll");
  function markScrollers() { scrollers.forEach(markScroller); }
  scrollers.forEach(function (box) { box.addEventListener("scroll", function () { markScroller(box); }, { passive: true }); });
  addEventListener("resize", markScrollers);
  addEventListener("load", markScrollers);
  markScrollers();

  // Copy buttons on code that a reader may want to run.
  document.querySelectorAll("div.highlight").forEach(function (block) {
    if (!block.closest(".cell_input, .literal-block-wrapper, [class*='highlight-']") || block.closest(".cell_output")) { return; }
    if (!navigator.clipboard) { return; }
    var button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(block.querySelector("pre").innerText).then(
        function () { button.textContent = "Copied"; },
        function () { button.textContent = "Press Ctrl+C"; }
      );
      setTimeout(function () { button.textContent = "Copy"; }, 2000);
    });
    block.appendChild(button);
  });
})();
