// Ctrl/⌘-K: go to any id, key or page. Without script the form in the top bar does the same.
const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const list = document.getElementById("palette-list");
let chosen = 0;
let asked = 0;

function option(label, href, kind) {
  const item = document.createElement("div");
  item.setAttribute("role", "option");
  item.id = `palette-${list.children.length}`;
  item.dataset.href = href;
  item.append(label);
  if (kind) {
    const tag = document.createElement("span");
    tag.className = "tag push";
    tag.textContent = kind;
    item.append(tag);
  }
  list.append(item);
}

function mark(index) {
  const items = [...list.children];
  chosen = items.length ? (index + items.length) % items.length : 0;
  items.forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
  if (items.length) input.setAttribute("aria-activedescendant", items[chosen].id);
  else input.removeAttribute("aria-activedescendant");
  items[chosen]?.scrollIntoView({ block: "nearest" });
}

async function fill() {
  const text = input.value.trim();
  const turn = ++asked;
  list.replaceChildren();
  for (const place of document.querySelectorAll("[data-place]")) {
    const label = place.querySelector("span").textContent;
    if (label.toLowerCase().includes(text.toLowerCase())) option(label, place.href, place.dataset.key);
  }
  mark(0);
  if (text.length < 3) return;
  const answer = await fetch(`${dialog.dataset.suggestions}?q=${encodeURIComponent(text)}`);
  if (!answer.ok || turn !== asked) return;
  for (const hit of (await answer.json()).hits) option(hit.label, hit.href, hit.kind);
  mark(0);
}

document.addEventListener("key:palette", () => {
  dialog.showModal();
  input.value = "";
  fill();
});
input.addEventListener("input", fill);
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") mark(chosen + 1);
  else if (event.key === "ArrowUp") mark(chosen - 1);
  else if (event.key === "Enter" && list.children[chosen]) location.href = list.children[chosen].dataset.href;
  else return;
  event.preventDefault();
});
list.addEventListener("click", (event) => {
  const item = event.target.closest("[data-href]");
  if (item) location.href = item.dataset.href;
});
