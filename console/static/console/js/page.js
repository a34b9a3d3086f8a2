// Says that script runs, and puts the focus where the result of an action is told.
document.documentElement.classList.add("js");

if (document.querySelector(".message")) {
  const heading = document.querySelector("h1");
  if (heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
}

// Open the argument that the address names: #arg=/payee/iban
const wanted = decodeURIComponent(location.hash.slice(1));
if (wanted.startsWith("arg=")) {
  const row = document.getElementById(wanted);
  row?.closest("details")?.setAttribute("open", "");
  row?.scrollIntoView({ block: "center" });
}
