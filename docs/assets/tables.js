// Tables that are wider than the page scroll; with a place in the tab order, they do so by keyboard too.
new MutationObserver(() => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) wrap.tabIndex = 0;
}).observe(document.documentElement, { childList: true, subtree: true });
