// z: every time on the page in UTC, or in the viewer's own zone again.
const KEY = "times-in-utc";
let utc = sessionStorage.getItem(KEY) === "1";

function show() {
  for (const time of document.querySelectorAll("time[data-utc]")) {
    if (utc && time.textContent !== time.dataset.utc) {
      time.dataset.local = time.textContent;
      time.textContent = time.dataset.utc;
    } else if (!utc && time.dataset.local) {
      time.textContent = time.dataset.local;
      delete time.dataset.local;
    }
  }
  for (const zone of document.querySelectorAll("[data-zone]")) {
    zone.dataset.own ??= zone.textContent;
    zone.textContent = utc ? "UTC" : zone.dataset.own;
  }
}

document.addEventListener("key:z", () => {
  utc = !utc;
  sessionStorage.setItem(KEY, utc ? "1" : "");
  show();
});
document.addEventListener("htmx:after:swap", show);
if (utc) show();
