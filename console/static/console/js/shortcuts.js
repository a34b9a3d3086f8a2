// Keys act on what the page declares by data-key; none of them approves, denies or settles.
let prefix = "";
let forgetting;

function typing(target) {
  return target.closest("input, textarea, select, [contenteditable], dialog");
}

function declared(key) {
  const found = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!found) return false;
  if (found.matches("input")) found.focus();
  else found.click();
  return true;
}

function move(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("is-cursor"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
  rows[at]?.classList.remove("is-cursor");
  next.classList.add("is-cursor");
  next.querySelector("a").focus();
}

const OWN = {
  j: () => move(1),
  k: () => move(-1),
  e: () => {
    const folds = [...document.querySelectorAll(".args details, details.args-fold")];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  },
};

addEventListener("keydown", (event) => {
  if (document.body.dataset.shortcuts !== "on" || event.altKey || event.isComposing) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    document.dispatchEvent(new CustomEvent("key:palette"));
    return;
  }
  if (event.ctrlKey || event.metaKey || typing(event.target)) return;
  const key = prefix ? `${prefix} ${event.key}` : event.key;
  clearTimeout(forgetting);
  prefix = "";
  if (key === "g") {
    prefix = "g";
    forgetting = setTimeout(() => (prefix = ""), 1200);
  } else if (OWN[key]) OWN[key]();
  else if (declared(key)) event.preventDefault();
  else document.dispatchEvent(new CustomEvent(`key:${key}`));
});
