// The live dot: says whether the page hears of changes, pauses it, and asks again while it cannot.
const live = document.getElementById("live");
const dot = document.getElementById("live-dot");
const made = document.querySelector("[data-made] time");
const NAMES = ["op-changed", "approval-changed", "incident-changed"];
let paused = false;
let since = Date.now();
const changed = new Set();

function tell(state, text) {
  if (dot.dataset.state !== state) since = Date.now();
  dot.dataset.state = state;
  dot.firstElementChild.textContent = text;
}

if (live && dot) {
  live.addEventListener("htmx:sse:after:connection", () => tell("on", "updating"));
  for (const name of ["htmx:sse:error", "htmx:sse:close", "htmx:error"]) {
    live.addEventListener(name, () => {
      if (!paused) tell("off", `reconnecting, data as of ${made ? made.textContent : "before"}`);
    });
  }
  for (const name of NAMES) {
    addEventListener(name, (event) => {
      if (event.target !== live) return;
      if (paused) event.stopPropagation();
      else note(event.detail?.data);
    }, true);
  }
  document.addEventListener("key:p", () => {
    paused = !paused;
    if (paused) tell("paused", "paused, p resumes");
    else {
      tell("on", "updating");
      live.dispatchEvent(new CustomEvent("resync"));
    }
  });
  setInterval(() => {
    if (dot.dataset.state !== "off") return;
    live.dispatchEvent(new CustomEvent("resync"));
    document.body.classList.toggle("is-stale", Date.now() - since > 120_000);
  }, 30_000);
}

// A part that could not be refreshed keeps what it shows, and says how old that is.
document.addEventListener("htmx:response:error", ({ detail: { ctx } }) => {
  if (ctx.response.status === 401) document.getElementById("signed-out").hidden = false;
  if (ctx.target?.id && ctx.target !== live) {
    ctx.target.dataset.old = `Could not be refreshed. As of ${made ? made.textContent : "before"}.`;
  }
});
document.addEventListener("htmx:after:swap", ({ detail: { ctx } }) => delete ctx.target?.dataset?.old);

// A list never grows under the reader: what is new is announced and shown on demand.
function note(data) {
  const pill = document.getElementById("news");
  if (!pill || !data) return;
  const { id } = JSON.parse(data);
  if (document.querySelector(`[data-id="${CSS.escape(id)}"]`)) return;
  changed.add(id);
  pill.hidden = false;
  pill.querySelector("span").textContent = `${changed.size} new or changed: show`;
}
